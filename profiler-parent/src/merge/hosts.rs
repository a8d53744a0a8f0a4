//! The hosts of a profile, as `meta.hosts` has them: names, clocks, and how exactly each host is
//! placed.
//!
//! A recording has one host, a merged profile one for each recording. Profiles of earlier versions
//! have none; the name of their file takes the place of the host's name. Invariant: what a record
//! says beyond the known keys is kept.

use serde::Serialize;
use serde_json::{Map, Value};

use super::align::ClockPosition;

/// One host of an input.
#[derive(Clone, Debug, Default)]
pub(super) struct HostRecord {
    pub(super) name: String,
    /// The name in the ids of processes.
    pub(super) id: String,
    /// When its recording begins, in nanoseconds since the start of the profile.
    pub(super) offset_ns: i64,
    /// The part of the offset that is a move by hand.
    pub(super) shift_ns: i64,
    /// The properties of its recording that are not those of the whole profile.
    pub(super) own_meta: Map<String, Value>,
    /// Everything else.
    pub(super) rest: Map<String, Value>,
}

/// How exactly the start of a host's recording is known.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Certainty {
    /// It has the same clock as an earlier host, so the two are aligned by that clock.
    SameClock {
        /// The earlier host.
        host: String,
        /// The largest possible error against that host, in milliseconds.
        within_ms: f64,
    },
    /// The wall clock was synchronised.
    WallClock {
        /// The largest possible error against the correct time, in milliseconds.
        within_ms: f64,
    },
    /// The wall clock was not synchronised: the error may have any size.
    Unsynchronized,
    /// The profile does not say whether the wall clock was synchronised.
    Unknown,
}

impl std::fmt::Display for Certainty {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::SameClock { host, within_ms } => {
                write!(
                    out,
                    "within {within_ms} ms of {host}, which has the same clock"
                )
            }
            Self::WallClock { within_ms } => {
                write!(out, "within {within_ms} ms of the correct time")
            }
            Self::Unsynchronized => out.write_str("unknown: the clock was not synchronised"),
            Self::Unknown => out
                .write_str("unknown: the profile does not say whether the clock was synchronised"),
        }
    }
}

impl HostRecord {
    /// The hosts in the `meta` of an input, which they are taken out of. `name` is the name if there
    /// are none.
    pub(super) fn take(meta: &mut Map<String, Value>, name: &str) -> Vec<Self> {
        let hosts = match meta.remove("hosts") {
            Some(Value::Array(hosts)) => hosts,
            _ => Vec::new(),
        };
        let hosts = hosts.into_iter().filter_map(|host| match host {
            Value::Object(host) => Some(Self::read(host)),
            _ => None,
        });
        let mut hosts: Vec<_> = hosts.collect();
        if hosts.is_empty() {
            hosts.push(Self::default());
        }
        for host in hosts.iter_mut().filter(|host| host.name.is_empty()) {
            host.name = name.to_owned();
        }
        for host in hosts.iter_mut().filter(|host| host.id.is_empty()) {
            host.id.clone_from(&host.name);
        }
        hosts
    }

    fn read(mut host: Map<String, Value>) -> Self {
        let mut text = |key: &str| match host.remove(key) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let (name, id) = (text("name"), text("id"));
        let mut number = |key: &str| host.remove(key).and_then(|value| value.as_i64());
        let (offset_ns, shift_ns) = (number("offsetNs"), number("shiftNs"));
        let own_meta = match host.remove("meta") {
            Some(Value::Object(meta)) => meta,
            _ => Map::new(),
        };
        Self {
            name,
            id,
            offset_ns: offset_ns.unwrap_or(0),
            shift_ns: shift_ns.unwrap_or(0),
            own_meta,
            rest: host,
        }
    }

    /// The record in `meta.hosts`.
    pub(super) fn into_value(self) -> Value {
        let mut host = self.rest;
        host.insert("name".to_owned(), self.name.into());
        host.insert("id".to_owned(), self.id.into());
        host.insert("offsetNs".to_owned(), self.offset_ns.into());
        if self.shift_ns != 0 {
            host.insert("shiftNs".to_owned(), self.shift_ns.into());
        }
        if !self.own_meta.is_empty() {
            host.insert("meta".to_owned(), self.own_meta.into());
        }
        host.into()
    }

    /// Where the start of the profile is on the clock of the host's boot.
    pub(super) fn clock(&self) -> Option<ClockPosition> {
        let clock = self.rest.get("clockId")?.as_str()?.to_owned();
        let start = self.rest.get("startClockNs")?.as_i64()?;
        let offset = self.offset_ns.saturating_sub(self.shift_ns);
        Some(ClockPosition {
            clock,
            at_ns: start.saturating_sub(offset),
        })
    }

