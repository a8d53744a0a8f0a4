//! The participants of a capture: every process of the session, with the data needed to take its
//! part.
//!
//! Used by both formats of a capture. The functions that wait for children have time bounds.

use std::sync::Arc;
use std::time::Duration;

use profiler_core::ids::{PoolId, ProcessId};
use profiler_core::internal::reader::PoolReader;
use profiler_core::session::EntryCounts;
use profiler_core::time::{Anchor, Timestamp};
use profiler_gecko::gecko::merge_categories;
use profiler_gecko::{CategoryRow, ProcessSummary, ProfileSpec, ProfileSubject};
use profiler_sys::OwnFile;

use super::lifetime::Lifetime;
use super::log::GatheringLog;
use super::{CaptureSources, CapturedProcess, Focus, TimeRange};
use crate::gather::state::{DEATH_NEWS, Millis};
use crate::gather::verdict::{Verdict, Why};
use crate::process_table::{ProcessForCapture, ProcessTable, Remains};

/// How long a capture waits for the `Hello` of a new child. A child that gets a processor sends it
/// within some milliseconds of its start. A silent child delays every capture by this time, so it
/// is half of the time by which a capture may exceed its timeout.
const HELLO: Millis = Millis::new(250);

/// What a capture asks of a participant.
impl ProcessForCapture {
    /// Its pool, if it has one.
    pub(super) fn pool(&self) -> Option<&Arc<OwnFile>> {
        match &self.remains {
            Remains::Pool(file) => Some(file),
            Remains::Expired(_) | Remains::Unprofiled(_) => None,
        }
    }

    /// Its entries, if its data is gone.
    pub(super) const fn final_counts(&self) -> Option<&EntryCounts> {
        match &self.remains {
            Remains::Expired(counts) => Some(counts),
            Remains::Pool(_) | Remains::Unprofiled(_) => None,
        }
    }

    /// Why the profile has nothing of it. `why` is the reason if no other session records it.
    pub(super) fn why_missing(&self, why: Why) -> Why {
        self.elsewhere.clone().unwrap_or(why)
    }

    /// The verdict on this process itself, whose part is always written: it may record for another
    /// session, and then its part is empty.
    pub(super) fn own_verdict(&self) -> Verdict {
        let why = self.unable.clone();
        why.map_or(Verdict::Complete, |why| Verdict::Missing { why })
    }

    /// Its row in the report when the profile contains nothing of it.
    pub(super) fn missing(&self) -> CapturedProcess {
        let (counts, why) = match &self.remains {
            Remains::Expired(counts) => {
                let untouched = || why_untouched(self.unable.clone().unwrap_or(Why::Gone));
                (*counts, why_gone(counts).unwrap_or_else(untouched))
            }
            Remains::Unprofiled(why) => (
                EntryCounts::default(),
                Why::Unprofiled {
                    message: why.clone(),
                },
            ),
            Remains::Pool(_) => (
                EntryCounts::default(),
                self.unable.clone().unwrap_or(Why::Gone),
            ),
        };
        let why = match counts.recorded() {
            0 => self.why_missing(why),
            _ => why,
        };
        self.settled(
            &ProcessSummary {
                counts,
                ..ProcessSummary::default()
            },
            Verdict::Missing { why },
        )
    }

    /// Its row in the report when its part is in the profile.
    pub(super) fn settled(&self, summary: &ProcessSummary, verdict: Verdict) -> CapturedProcess {
        CapturedProcess {
            name: self.name.clone(),
            pid: self.pid,
            parent: self.parent,
            threads: summary.threads,
            counts: summary.counts,
            verdict,
            writing: Duration::from_nanos(summary.writing_ns),
            lived: Lifetime {
                began: self.began,
                ended: None,
            },
            time: None,
            series: None,
        }
    }
}

/// What the profile is about, if not the parent: the first child that recorded.
pub(super) fn subject(
    participants: &[ProcessForCapture],
    focus: &Focus,
) -> Option<(PoolId, ProfileSubject)> {
    if !focus.is_on_children {
        return None;
    }
    let children = participants.iter().filter(|one| !one.is_parent);
    let mut recorded = children.filter(|one| one.remains.is_taken());
    let child = recorded.next()?;
    let reader = child.pool().and_then(|pool| PoolReader::open(&**pool).ok());
    let subject = ProfileSubject {
        product: child.name.clone(),
        params: reader.and_then(|reader| reader.header().params.clone()),
        arguments: focus.arguments.clone(),
    };
    Some((child.key, subject))
}

/// Lists the processes of the session, the parent first.
pub(super) fn list(processes: &ProcessTable) -> Vec<ProcessForCapture> {
    processes.await_arrivals();
    processes.await_hellos(HELLO.into());
    processes.for_capture()
}

