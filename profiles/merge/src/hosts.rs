//! The hosts of a profile, as `meta.hosts` has them: names, places and clocks.
//!
//! A recording has one host, a merged profile one for each recording. Profiles of earlier versions
//! have none, and a profile that was recovered after a restart does not name its host; the name of
//! the file takes the place of the host's name. Invariants: what a record says beyond the known
//! keys is kept; the number of hosts and the length of their names are limited, because each name
//! is written for many processes.

use serde_json::{Map, Value};

use super::align::ClockPosition;
use super::naming::{MAX_HOSTS, check_name, check_numbered_name};

/// One host of an input.
#[derive(Clone, Debug, Default)]
pub(super) struct HostRecord {
    pub(super) name: String,
    /// The name in the ids of processes.
    pub(super) id: String,
    /// When its recording begins, in nanoseconds since the start of the profile.
    pub(super) offset_ns: i64,
    /// The part of the offset that `--shift` adds.
    pub(super) shift_ns: i64,
    /// How far the host is from the place that its wall clock gives, because its input was aligned
    /// by the clock of an earlier input; without shifts.
    pub(super) correction_ns: i64,
    /// The properties of its recording that are not those of the whole profile.
    pub(super) own_meta: Map<String, Value>,
    /// Everything else.
    pub(super) rest: Map<String, Value>,
}

impl HostRecord {
    /// Takes the hosts out of the `meta` of an input. `name` is the name of the host if there
    /// are none.
    ///
    /// # Errors
    /// There are too many hosts, in words.
    pub(super) fn take(meta: &mut Map<String, Value>, name: &str) -> Result<Vec<Self>, String> {
        let hosts = match meta.remove("hosts") {
            Some(Value::Array(hosts)) => hosts,
            _ => Vec::new(),
        };
        if hosts.len() > MAX_HOSTS {
            return Err(format!("it has more than {MAX_HOSTS} hosts"));
        }
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
        Ok(hosts)
    }

    /// Checks the names.
    ///
    /// # Errors
    /// One of them cannot be that of a host, in words.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        check_name(&self.name)?;
        check_numbered_name(&self.id)
    }

    fn read(mut host: Map<String, Value>) -> Self {
        let mut text = |key: &str| match host.remove(key) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let (name, id) = (text("name"), text("id"));
        let mut number = |key: &str| host.remove(key).and_then(|value| value.as_i64());
        let (offset_ns, shift_ns) = (number("offsetNs"), number("shiftNs"));
        let correction_ns = number("correctionNs");
        let own_meta = match host.remove("meta") {
            Some(Value::Object(meta)) => meta,
            _ => Map::new(),
        };
        Self {
            name,
            id,
            offset_ns: offset_ns.unwrap_or(0),
            shift_ns: shift_ns.unwrap_or(0),
            correction_ns: correction_ns.unwrap_or(0),
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
        for (key, ns) in [
            ("shiftNs", self.shift_ns),
            ("correctionNs", self.correction_ns),
        ] {
            if ns != 0 {
                host.insert(key.to_owned(), ns.into());
            }
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
            rows.push(row("Shifted by", "milliseconds", millis(self.shift_ns)));
        }
        let uncertainty = self.uncertainty(before).to_string();
        rows.push(row("Uncertainty", "string", uncertainty.into()));
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Uncertainty;
    use super::*;

    fn host(value: Value) -> HostRecord {
        let mut meta = Map::new();
        meta.insert("hosts".to_owned(), json!([value]));
        HostRecord::take(&mut meta, "file").unwrap().remove(0)
    }

    #[test]
    fn a_profile_without_hosts_is_called_like_its_file() {
        let hosts = HostRecord::take(&mut Map::new(), "file").unwrap();
        assert_eq!(
            (hosts[0].name.as_str(), hosts[0].id.as_str()),
            ("file", "file")
        );
        assert_eq!(hosts[0].uncertainty(&[]), Uncertainty::Unknown);
    }

    #[test]
    fn the_clock_of_a_moved_host_is_where_it_was_before_the_move() {
        let moved =
            host(json!({"clockId": "boot", "startClockNs": 100, "offsetNs": 30, "shiftNs": 10}));
        assert_eq!(moved.clock().map(|clock| clock.at_ns), Some(80));
    }

    #[test]
    fn a_record_keeps_what_it_says() {
        let value = json!({"name": "a", "id": "a", "offsetNs": 3, "shiftNs": -1,
            "correctionNs": 2, "clockId": "c", "later": [1],
            "meta": {"oscpu": "x"}});
        assert_eq!(host(value.clone()).into_value(), value);
    }

    #[test]
    fn many_hosts_and_long_names_are_refused_because_each_process_would_repeat_them() {
        let many = |count| {
            let mut meta = Map::new();
            meta.insert("hosts".to_owned(), vec![json!({}); count].into());
            HostRecord::take(&mut meta, "file").map(|hosts| hosts.len())
        };
        assert_eq!(many(1_000), Ok(1_000));
        assert!(many(1_001).unwrap_err().contains("1000 hosts"));
        let long = "a".repeat(300);
        for key in ["name", "id"] {
            let error = host(json!({ key: long })).check().unwrap_err();
            assert!(error.contains("255 bytes"), "{error}");
            let error = host(json!({ key: "a\nb" })).check().unwrap_err();
            assert!(error.contains("control characters"), "{error}");
        }
    }
}
