//! Where batches are pushed to: the engine, its address, and what it is authorised with.
//!
//! Made by the application or by the command. Invariants: an address contains no secret; a secret
//! is in no message and in no `Debug` output.

use std::borrow::Cow;
use std::collections::HashSet;

use ureq::http::Uri;
use ureq::http::uri::Authority;

use super::PushError;
pub use profiler_files::secret_file::Secret;
use profiler_files::secret_file::SecretError;
use profiler_fleet::{CLICKHOUSE_PORT, DEFAULT_DATABASE, is_of_name};

/// The engine at a destination, which decides about the encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PushEngine {
    /// A collector or backend that takes OTLP over HTTP: traces, metrics and profiles.
    Otlp,
    /// Pyroscope: profiles in the format pprof.
    Pyroscope,
    /// Parca: profiles in the format pprof.
    Parca,
    /// ClickHouse: rows of samples, spans, counters, groups and processes.
    ClickHouse,
}

impl PushEngine {
    /// The word for it in an address: `otlp+http://…`.
    const fn scheme(self) -> &'static str {
        match self {
            Self::Otlp => "otlp",
            Self::Pyroscope => "pyroscope",
            Self::Parca => "parca",
            Self::ClickHouse => "clickhouse",
        }
    }

    const ALL: [Self; 4] = [Self::Otlp, Self::Pyroscope, Self::Parca, Self::ClickHouse];
}

/// What a request is authorised with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Authorization {
    #[default]
    None,
    /// A token in the header `Authorization`.
    Bearer(Secret),
    /// A user and a password, as the engine wants them.
    User { name: String, password: Secret },
}

/// A destination of a pusher.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a destination does nothing until it is given to a pusher"]
pub struct PushDestination {
    pub(crate) engine: PushEngine,
    /// Without a slash at its end, and without a query.
    pub(crate) base: String,
    /// The part of the address behind the host: for ClickHouse the database.
    pub(crate) path: String,
    pub(crate) authorization: Authorization,
}

