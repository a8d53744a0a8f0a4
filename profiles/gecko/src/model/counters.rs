//! The values of each counter over time, or at least its present value.
//!
//! Used by both formats. The pool holds the present value of every counter; the sampler records
//! its values over time. The points of a counter begin with 0 at the start of recording, and end
//! with its value at the capture, or at the end of the profile's range. If the first entries of a
//! counter are evicted, its value before the first remaining entry is unknown: the points begin
//! there.

use std::io::Write;

use super::counter_steps::RateSteps;
use super::machine::resident_bytes;
use super::process::ProcessModel;
use profiler_core::ids::CounterIndex;
use profiler_core::internal::pool::definitions::GROUP_TRACK_CATEGORY;
use profiler_core::internal::reader::{CounterDefinition, CounterInfo};
use profiler_core::session::Features;
use profiler_json::JsonWriter;

/// The category of counters of bytes in use, which viewers do not draw as a rate.
pub const MEMORY: &str = "Memory";
/// The category of the counters of groups.
const GROUP: &str = GROUP_TRACK_CATEGORY;
const RESIDENT_MEMORY: &str = "Resident memory";

/// The resident memory of a live process, if the session requests memory counters and has not
/// recorded this one.
pub fn resident_memory(process: &ProcessModel<'_>) -> Option<CounterInfo> {
    let params = process.snapshot.header.params.as_ref();
    let is_wanted = params.is_some_and(|params| params.features.contains(Features::MEMORY));
    let is_known = process
        .snapshot
        .counters
        .iter()
        .any(|known| known.definition.name == RESIDENT_MEMORY);
    if !is_wanted || is_known || process.ended.is_some() {
        return None;
    }
    let bytes = resident_bytes(process.role.pid)?;
    let definition = CounterDefinition {
        cell: CounterIndex::new(u32::MAX),
        name: RESIDENT_MEMORY.to_owned(),
        category: MEMORY.to_owned(),
        description: "Memory that the process has resident".to_owned(),
    };
    Some(CounterInfo {
        definition,
        value: i64::try_from(bytes).unwrap_or(i64::MAX),
        number: 1,
    })
}

/// Whether a profile shows a counter. The time of a group is left out if it is always zero, which
/// is the case if no time of groups was measured. This time never decreases, so its latest value
/// decides.
pub fn is_counter_shown(counter: &CounterInfo) -> bool {
    CounterKind::of(&counter.definition) != CounterKind::GroupTime || counter.value != 0
}

/// How the values of a counter are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterKind {
    /// The value itself matters: bytes in use, jobs that wait.
    Level,
    /// The changes matter: bytes sent, processor time used.
    Rate,
    /// The changes are the time spent in a group, in nanoseconds. A change is recorded at the end
    /// of the time.
    GroupTime,
}

impl CounterKind {
    /// The kind of a counter.
    pub fn of(counter: &CounterDefinition) -> Self {
        match (counter.category.as_str(), counter.name.as_str()) {
            (GROUP, _) => Self::GroupTime,
            ("Bandwidth", _) | ("CPU", "processCPU") => Self::Rate,
            _ => Self::Level,
        }
    }

    /// Writes a change of the value. The time of a group is in milliseconds, like all times of a
    /// profile, so that its rate is a share of the time.
    pub fn write_change<W: Write>(self, change: i64, out: &mut JsonWriter<W>) {
        match self {
            Self::GroupTime => out.millis_ns(change),
            Self::Level | Self::Rate => out.i64(change),
        }
    }
}

/// The value of a counter at one instant, or its change since the previous point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterPoint {
    /// Nanoseconds from the session's start.
    pub at_ns: i64,
    /// The value, or the difference to the previous point.
    pub value: i64,
    /// The number of changes, or the difference to the previous point.
    pub number: u64,
}

/// Converts the values of one counter to points that viewers can draw. A point has the time, and
/// the differences to the previous point. A level changes at the points where it was recorded; a
/// rate has the steps of [`RateSteps`].
#[derive(Debug)]
pub struct CounterPoints {
    kind: CounterKind,
    start_ns: i64,
    tick_ns: i64,
    last: Option<CounterPoint>,
    steps: Option<RateSteps>,
}

impl CounterPoints {
    /// No points yet, for a counter whose values are known from `start_ns` on.
    pub fn new(process: &ProcessModel<'_>, counter: &CounterDefinition, start_ns: i64) -> Self {
        Self {
            kind: CounterKind::of(counter),
            start_ns,
            tick_ns: process.interval_ns(),
            last: None,
            steps: None,
        }
    }

    /// Calls `show` with the points of the counter's next value. A first value is shown as it is:
    /// a level begins with it, and the changes of a rate before it are not known.
    pub fn value(&mut self, value: CounterPoint, mut show: impl FnMut(CounterPoint)) {
        let Some(last) = self.last else {
            return self.begin(value, &mut show);
        };
        let at_ns = value.at_ns.max(last.at_ns);
        let change = CounterPoint {
            at_ns,
            value: value.value.saturating_sub(last.value),
            number: value.number.saturating_sub(last.number),
        };
        match &mut self.steps {
            None => show(change),
            Some(steps) => {
                let since_last = at_ns.saturating_sub(last.at_ns);
                let took_ns = match self.kind {
                    CounterKind::GroupTime => since_last.max(change.value),
                    CounterKind::Level | CounterKind::Rate => since_last,
                };
                steps.add(at_ns.saturating_sub(took_ns), change, show);
            }
        }
        self.last = Some(CounterPoint { at_ns, ..value });
    }

    /// Shows the first points. Viewers ignore the value of the very first one.
    fn begin(&mut self, first: CounterPoint, show: &mut dyn FnMut(CounterPoint)) {
        let at_ns = first.at_ns;
        show(CounterPoint {
            at_ns,
            ..CounterPoint::default()
        });
        match self.kind {
            CounterKind::Level if first.value != 0 => show(CounterPoint { number: 0, ..first }),
            CounterKind::Level => {}
            CounterKind::Rate | CounterKind::GroupTime => {
                self.steps = Some(RateSteps::new(at_ns, self.tick_ns));
            }
        }
        self.last = Some(first);
    }

    /// Calls `show` with the remaining points, up to `end_ns`. `present` is the value there, or
    /// `None` for the last value; its time does not matter.
    pub fn end(
        mut self,
        end_ns: i64,
        present: Option<CounterPoint>,
        mut show: impl FnMut(CounterPoint),
    ) {
        let Some(value) = present.or(self.last) else {
            return;
        };
        if self.last.is_none() {
            let at_ns = self.start_ns;
            self.begin(CounterPoint { at_ns, ..value }, &mut show);
        }
        let least_ns = self
            .last
            .map_or(end_ns, |last| last.at_ns.saturating_add(1));
        let at_ns = end_ns.max(least_ns);
        self.value(CounterPoint { at_ns, ..value }, &mut show);
        if let Some(steps) = self.steps {
            steps.finish(show);
        }
    }
}
