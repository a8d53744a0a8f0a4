//! How exactly each host of a merged profile is placed.
//!
//! Pure. Used for the report of a merge, and for the section of each host in the profile.
//! Invariant: an uncertainty of a clock is stated only for a host that is placed by this clock.

use serde::Serialize;

use super::hosts::HostRecord;

/// How exactly the start of a host's recording is known.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Uncertainty {
    /// It was aligned with an earlier host by a clock that both have.
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
    /// The caller has shifted the host: only the caller knows the error.
    Shifted,
    /// The wall clock was not synchronised: the error may have any size.
    Unsynchronized,
    /// The profile does not say whether the wall clock was synchronised.
    Unknown,
}

impl std::fmt::Display for Uncertainty {
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
            Self::Shifted => out.write_str("unknown: the host was shifted"),
            Self::Unsynchronized => out.write_str("unknown: the clock was not synchronised"),
            Self::Unknown => out
                .write_str("unknown: the profile does not say whether the clock was synchronised"),
        }
    }
}

impl HostRecord {
    /// How exactly the host is placed, given the hosts before it.
    pub(super) fn uncertainty(&self, before: &[Self]) -> Uncertainty {
        let origin = self.clock_origin();
        let same = before
            .iter()
            .find(|other| origin.is_some() && other.clock_origin() == origin);
        if let Some(other) = same {
            let host = other.id.clone();
            let within_ms = rounded(self.wall("readMs") + other.wall("readMs"));
            return Uncertainty::SameClock { host, within_ms };
        }
        if self.shift_ns != 0 {
            return Uncertainty::Shifted;
        }
        let wall = self.rest.get("wallClock");
        match wall.and_then(|wall| wall.get("isSynchronized")?.as_bool()) {
            Some(true) => Uncertainty::WallClock {
                within_ms: rounded(self.wall_error_ms()),
            },
            Some(false) => Uncertainty::Unsynchronized,
            None => Uncertainty::Unknown,
        }
    }

    /// The host's clock, and where its zero is on the time line of the profile. Two hosts with the
    /// same clock are aligned by it only if its zero is at one place for both.
    fn clock_origin(&self) -> Option<(&str, i64)> {
        let clock = self.rest.get("clockId")?.as_str()?;
        let start = self.rest.get("startClockNs")?.as_i64()?;
        Some((clock, self.offset_ns.saturating_sub(start)))
    }

    /// The largest possible error against the correct time, if the wall clock was synchronised.
    fn wall_error_ms(&self) -> f64 {
        let moved = self.wall("changeMs").abs() + self.correction_ns.unsigned_abs() as f64 / 1e6;
        self.wall("maxErrorMs") + moved + self.wall("readMs")
    }

    fn wall(&self, key: &str) -> f64 {
        let wall = self.rest.get("wallClock");
        let value = wall.and_then(|wall| wall.get(key)?.as_f64());
        value.unwrap_or(0.0)
    }
}

/// Microseconds are precise enough for an uncertainty.
fn rounded(ms: f64) -> f64 {
    (ms * 1e3).ceil() / 1e3
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn host(id: &str, is_synchronized: bool, more: Value) -> HostRecord {
        let mut host = json!({"name": id, "clockId": "boot", "startClockNs": 5, "wallClock": {
            "readMs": 0.0002, "changeMs": -1.5, "isSynchronized": is_synchronized,
            "maxErrorMs": 8}});
        let members = host.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        let mut meta = serde_json::Map::new();
        meta.insert("hosts".to_owned(), json!([host]));
        HostRecord::take(&mut meta, "file").unwrap().remove(0)
    }

    fn same_clock(host: &str) -> Uncertainty {
        Uncertainty::SameClock {
            host: host.to_owned(),
            within_ms: 0.001,
        }
    }

    #[test]
    fn the_uncertainty_is_that_of_the_clocks() {
        let one = host("one", true, json!({}));
        assert_eq!(
            one.uncertainty(&[]),
            Uncertainty::WallClock { within_ms: 9.501 }
        );
        let two = host("two", false, json!({}));
        assert_eq!(two.uncertainty(&[]), Uncertainty::Unsynchronized);
        assert_eq!(two.uncertainty(&[one]), same_clock("one"));
    }

    #[test]
    fn hosts_with_one_clock_that_another_clock_has_placed_are_not_within_its_error() {
        let first = host("first", true, json!({}));
        let apart = host("apart", true, json!({"startClockNs": 105, "offsetNs": 101}));
        let aligned = host(
            "aligned",
            true,
            json!({"startClockNs": 105, "offsetNs": 100}),
        );
        let before = [first, apart.clone()];
        assert_eq!(
            apart.uncertainty(&before[..1]),
            Uncertainty::WallClock { within_ms: 9.501 }
        );
        assert_eq!(aligned.uncertainty(&before), same_clock("first"));
    }

    #[test]
    fn a_host_that_was_shifted_is_certain_only_beside_hosts_that_were_shifted_with_it() {
        let first = host("first", true, json!({}));
        let with = |shift: i64| json!({"offsetNs": shift, "shiftNs": shift});
        let shifted = host("shifted", true, with(9));
        let beside = host("beside", true, with(9));
        let before = [first, shifted.clone()];
        assert_eq!(shifted.uncertainty(&before[..1]), Uncertainty::Shifted);
        assert_eq!(beside.uncertainty(&before), same_clock("shifted"));
    }

    #[test]
    fn a_host_that_was_moved_with_another_is_as_uncertain_as_the_move() {
        let moved = host("moved", true, json!({"correctionNs": -2_000_000}));
        assert_eq!(
            moved.uncertainty(&[]),
            Uncertainty::WallClock { within_ms: 11.501 }
        );
    }
}