impl PushDestination {
    /// The destination with this address: `otlp+http://HOST:PORT/PATH`, `pyroscope+http://…`,
    /// `parca+http://…` or `clickhouse+http://HOST:PORT/DATABASE`, or the same with `https`.
    /// `https` needs the feature `tls`. `clickhouse://` is short for `clickhouse+http://`. The
    /// default port is 8123 for `clickhouse+http`, and otherwise 80 for `http` and 443 for `https`.
    ///
    /// # Errors
    /// [`PushError::Address`].
    pub fn parse(address: &str) -> Result<Self, PushError> {
        let refused = |reason: &'static str| PushError::Address {
            address: without_secrets(address),
            reason,
        };
        let parts = PushEngine::ALL.into_iter().find_map(|engine| {
            let rest = address.strip_prefix(engine.scheme())?;
            match rest.strip_prefix('+') {
                Some(url) => Some((engine, Cow::Borrowed(url))),
                // The form of `profiler fleet`.
                None if engine == PushEngine::ClickHouse && rest.starts_with("://") => {
                    Some((engine, Cow::Owned(format!("http{rest}"))))
                }
                None => None,
            }
        });
        let (engine, url) = parts.ok_or_else(|| {
            refused("it must begin with otlp+, pyroscope+, parca+ or clickhouse+, as otlp+http://HOST:4318 does")
        })?;
        let uri: Uri = url
            .parse()
            .map_err(|_| refused("it is not a valid address"))?;
        Self::of(engine, &uri).map_err(refused)
    }

    fn of(engine: PushEngine, uri: &Uri) -> Result<Self, &'static str> {
        let authority = uri.authority().ok_or("it has no host")?;
        if authority.as_str().contains('@') {
            return Err("it must not contain a user or a password; give them separately");
        }
        let port = authority.as_str().strip_prefix(authority.host());
        if port.is_some_and(|port| !port.is_empty())
            && authority.port_u16().is_none_or(|port| port == 0)
        {
            return Err("its port is not a number from 1 to 65535");
        }
        let scheme = match uri.scheme_str() {
            Some("http") => "http",
            Some("https") if cfg!(feature = "tls") => "https",
            Some("https") => return Err("this build has no TLS (feature tls)"),
            _ => return Err("only http and https are possible"),
        };
        if uri.query().is_some() {
            return Err("it must not have a query");
        }
        let path = uri.path().trim_end_matches('/');
        let database = path.trim_start_matches('/');
        if engine == PushEngine::ClickHouse && !database.chars().all(is_of_name) {
            return Err("its database has characters other than letters, digits, _ - .");
        }
        let path = match (engine, database) {
            (PushEngine::ClickHouse, "") => format!("/{DEFAULT_DATABASE}"),
            (PushEngine::ClickHouse, database) => format!("/{database}"),
            _ => path.to_owned(),
        };
        Ok(Self {
            engine,
            base: format!("{scheme}://{}", server(engine, scheme, authority)),
            path,
            authorization: Authorization::None,
        })
    }

    /// Sends this token with each request: `Authorization: Bearer …`.
    pub fn token(mut self, token: Secret) -> Self {
        self.authorization = Authorization::Bearer(token);
        self
    }

    /// Sends this user and password with each request.
    pub fn user(mut self, name: impl Into<String>, password: Secret) -> Self {
        self.authorization = Authorization::User {
            name: name.into(),
            password,
        };
        self
    }

    /// Refuses a user or a secret that cannot be in a header.
    pub(super) fn check(&self) -> Result<(), PushError> {
        let (name, secret) = match &self.authorization {
            Authorization::None => return Ok(()),
            Authorization::Bearer(token) => ("", token),
            Authorization::User { name, password } => (name.as_str(), password),
        };
        let mut letters = name.chars().chain(secret.reveal().chars());
        if letters.any(char::is_control) {
            let error = SecretError {
                origin: format!("the options for {}", self.address()),
                reason: "the user or the secret has control characters".to_owned(),
            };
            return Err(error.into());
        }
        Ok(())
    }

    /// The engine at this destination.
    pub const fn engine(&self) -> PushEngine {
        self.engine
    }

    /// The address, which contains no secret.
    pub fn address(&self) -> String {
        format!("{}+{}{}", self.engine.scheme(), self.base, self.path)
    }
}

/// The host and the port in the same form for all addresses of a server, because a spool knows a
/// destination by its address.
fn server(engine: PushEngine, scheme: &str, authority: &Authority) -> String {
    let host = authority.host().to_ascii_lowercase();
    let usual = if scheme == "http" { 80 } else { 443 };
    match (engine, authority.port_u16()) {
        (PushEngine::ClickHouse, None) if scheme == "http" => format!("{host}:{CLICKHOUSE_PORT}"),
        (PushEngine::ClickHouse, Some(port)) if scheme == "http" => format!("{host}:{port}"),
        (_, Some(port)) if port != usual => format!("{host}:{port}"),
        _ => host,
    }
}

/// The part of an address that has no secret, for messages: the beginning up to a query, and the
/// scheme alone if there may be a user, because a password may contain any character.
fn without_secrets(address: &str) -> String {
    if address.contains('@') {
        let (scheme, _) = address.split_once("//").unwrap_or_default();
        return format!("{scheme}//…");
    }
    match address.find(['?', '#']) {
        Some(end) => format!("{}…", address.get(..end).unwrap_or_default()),
        None => address.to_owned(),
    }
}