    /// How exactly the host is placed, given the hosts before it.
    pub(super) fn certainty(&self, before: &[Self]) -> Certainty {
        let clock = self.rest.get("clockId");
        let same = before
            .iter()
            .find(|other| clock.is_some() && other.rest.get("clockId") == clock);
        if let Some(other) = same {
            let host = other.id.clone();
            let within_ms = rounded(self.read_ms() + other.read_ms());
            return Certainty::SameClock { host, within_ms };
        }
        let wall = self.rest.get("wallClock");
        match wall.and_then(|wall| wall.get("isSynchronized")?.as_bool()) {
            Some(true) => Certainty::WallClock {
                within_ms: rounded(
                    self.wall("maxErrorMs") + self.wall("changeMs").abs() + self.read_ms(),
                ),
            },
            Some(false) => Certainty::Unsynchronized,
            None => Certainty::Unknown,
        }
    }

    fn read_ms(&self) -> f64 {
        self.wall("readMs")
    }

    fn wall(&self, key: &str) -> f64 {
        let wall = self.rest.get("wallClock");
        let value = wall.and_then(|wall| wall.get(key)?.as_f64());
        value.unwrap_or(0.0)
    }

    /// Gives the section of the only host of a profile the present name.
    pub(super) fn rename_in(&self, section: &mut Value) {
        let rows = section.get_mut("entries").and_then(Value::as_array_mut);
        for row in rows.into_iter().flatten().filter_map(Value::as_object_mut) {
            if row.get("label").and_then(Value::as_str) == Some(NAME_ROW) {
                row.insert("value".to_owned(), self.name.as_str().into());
            }
        }
    }

    /// The section of the host in `meta.extra`.
    pub(super) fn section(&self, before: &[Self]) -> Value {
        let row = |label: &str, format: &str, value: Value| serde_json::json!({"label": label, "format": format, "value": value});
        let mut rows = Vec::new();
        if self.name != self.id {
            rows.push(row(NAME_ROW, "string", self.name.as_str().into()));
        }
        let millis = |ns: i64| Value::from(ns as f64 / 1e6);
        rows.push(row("Begins at", "time", millis(self.offset_ns)));
        if self.shift_ns != 0 {
            rows.push(row("Moved by hand", "milliseconds", millis(self.shift_ns)));
        }
        let certainty = self.certainty(before).to_string();
        rows.push(row("Uncertainty", "string", certainty.into()));
        for (key, label) in [
            ("oscpu", "System"),
            ("CPUName", "Processor"),
            ("arguments", "Command"),
        ] {
            if let Some(text) = self.own_meta.get(key).and_then(Value::as_str) {
                rows.push(row(label, "string", text.into()));
            }
        }
        let label = section_label(&self.id);
        serde_json::json!({"label": label, "entries": rows})
    }
}

/// The label of the section in the profile of one host.
pub(super) const SECTION: &str = "Host";
/// The label of the host's name in that section.
const NAME_ROW: &str = "Host name";

/// The label of a host's section.
pub(super) fn section_label(id: &str) -> String {
    format!("{SECTION} {id}")
}

/// Microseconds are precise enough for an uncertainty.
fn rounded(ms: f64) -> f64 {
    (ms * 1e3).ceil() / 1e3
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn host(value: Value) -> HostRecord {
        let mut meta = Map::new();
        meta.insert("hosts".to_owned(), json!([value]));
        HostRecord::take(&mut meta, "file").remove(0)
    }

    #[test]
    fn a_profile_without_hosts_is_called_like_its_file() {
        let hosts = HostRecord::take(&mut Map::new(), "file");
        assert_eq!(
            (hosts[0].name.as_str(), hosts[0].id.as_str()),
            ("file", "file")
        );
        assert_eq!(hosts[0].certainty(&[]), Certainty::Unknown);
    }

    #[test]
    fn the_uncertainty_is_that_of_the_clocks() {
        let clock = |id: &str, is_synchronized: bool| {
            json!({"name": id, "clockId": "boot", "startClockNs": 5, "wallClock": {
                "readMs": 0.0002, "changeMs": -1.5, "isSynchronized": is_synchronized, "maxErrorMs": 8}})
        };
        let one = host(clock("one", true));
        assert_eq!(
            one.certainty(&[]),
            Certainty::WallClock { within_ms: 9.501 }
        );
        assert_eq!(
            host(clock("two", false)).certainty(&[]),
            Certainty::Unsynchronized
        );
        let same = Certainty::SameClock {
            host: "one".to_owned(),
            within_ms: 0.001,
        };
        assert_eq!(host(clock("two", false)).certainty(&[one]), same);
    }

    #[test]
    fn the_clock_of_a_moved_host_is_where_it_was_before_the_move() {
        let moved =
            host(json!({"clockId": "boot", "startClockNs": 100, "offsetNs": 30, "shiftNs": 10}));
        assert_eq!(moved.clock().map(|clock| clock.at_ns), Some(80));
    }

    #[test]
    fn a_record_keeps_what_it_says() {
        let value = json!({"name": "a", "id": "a", "offsetNs": 3, "clockId": "c", "later": [1],
            "meta": {"oscpu": "x"}});
        assert_eq!(host(value.clone()).into_value(), value);
    }
}
