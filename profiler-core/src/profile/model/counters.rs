//! The values of each counter over time, or at least its present value.
//!
//! Used by both formats. The pool holds the present value of every counter; the sampler records
//! its values over time. The points of a counter begin with 0 at the start of recording, and end
//! with its value at the capture. If the first entries of a counter are evicted, its value before
//! the first remaining entry is unknown. For memory only, this value is shown as if it had been
//! added at that entry.

use super::machine::resident_bytes;
use super::process::ProcessModel;
use crate::ids::CounterIndex;
use crate::params::Features;
use crate::reader::{CounterDefinition, CounterInfo};

/// The category of counters of bytes in use, which viewers do not draw as a rate.
pub const MEMORY: &str = "Memory";
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
/// the differences to the previous point.
#[derive(Debug)]
pub struct CounterPoints<'a> {
    process: &'a ProcessModel<'a>,
    counter: &'a CounterInfo,
    last: Option<CounterPoint>,
}

impl<'a> CounterPoints<'a> {
    /// No points yet.
    pub const fn new(process: &'a ProcessModel<'a>, counter: &'a CounterInfo) -> Self {
        Self {
            process,
            counter,
            last: None,
        }
    }

    /// Calls `show` with the points of the counter's next value. `is_whole` matters for the first
    /// value only: whether no entry before it is evicted.
    pub fn value(
        &mut self,
        value: CounterPoint,
        is_whole: bool,
        mut show: impl FnMut(CounterPoint),
    ) {
        let last = match self.last {
            Some(last) => last,
            None => {
                let at_ns = if is_whole {
                    self.process.recording_start_ns()
                } else {
                    value.at_ns
                };
                show(CounterPoint {
                    at_ns,
                    ..CounterPoint::default()
                });
                if !is_whole && self.counter.definition.category != MEMORY {
                    self.last = Some(value);
                    return;
                }
                CounterPoint {
                    at_ns,
                    ..CounterPoint::default()
                }
            }
        };
        let at_ns = value.at_ns.max(last.at_ns);
        let difference = value.value.saturating_sub(last.value);
        show(CounterPoint {
            at_ns,
            value: difference,
            number: value.number.saturating_sub(last.number),
        });
        self.last = Some(CounterPoint { at_ns, ..value });
    }

    /// Calls `show` with the last point: the counter's present value.
    pub fn end(mut self, show: impl FnMut(CounterPoint)) {
        let last_ns = self
            .last
            .map_or_else(|| self.process.recording_start_ns(), |last| last.at_ns);
        let at_ns = self.process.end_ns().max(last_ns.saturating_add(1));
        let CounterInfo { value, number, .. } = *self.counter;
        self.value(
            CounterPoint {
                at_ns,
                value,
                number,
            },
            true,
            show,
        );
    }
}
