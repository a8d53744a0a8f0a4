//! The address of a store: `clickhouse://[USER@]HOST[:PORT][/DATABASE]`.
//!
//! The port is that of ClickHouse's HTTP interface. `clickhouse+http://…`, the form of a pusher's
//! addresses, means the same. Invariant: an address has no password, so it can be printed.

use std::fmt;
use std::str::FromStr;

const SCHEME: &str = "clickhouse://";
/// The beginning of a pusher's address.
const PUSH_SCHEME: &str = "clickhouse+http://";
/// The port of ClickHouse's HTTP interface.
pub const CLICKHOUSE_PORT: u16 = 8123;
/// The database that `profiler fleet ddl` creates.
pub const DEFAULT_DATABASE: &str = "profiler";

/// Where a store is. See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetAddress {
    /// The user, if not ClickHouse's default user.
    pub(super) user: Option<String>,
    /// A name or an address; an IPv6 address has brackets.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) database: String,
}

/// A text is not an address of a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an address like clickhouse://HOST:8123/DATABASE: {why}")]
pub struct InvalidAddress {
    /// The problem, in words. It does not repeat the text, which may have a password.
    pub why: &'static str,
}

impl FromStr for FleetAddress {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let wrong = |why| InvalidAddress { why };
        let rest = text
            .strip_prefix(SCHEME)
            .or_else(|| text.strip_prefix(PUSH_SCHEME))
            .ok_or(wrong("it does not begin with clickhouse://"))?;
        let (server, database) = rest.split_once('/').unwrap_or((rest, ""));
        let database = database.trim_end_matches('/');
        let (user, place) = match server.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, server),
        };
        if user.is_some_and(|user| user.contains(':')) {
            return Err(wrong(
                "it has a password; name a file or a variable that has it",
            ));
        }
        let (host, port) = split_port(place).ok_or(wrong("its port is no number"))?;
        if host.is_empty() || !host.chars().all(is_of_host) {
            return Err(wrong("it has no host"));
        }
        if !database
            .chars()
            .chain(user.unwrap_or_default().chars())
            .all(is_of_name)
        {
            return Err(wrong(
                "its user or database has characters other than letters, digits, _ - .",
            ));
        }
        Ok(Self {
            user: user.filter(|user| !user.is_empty()).map(str::to_owned),
            host: host.to_owned(),
            port: port.unwrap_or(CLICKHOUSE_PORT),
            database: if database.is_empty() {
                DEFAULT_DATABASE
            } else {
                database
            }
            .to_owned(),
        })
    }
}

/// Splits `HOST:PORT`; `None` if the port is no number. An IPv6 address has brackets.
fn split_port(place: &str) -> Option<(&str, Option<u16>)> {
    match place.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => Some((host, Some(port.parse().ok()?))),
        _ => Some((place, None)),
    }
}

/// Whether a character may be in the name of a database or a user.
pub fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "_-.".contains(letter)
}

fn is_of_host(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "-._[]:".contains(letter)
}

impl FleetAddress {
    /// The database.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// The URL of requests.
    pub(super) fn url(&self) -> String {
        let Self {
            host,
            port,
            database,
            ..
        } = self;
        format!("http://{host}:{port}/?database={database}")
    }
}

impl fmt::Display for FleetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            host,
            port,
            database,
            ..
        } = self;
        write!(f, "{SCHEME}{host}:{port}/{database}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_defaults_for_all_but_the_host() {
        let parsed = |text: &str| text.parse::<FleetAddress>().unwrap();
        let address = parsed("clickhouse://db");
        assert_eq!(address.to_string(), "clickhouse://db:8123/profiler");
        assert_eq!(address.user, None);
        let address = parsed("clickhouse://reader@[::1]:18123/fleet");
        assert_eq!(address.url(), "http://[::1]:18123/?database=fleet");
        assert_eq!(address.user.as_deref(), Some("reader"));
    }

    #[test]
    fn an_address_with_a_password_is_refused_without_repeating_it() {
        let error = "clickhouse://me:secret@db/x".parse::<FleetAddress>();
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("password") && !error.contains("secret"),
            "{error}"
        );
    }

    #[test]
    fn other_texts_are_no_addresses() {
        for text in [
            "http://db",
            "clickhouse://",
            "clickhouse://db:port",
            "clickhouse://db/a&user=b",
            "clickhouse://db#x",
            "clickhouse://a b/",
        ] {
            assert!(text.parse::<FleetAddress>().is_err(), "{text}");
        }
    }
}
