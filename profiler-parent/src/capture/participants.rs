//! Who is in a capture: every process of the session, with what is needed to take its part.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use profiler_core::ids::{PoolId, ProcessId};
use profiler_core::losses::EntryCounts;
use profiler_core::profile::gecko::merge_categories;
use profiler_core::profile::{CategoryRow, ProcessSummary, ProfileSpec};
use profiler_core::reader::PoolReader;
use profiler_core::sys::OwnFile;
use profiler_core::time::{Anchor, Timestamp};

use super::log::GatheringLog;
use super::{CapturedProcess, TimeRange};
use crate::gather::state::{DEATH_NEWS, Millis};
use crate::gather::verdict::{Verdict, Why};
use crate::observe::SessionNs;
use crate::outbox::Outbox;
use crate::supervisor::{Process, ProcessState, Remains, Shared};

/// A child says hello within some milliseconds of its start, if it gets a processor. One that is silent holds up every
/// capture for so long, so that is half of what a capture may take beyond its timeout.
const HELLO: Millis = Millis::new(250);

/// One process of a capture.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) key: PoolId,
    pub(super) name: String,
    pub(super) pid: ProcessId,
    pub(super) is_parent: bool,
    pub(super) remains: Remains,
    pub(super) outbox: Option<Arc<Outbox>>,
    /// What is known of why it cannot be asked, if it cannot.
    unable: Option<Why>,
}

impl Member {
    /// Its pool, if it has one.
    pub(super) fn pool(&self) -> Option<&Arc<OwnFile>> {
        match &self.remains {
            Remains::Pool(file) => Some(file),
            Remains::Expired(_) | Remains::Unprofiled(_) => None,
        }
    }

    /// What the report says of it when nothing of it is in the profile.
    pub(super) fn missing(&self) -> CapturedProcess {
        let (counts, why) = match &self.remains {
            Remains::Expired(counts) if counts.recorded() > 0 => (*counts, Why::Expired),
            Remains::Expired(counts) => (*counts, why_untouched(self.unable.clone().unwrap_or(Why::Gone))),
            Remains::Unprofiled(why) => (EntryCounts::default(), Why::Unprofiled { message: why.clone() }),
            Remains::Pool(_) => (EntryCounts::default(), self.unable.clone().unwrap_or(Why::Gone)),
        };
        self.settled(&ProcessSummary { counts, ..ProcessSummary::default() }, Verdict::Missing { why })
    }

    /// What the report says of it when its part is in the profile.
    pub(super) fn settled(&self, summary: &ProcessSummary, verdict: Verdict) -> CapturedProcess {
        CapturedProcess {
            name: self.name.clone(),
            pid: self.pid,
            threads: summary.threads,
            counts: summary.counts,
            verdict,
            writing: Duration::from_nanos(summary.writing_ns),
        }
    }
}

/// Takes the roll, the parent first.
pub(super) fn call(shared: &Shared) -> Vec<Member> {
    await_hellos(shared);
    let all = shared.processes.lock();
    let mut members: Vec<_> = all
        .iter()
        .map(|(key, process)| {
            let member = Member {
                key: *key,
                name: process.name.clone(),
                pid: process.pid,
                is_parent: process.state == ProcessState::Parent,
                remains: process.remains.clone(),
                outbox: process.outbox.clone(),
                unable: process.why_unable(),
            };
            (process.order, member)
        })
        .collect();
    drop(all);
    members.sort_by_key(|(order, _)| *order);
    members.into_iter().map(|(_, member)| member).collect()
}

/// Processes that ended so long ago that they are not told apart any more, as one row.
pub(super) fn earlier(shared: &Shared) -> Option<CapturedProcess> {
    let earlier = shared.processes.earlier();
    (earlier.processes > 0).then(|| CapturedProcess {
        name: format!("{} earlier processes", earlier.processes),
        pid: ProcessId::new(0),
        threads: 0,
        counts: earlier.counts,
        verdict: Verdict::Missing { why: Why::Expired },
        writing: Duration::ZERO,
    })
}

/// Why a process cannot be asked, by what is known now; `None` if it could be.
pub(super) fn unable_now(shared: &Shared, key: PoolId) -> Option<Why> {
    shared.processes.lock().get(&key).and_then(Process::why_unable)
}

