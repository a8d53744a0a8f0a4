//! The options that all queries share: the store, the range of time and the filters.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use clap::Args;
use profiler_fleet::{
    FleetAddress, FleetFilter, FleetQuery, FleetStore, Parameters, PasswordSource, TimeRange,
    UnixMicros, parse_instant,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::table;
use crate::console::say;
use crate::units::duration;

#[derive(Debug, Args)]
pub(super) struct StoreArgs {
    /// The store: its host, the port of its HTTP interface, and the database
    #[arg(long, value_name = "clickhouse://[USER@]HOST[:PORT][/DATABASE]")]
    from: String,
    /// A file whose first line is the user's password
    #[arg(long, value_name = "FILE", conflicts_with = "password_env")]
    password_file: Option<PathBuf>,
    /// A variable of the environment that has the user's password
    #[arg(long, value_name = "NAME")]
    password_env: Option<OsString>,
}

#[derive(Debug, Args)]
pub(super) struct RowsArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// The first instant: 2026-11-26T03:12:23Z, 2026-11-26, or seconds since 1970 [default: an hour
    /// before the end]
    #[arg(long, value_name = "INSTANT", value_parser = parse_instant, conflicts_with = "last")]
    since: Option<UnixMicros>,
    /// The first instant after the range [default: now]
    #[arg(long, value_name = "INSTANT", value_parser = parse_instant)]
    until: Option<UnixMicros>,
    /// The time before the end, such as 90s, 30m, 6h or 7d
    #[arg(long, value_name = "TIME", value_parser = duration)]
    last: Option<Duration>,
    /// Only this service
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// Only this host
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Prints one JSON object
    #[arg(long)]
    pub(super) json: bool,
    /// The number of rows to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(super) top: u32,
}

#[derive(Debug, Args)]
pub(super) struct VersionArgs {
    #[command(flatten)]
    pub(super) rows: RowsArgs,
    /// Only this version of the services
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
}

impl VersionArgs {
    pub(super) fn filter(&self) -> Result<FleetFilter> {
        self.rows.filter(self.version.as_deref())
    }

    /// Asks for rows, and prints them as [`RowsArgs::print`] does.
    pub(super) fn show<R: DeserializeOwned + Serialize, const N: usize>(
        &self,
        query: FleetQuery,
        key: &str,
        heads: [&str; N],
        cells: impl Fn(&R) -> [String; N],
    ) -> Result<()> {
        let parameters = self.filter()?.parameters(u64::from(self.rows.top));
        let rows: Vec<R> = self.rows.ask(query, &parameters)?;
        self.rows.print(key, &rows, heads, cells)
    }
}

const HOUR: Duration = Duration::from_secs(3600);

impl RowsArgs {
    pub(super) fn store(&self) -> Result<FleetStore> {
        let StoreArgs {
            from,
            password_file,
            password_env,
        } = &self.store;
        let password = match (password_file, password_env) {
            (Some(path), _) => PasswordSource::File(path.clone()),
            (None, Some(name)) => PasswordSource::Variable(name.clone()),
            (None, None) => PasswordSource::None,
        };
        // Not parsed by clap, whose errors repeat the text.
        let address: FleetAddress = from.parse()?;
        Ok(FleetStore::connect(address, &password)?)
    }

    #[allow(clippy::disallowed_methods)] // the times in a store are those of the wall clock
    pub(super) fn filter(&self, version: Option<&str>) -> Result<FleetFilter> {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let now = || SystemTime::now().duration_since(UNIX_EPOCH);
        let until = match self.until {
            Some(until) => until,
            None => UnixMicros(micros(now()?)),
        };
        let last = micros(self.last.unwrap_or(HOUR));
        let before = UnixMicros(until.0.saturating_sub(last));
        let range = TimeRange {
            from: self.since.unwrap_or(before),
            to: until,
        };
        ensure!(range.from < range.to, "the range of time is empty");
        let mut filter = FleetFilter::within(range);
        filter.service.clone_from(&self.service);
        filter.host.clone_from(&self.host);
        filter.version = version.map(str::to_owned);
        Ok(filter)
    }

    /// All rows of an answer.
    pub(super) fn ask<T: DeserializeOwned>(
        &self,
        query: FleetQuery,
        parameters: &Parameters,
    ) -> Result<Vec<T>> {
        let mut rows = Vec::new();
        let store = self.store()?;
        store.ask(query, parameters, |row| rows.push(row))?;
        Ok(rows)
    }
}

impl RowsArgs {
    /// Prints rows as a table, or as the member `key` of a JSON object.
    pub(super) fn print<R: Serialize, const N: usize>(
        &self,
        key: &str,
        rows: &[R],
        heads: [&str; N],
        cells: impl Fn(&R) -> [String; N],
    ) -> Result<()> {
        if self.json {
            return print_json(key, rows);
        }
        let rows: Vec<_> = rows.iter().map(cells).collect();
        table::print(heads, &rows);
        Ok(())
    }
}

/// Prints rows as the only member of a JSON object.
pub(super) fn print_json<T: Serialize>(key: &str, rows: &[T]) -> Result<()> {
    say(&serde_json::to_string_pretty(
        &serde_json::json!({ key: rows }),
    )?);
    Ok(())
}
