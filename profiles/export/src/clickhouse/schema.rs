//! The statements that create the tables of the store.
//!
//! Printed by `profiler fleet ddl`. The statements are in `schema/`; they are valid for ClickHouse
//! 18.16 and later. In the files, `{local}` is `_local` on the servers of a cluster, and `{ttl}` is
//! the clause that deletes old rows, which ClickHouse has since 19.6. Invariant: a name in a
//! statement is an identifier, so a name can never become another statement.

use std::fmt;

/// The tables of one server.
const LOCAL: &str = include_str!("schema/local.sql");
/// The tables over the servers of a cluster.
const DISTRIBUTED: &str = include_str!("schema/distributed.sql");
/// The suffix of the tables of one server of a cluster.
const LOCAL_SUFFIX: &str = "_local";

/// What the server can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// ClickHouse 19.6 or later: rows are deleted when they are too old.
    #[default]
    Current,
    /// ClickHouse 18.16 to 19.5, which has no `TTL`: days are dropped by hand.
    WithoutTtl,
}

/// The schema of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetSchema {
    database: String,
    cluster: Option<String>,
    keep_days: Option<u32>,
}

/// A name is not an identifier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is no name for ClickHouse: use letters, digits and _")]
pub struct InvalidSchemaName {
    /// The name.
    pub name: String,
}

impl FleetSchema {
    /// A schema in this database, on one server, that keeps rows forever.
    ///
    /// # Errors
    /// [`InvalidSchemaName`].
    pub fn new(database: &str) -> Result<Self, InvalidSchemaName> {
        Ok(Self {
            database: identifier(database)?,
            cluster: None,
            keep_days: None,
        })
    }

    /// Distributes the rows over the servers of this cluster, which the configuration of each
    /// server defines.
    ///
    /// # Errors
    /// [`InvalidSchemaName`].
    pub fn cluster(mut self, cluster: &str) -> Result<Self, InvalidSchemaName> {
        self.cluster = Some(identifier(cluster)?);
        Ok(self)
    }

    /// Deletes rows after this number of days, if `engine` can.
    #[must_use]
    pub fn keep_days(mut self, days: u32, engine: Engine) -> Self {
        self.keep_days = (engine == Engine::Current).then_some(days);
        self
    }

    /// The statements, one after the other; none ends with a semicolon. A server executes one
    /// statement per request.
    pub fn statements(&self) -> Vec<String> {
        let text = self.to_string();
        let lines = text.lines().filter(|line| !line.starts_with("--"));
        let code = lines.collect::<Vec<_>>().join("\n");
        let statements = code.split(';').map(str::trim);
        let statements = statements.filter(|statement| !statement.is_empty());
        statements.map(str::to_owned).collect()
    }
}

/// The text of all statements, with comments.
impl fmt::Display for FleetSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ttl = |days| format!("TTL day + INTERVAL {days} DAY\n");
        let ttl = self.keep_days.map_or_else(String::new, ttl);
        let local = self.cluster.as_ref().map_or("", |_| LOCAL_SUFFIX);
        let fill = |text: &str, cluster: &str| {
            text.replace("{ttl}", &ttl)
                .replace("{local}", local)
                .replace("{cluster}", cluster)
                .replace("{database}", &self.database)
        };
        f.write_str(&fill(LOCAL, ""))?;
        match &self.cluster {
            Some(cluster) => write!(f, "\n{}", fill(DISTRIBUTED, cluster)),
            None => Ok(()),
        }
    }
}

fn identifier(name: &str) -> Result<String, InvalidSchemaName> {
    let is_letter = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    let is_name = name.starts_with(is_letter)
        && name
            .chars()
            .all(|letter| is_letter(letter) || letter.is_ascii_digit());
    is_name
        .then(|| name.to_owned())
        .ok_or_else(|| InvalidSchemaName {
            name: name.to_owned(),
        })
}