/// Refuses destinations that no request can reach, and two with the same address: the spool knows
/// a destination by it.
pub(crate) fn check(destinations: &[PushDestination]) -> Result<(), PushError> {
    if destinations.is_empty() {
        return Err(PushError::NoDestination);
    }
    let mut addresses = HashSet::new();
    for destination in destinations {
        destination.check()?;
        if !addresses.insert(destination.address()) {
            return Err(PushError::Address {
                address: destination.address(),
                reason: "it is given twice",
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use profiler_fleet::FleetAddress;

    #[test]
    fn an_address_names_the_engine_and_where_it_is() {
        let parsed = PushDestination::parse("clickhouse+http://127.0.0.1:8123/profiles/").unwrap();
        assert_eq!(parsed.engine(), PushEngine::ClickHouse);
        assert_eq!(parsed.base, "http://127.0.0.1:8123");
        assert_eq!(parsed.path, "/profiles");
        assert_eq!(
            parsed.address(),
            "clickhouse+http://127.0.0.1:8123/profiles"
        );
    }

    #[test]
    fn push_and_fleet_accept_both_forms_of_a_clickhouse_address() {
        for (address, canonical) in [
            ("clickhouse://db", "clickhouse+http://db:8123/profiler"),
            ("clickhouse+http://db/x/", "clickhouse+http://db:8123/x"),
            ("clickhouse+http://db:80/x", "clickhouse+http://db:80/x"),
            ("clickhouse://[::1]:9/x", "clickhouse+http://[::1]:9/x"),
        ] {
            let of_fleet = address.parse::<FleetAddress>().unwrap();
            let address = PushDestination::parse(address).unwrap().address();
            assert_eq!(address, canonical);
            assert_eq!(address.parse(), Ok(of_fleet.clone()));
            assert_eq!(of_fleet.to_string(), canonical.replace("+http", ""));
        }
    }

    #[test]
    fn a_server_has_one_address() {
        for (address, canonical) in [
            ("otlp+http://Host:80/v1/", "otlp+http://host/v1"),
            ("otlp+http://host:4318", "otlp+http://host:4318"),
            ("parca+http://HOST:443", "parca+http://host:443"),
            ("clickhouse+http://host//x", "clickhouse+http://host:8123/x"),
        ] {
            let destination = PushDestination::parse(address).unwrap();
            assert_eq!(destination.address(), canonical);
        }
        let server = |text: &str| server(PushEngine::ClickHouse, "https", &text.parse().unwrap());
        assert_eq!(["h", "h:443", "h:80"].map(server), ["h", "h", "h:80"]);
    }

    #[test]
    fn an_address_that_cannot_be_used_is_refused_without_its_secrets() {
        for (address, part) in [
            ("http://host", "must begin with otlp+"),
            ("otlp://host", "must begin with otlp+"),
            ("clickhouse://me:hunter2@host", "must not contain a user"),
            ("otlp+ftp://host", "only http and https"),
            ("otlp+http:///v1", "not a valid address"),
            ("otlp+http://host:99999", "its port"),
            ("otlp+http://host:0", "its port"),
            ("otlp+http://host:", "its port"),
            ("otlp+http://[::1]:0/v1", "its port"),
            ("otlp+http://host/?token=hunter2", "must not have a query"),
            ("otlp+http://host/?a@hunter2", "must not have a query"),
            ("otlp+http://me:hunter2@host", "must not contain a user"),
            ("otlp+http://me:x?hunter2@host", "cannot push to"),
            ("http://host/#hunter2", "must begin with otlp+"),
            ("clickhouse+http://host/a;b", "its database has"),
            ("clickhouse+http://host/a/b", "its database has"),
        ] {
            let error = PushDestination::parse(address).unwrap_err().to_string();
            assert!(error.contains(part), "{address}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_secret_is_not_shown() {
        let destination = PushDestination::parse("otlp+http://host").unwrap();
        let destination = destination.token(Secret::new("hunter2"));
        assert!(!format!("{destination:?}").contains("hunter2"));
    }

    #[test]
    fn a_secret_that_cannot_be_in_a_header_is_refused_before_anything_is_sent() {
        let destination = || PushDestination::parse("otlp+http://host").unwrap();
        let token = |token| destination().token(Secret::new(token)).check();
        assert!(token("hunter2").is_ok());
        let error = token("hunter2\n").unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
        let user = |name| destination().user(name, Secret::new("hunter2")).check();
        assert!(user("me").is_ok());
        assert!(user("m\0e").is_err());
    }
}