/// Dead processes without data that are no longer listed one by one: a row for each name of
/// programs that ended before they were recorded, and a row for all others.
pub(super) fn expired(processes: &ProcessTable) -> Vec<CapturedProcess> {
    let expired = processes.expired();
    let row = |(count, counts): (u64, EntryCounts), why| {
        (count > 0).then(|| unlisted(format!("{count} earlier processes"), counts, why))
    };
    let none = EntryCounts::default();
    let others = row(expired.gave_up, Why::Expired);
    let dropped = row(expired.all_dropped, Why::AllDropped);
    let silent = row((expired.silent(), none), Why::RecordedNothing);
    let message = "each for its own reason".to_owned();
    let unprofiled = Why::Unprofiled { message };
    let unprofiled = row((expired.unprofiled, none), unprofiled);
    [others, dropped, silent, unprofiled]
        .into_iter()
        .flatten()
        .collect()
}

fn unlisted(name: String, counts: EntryCounts, why: Why) -> CapturedProcess {
    CapturedProcess {
        name,
        pid: ProcessId::new(0),
        parent: None,
        threads: 0,
        counts,
        verdict: Verdict::Missing { why },
        writing: Duration::ZERO,
        lived: Lifetime::default(),
        time: None,
        series: None,
    }
}

/// Waits briefly for the exit status of processes that are ending or whose channel has closed. So a
/// capture that follows the closing of a child's pipe reports how the child died.
pub(super) fn await_news(processes: &ProcessTable, keys: impl Iterator<Item = PoolId>) {
    processes.await_news(keys, DEATH_NEWS.into());
}

/// Why the data of a process with these final counts is gone; `None` if it has recorded nothing.
fn why_gone(counts: &EntryCounts) -> Option<Why> {
    let dropped = counts.dropped.total();
    match counts.recorded() {
        0 => None,
        recorded if recorded == dropped => Some(Why::AllDropped),
        _ => Some(Why::Expired),
    }
}

/// The reason to report for a process without data: [`Why::RecordedNothing`] if its end was
/// orderly, otherwise `why`.
pub(super) fn why_untouched(why: Why) -> Why {
    if why.is_orderly() {
        Why::RecordedNothing
    } else {
        why
    }
}

/// Notes in the log the processes that hold more memory than they were granted.
pub(super) fn note_overdrawn(processes: &ProcessTable, log: &mut GatheringLog) {
    for process in processes
        .reports()
        .iter()
        .filter(|process| process.excess_bytes > 0)
    {
        let name = &process.name;
        let pid = process.pid;
        let held = process.true_bytes;
        let more = process.excess_bytes;
        log.note(format!(
            "{name} ({pid}) holds {held} bytes, {more} more than it was granted"
        ));
    }
}

/// The settings that all parts share: the conversion of times, the window, the categories of all
/// processes.
pub(super) fn spec(
    sources: &CaptureSources,
    participants: &[ProcessForCapture],
    range: Option<TimeRange>,
) -> ProfileSpec {
    let later = Anchor::take();
    let window = sources.window_ns;
    let since = (window > 0).then(|| {
        let ticks = sources.time.clock().converter(later).ticks_in(window);
        Timestamp::from_raw(later.ticks.raw().saturating_sub(ticks))
    });
    let from = range.map(|range| sources.time.timestamp_of(range.from, later));
    let since = since.max(from);
    let mut categories: Vec<CategoryRow> = Vec::new();
    for pool in participants.iter().filter_map(ProcessForCapture::pool) {
        let definitions = PoolReader::open(&**pool).and_then(|reader| reader.definitions());
        merge_categories(&mut categories, &definitions.unwrap_or_default());
    }
    categories.truncate(ipc_protocol::limits::MAX_CATEGORIES);
    ProfileSpec {
        later,
        since,
        categories,
    }
}

#[cfg(test)]
mod tests {
    use profiler_core::session::{DropReason, Drops};

    use super::*;

    #[test]
    fn a_process_whose_entries_were_all_dropped_has_no_data_that_was_too_old() {
        let mut dropped = [0; DropReason::COUNT];
        dropped[DropReason::Full as usize] = 3;
        let of = |evicted: u64, dropped: Drops| {
            why_gone(&EntryCounts {
                evicted,
                dropped,
                ..EntryCounts::default()
            })
        };
        assert_eq!(of(0, Drops::default()), None);
        assert_eq!(of(0, Drops::new(dropped)), Some(Why::AllDropped));
        assert_eq!(of(1, Drops::new(dropped)), Some(Why::Expired));
    }
}