/// When a process ended, if it has by now.
pub(super) fn death_of(shared: &Shared, key: PoolId) -> Option<Timestamp> {
    shared.processes.lock().get(&key).and_then(|process| process.died)
}

/// Waits shortly for those that end, or whose channel has closed: the news of their death says more. Whoever saw a
/// child's pipe close, and then captures, is told how it died.
pub(super) fn await_news(shared: &Shared, keys: impl Iterator<Item = PoolId>) {
    let keys: Vec<PoolId> = keys.collect();
    let running: Vec<(PoolId, u32)> = {
        let all = shared.processes.lock();
        let known = keys.iter().filter_map(|key| Some((*key, all.get(key)?)));
        known
            .filter(|(_, process)| process.seems_to_run())
            .map(|(key, process)| (key, process.pid.get()))
            .collect()
    };
    let ending = running.iter().filter(|(_, pid)| crate::sys::is_ending(*pid)).map(|(key, _)| *key);
    let ending: BTreeSet<PoolId> = ending.collect();
    shared.processes.wait_while(DEATH_NEWS.into(), |all| {
        let is_open = |key: &PoolId| {
            let ends =
                |process: &Process| process.has_hung_up() || process.seems_to_run() && ending.contains(key);
            all.get(key).is_some_and(ends)
        };
        keys.iter().any(is_open)
    });
}

/// Waits shortly for the hellos of those that record already: they were started a moment ago.
fn await_hellos(shared: &Shared) {
    let is_new = |process: &Process| process.state == ProcessState::Starting;
    let new: Vec<(PoolId, Remains)> = {
        let all = shared.processes.lock();
        all.iter()
            .filter(|(_, process)| is_new(process))
            .map(|(key, process)| (*key, process.remains.clone()))
            .collect()
    };
    let begun: Vec<PoolId> = new.iter().filter(|(_, pool)| pool.is_taken()).map(|(key, _)| *key).collect();
    if !begun.is_empty() {
        let is_silent = |key: &PoolId, all: &BTreeMap<PoolId, Process>| all.get(key).is_some_and(is_new);
        shared.processes.wait_while(HELLO.into(), |all| begun.iter().any(|key| is_silent(key, all)));
    }
}

/// What is said of a process that left nothing because it never recorded.
pub(super) fn why_untouched(why: Why) -> Why {
    if why.is_orderly() { Why::RecordedNothing } else { why }
}

/// Names in the log whoever holds more memory than it was granted.
pub(super) fn note_overdrawn(shared: &Shared, log: &mut GatheringLog) {
    for process in shared.processes.reports().iter().filter(|process| process.excess_bytes > 0) {
        let (name, pid, held) = (&process.name, process.pid, process.true_bytes);
        let more = process.excess_bytes;
        log.note(format!("{name} ({pid}) holds {held} bytes, {more} more than it was granted"));
    }
}

/// The instant of this time of the session.
pub(super) fn instant(shared: &Shared, later: Anchor, at: SessionNs) -> Timestamp {
    let ticks = shared.clock.converter(later).ticks_in(at.0.unsigned_abs());
    let start = shared.clock.start.ticks.raw();
    let raw = if at.0 < 0 { start.saturating_sub(ticks) } else { start.saturating_add(ticks) };
    Timestamp::from_raw(raw)
}

/// What all parts share: the conversion of times, the window, the categories of all processes.
pub(super) fn spec(shared: &Shared, members: &[Member], range: Option<TimeRange>) -> ProfileSpec {
    let later = Anchor::take();
    let window = shared.params.window_ns;
    let since = (window > 0).then(|| {
        let ticks = shared.clock.converter(later).ticks_in(window);
        Timestamp::from_raw(later.ticks.raw().saturating_sub(ticks))
    });
    let from = range.map(|range| instant(shared, later, range.from));
    let since = since.max(from);
    let mut categories: Vec<CategoryRow> = Vec::new();
    for pool in members.iter().filter_map(Member::pool) {
        let definitions = PoolReader::open(&**pool).and_then(|reader| reader.definitions());
        merge_categories(&mut categories, &definitions.unwrap_or_default());
    }
    categories.truncate(ipc_protocol::limits::MAX_CATEGORIES);
    ProfileSpec { later, since, categories }
}
