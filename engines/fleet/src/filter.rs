//! Which rows a query is about: a range of time, a service, a version, a host.

use super::instant::UnixMicros;
use super::parameters::Parameters;
use profiler_export::clickhouse::civil_date;

const MICROS_OF_DAY: u64 = 86_400_000_000;

/// A range of time, without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// The first instant.
    pub from: UnixMicros,
    /// The first instant after the range.
    pub to: UnixMicros,
}

/// Which rows a query is about. Without a service, version or host, it is about all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FleetFilter {
    /// The range of time.
    pub range: TimeRange,
    /// The service.
    pub service: Option<String>,
    /// The version of the service.
    pub version: Option<String>,
    /// The host.
    pub host: Option<String>,
}

impl FleetFilter {
    /// All rows in a range of time.
    pub const fn within(range: TimeRange) -> Self {
        Self {
            range,
            service: None,
            version: None,
            host: None,
        }
    }

    /// The values of the parameters that all queries have, and at most `limit` rows.
    pub fn parameters(&self, limit: u64) -> Parameters {
        let TimeRange { from, to } = self.range;
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        Parameters::default()
            .number("from_us", from.0)
            .number("to_us", to.0)
            .date("day_before", day(from.0.saturating_sub(MICROS_OF_DAY)))
            .date("from_day", day(from.0))
            .date("to_day", day(to.0))
            .text("service", &text(&self.service))
            .text("version", &text(&self.version))
            .text("host", &text(&self.host))
            .number("limit", limit)
    }
}

fn day(micros: u64) -> String {
    let days = i64::try_from(micros / MICROS_OF_DAY).unwrap_or(0);
    let (year, month, day) = civil_date(days);
    format!("{year:04}-{month:02}-{day:02}")
}
