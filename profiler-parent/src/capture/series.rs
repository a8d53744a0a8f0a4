//! A series of captures: each profile has the entries that no earlier one of the series has.
//!
//! Used by the pusher. A series is changed only when the file of a profile is complete, so the
//! entries of a capture that has failed are in the next one. Invariants: memory is bounded by the
//! processes that the session lists, and by the process ids of the system; a process has the same
//! number in all profiles of the series.

use std::collections::HashMap;

use profiler_core::ids::{PoolId, ProcessId};
use profiler_core::session::EntryCounts;
use profiler_core::time::Timestamp;

use crate::processed::EarlierEntries;

/// What the profiles of a series contain.
#[derive(Clone, Debug)]
pub struct CaptureSeries {
    /// When the series began.
    since: Timestamp,
    /// Whether its profiles say what earlier ones contain. A profile of its own does not.
    is_continued: bool,
    pools: HashMap<PoolId, PoolInSeries>,
    /// The number of processes in the series that had a process id.
    lives: HashMap<ProcessId, u32>,
    /// The entries of processes that are no longer listed.
    unlisted_written: u64,
    unlisted_missed: u64,
    unlisted_accounted: u64,
    /// All entries of the processes that were unlisted before the first profile.
    unlisted_before: Option<u64>,
    /// All entries of the processes that are no longer listed.
    unlisted_all: u64,
    contents: SeriesContents,
}

/// What the profiles of a series contain, in numbers. If a profile changes none of them, it says
/// nothing new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeriesContents {
    /// The processes whose ends are in the series.
    ends: u64,
    /// How often a profile has other values of a process's counters than the one before.
    counter_changes: u64,
    /// The entries.
    pub entries: u64,
    /// The entries that were evicted before a profile contained them.
    pub missed: u64,
}

#[derive(Clone, Debug, Default)]
struct PoolInSeries {
    entries: EarlierEntries,
    /// The number of earlier processes with its process id, if it is in a profile.
    life: Option<u32>,
    /// The process has ended, and a profile of the series says how.
    is_over: bool,
}

/// The entries of a process in a profile that continues a series.
#[derive(Clone, Debug)]
pub struct ProcessInSeries {
    /// Its number in the threads of all profiles.
    pub(crate) number: String,
    /// Entries in the earlier profiles.
    pub(crate) earlier: u64,
    /// Entries that no profile up to this one contains.
    pub(crate) missed: u64,
    /// Those since the profile before this one.
    pub newly_missed: u64,
}

impl PoolInSeries {
    /// What a profile says about the process. `before` is what the earlier ones contain.
    fn says(&self, pid: ProcessId, before: &EarlierEntries) -> ProcessInSeries {
        let number = match self.life.unwrap_or(0) {
            0 => pid.to_string(),
            life => format!("{pid}.{life}"),
        };
        let missed = self.entries.missed();
        ProcessInSeries {
            number,
            earlier: before.written(),
            missed,
            newly_missed: missed.saturating_sub(before.missed()),
        }
    }
}

impl Default for CaptureSeries {
    /// A series that begins now.
    fn default() -> Self {
        Self {
            since: Timestamp::now(),
            is_continued: false,
            pools: HashMap::new(),
            lives: HashMap::new(),
            unlisted_written: 0,
            unlisted_missed: 0,
            unlisted_accounted: 0,
            unlisted_before: None,
            unlisted_all: 0,
            contents: SeriesContents::default(),
        }
    }
}

impl CaptureSeries {
    /// The same series, whose profiles say that they are of one.
    pub(super) fn continued(self) -> Self {
        Self {
            is_continued: true,
            ..self
        }
    }

    /// Whether later profiles need not mention a process.
    pub(super) fn is_over(&self, process: PoolId) -> bool {
        self.pools.get(&process).is_some_and(|pool| pool.is_over)
    }

    /// The entries of a process in the profiles of the series. `began` is when the session learned
    /// of it.
    pub(super) fn entries_of(&self, process: PoolId, began: Option<Timestamp>) -> EarlierEntries {
        let is_new = began.is_some_and(|began| began >= self.since);
        match self.pools.get(&process) {
            Some(pool) => pool.entries.clone(),
            None if is_new => EarlierEntries::of_new_process(),
            None => EarlierEntries::default(),
        }
    }

    /// The data of a process is gone, and these are its final counts. Returns what the next profile
    /// says about the process.
    pub(super) fn note_gone(
        &mut self,
        (process, pid): (PoolId, ProcessId),
        began: Option<Timestamp>,
        counts: &EntryCounts,
    ) -> Option<ProcessInSeries> {
        let before = self.entries_of(process, began);
        let pool = self.pools.entry(process).or_default();
        pool.entries = before.clone();
        pool.entries.end_with(counts);
        self.is_continued.then(|| pool.says(pid, &before))
    }

    /// The number of earlier processes of the series with this process id.
    pub fn life_of(&mut self, process: PoolId, pid: ProcessId) -> u32 {
        let next = self.lives.entry(pid).or_insert(0);
        let pool = self.pools.entry(process).or_default();
        *pool.life.get_or_insert_with(|| {
            let life = *next;
            *next = next.saturating_add(1);
            life
        })
    }

    /// Forgets a process. A later one can have its key.
    pub fn forget(&mut self, process: PoolId) {
        self.pools.remove(&process);
    }

    /// The next profile has these entries of a process in addition to the earlier ones.
    pub(super) fn note_entries(&mut self, process: PoolId, entries: EarlierEntries) {
        let pool = self.pools.entry(process).or_default();
        let changes = u64::from(entries.has_other_counters_than(&pool.entries));
        self.contents.counter_changes = self.contents.counter_changes.saturating_add(changes);
        pool.entries = entries;
    }

    /// The next profile has these numbers of entries of a process. Returns what the profile says
    /// about the process.
    pub(super) fn note_counts(
        &mut self,
        process: PoolId,
        pid: ProcessId,
        counts: &EntryCounts,
    ) -> Option<ProcessInSeries> {
        let pool = self.pools.get_mut(&process)?;
        let before = pool.entries.clone();
        pool.entries.add_counts(counts);
        self.is_continued.then(|| pool.says(pid, &before))
    }

    /// The next profile says how a process has ended.
    pub(super) fn note_end(&mut self, process: PoolId) {
        let pool = self.pools.entry(process).or_default();
        let ends = u64::from(!pool.is_over);
        self.contents.ends = self.contents.ends.saturating_add(ends);
        pool.is_over = true;
    }

    /// Forgets all processes but these. `unlisted` has the counts of all other processes of the
    /// session.
    pub(super) fn keep(&mut self, is_listed: impl Fn(PoolId) -> bool, unlisted: &EntryCounts) {
        let Self {
            pools,
            unlisted_written,
            unlisted_missed,
            unlisted_accounted,
            ..
        } = self;
        pools.retain(|process, pool| {
            let is_kept = is_listed(*process);
            if !is_kept {
                *unlisted_written = unlisted_written.saturating_add(pool.entries.written());
                *unlisted_missed = unlisted_missed.saturating_add(pool.entries.missed());
                let accounted = pool.entries.accounted();
                *unlisted_accounted = unlisted_accounted.saturating_add(accounted);
            }
            is_kept
        });
        let EntryCounts {
            delivered,
            outside,
            evicted,
            ..
        } = unlisted;
        self.unlisted_all = delivered.saturating_add(*outside).saturating_add(*evicted);
        self.unlisted_before.get_or_insert(self.unlisted_all);
    }

    /// The entries of processes that are no longer listed, and that no capture has seen.
    fn unseen(&self) -> u64 {
        let before = self.unlisted_before.unwrap_or(0);
        let all = self.unlisted_all.saturating_sub(before);
        all.saturating_sub(self.unlisted_accounted)
    }

    /// What the profiles of the series contain.
    pub fn contents(&self) -> SeriesContents {
        SeriesContents {
            entries: self.written(),
            missed: self.missed(),
            ..self.contents
        }
    }

    /// The number of entries in the profiles of the series.
    pub fn written(&self) -> u64 {
        let pools = self.pools.values();
        pools.fold(self.unlisted_written, |sum, pool| {
            sum.saturating_add(pool.entries.written())
        })
    }

    /// The number of entries that were evicted before a profile contained them.
    pub fn missed(&self) -> u64 {
        let pools = self.pools.values();
        let unlisted = self.unlisted_missed.saturating_add(self.unseen());
        pools.fold(unlisted, |sum, pool| {
            sum.saturating_add(pool.entries.missed())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evicted(evicted: u64) -> EntryCounts {
        EntryCounts {
            evicted,
            ..EntryCounts::default()
        }
    }

    #[test]
    fn entries_that_are_gone_before_a_capture_sees_them_are_missed() {
        let mut series = CaptureSeries::default();
        series.keep(|_| true, &evicted(1000));
        assert_eq!(series.missed(), 0, "they are from before the series");
        let [old, new] = [1, 2].map(PoolId::new);
        let pid = ProcessId::new(12);
        series.note_gone((old, pid), Some(Timestamp::ZERO), &evicted(10));
        series.note_gone((new, pid), Some(Timestamp::now()), &evicted(50));
        assert_eq!(series.missed(), 50, "the process began after the series");
        series.keep(|_| false, &evicted(1000 + 10 + 50 + 30));
        assert_eq!(
            series.missed(),
            80,
            "one process came and went between captures"
        );
    }

    #[test]
    fn what_a_new_process_evicts_before_its_first_capture_is_missed() {
        let series = CaptureSeries::default();
        let began = Some(Timestamp::now());
        let mut entries = series.entries_of(PoolId::new(1), began);
        entries.add_counts(&evicted(7));
        assert_eq!(entries.missed(), 7);
        let before = series.entries_of(PoolId::new(1), Some(Timestamp::ZERO));
        assert_eq!(before, EarlierEntries::default());
        assert_ne!(series.entries_of(PoolId::new(1), began), before);
    }

    #[test]
    fn a_process_keeps_its_number_when_earlier_ones_with_its_id_are_left_out() {
        let mut series = CaptureSeries::default();
        let pid = ProcessId::new(12);
        let [first, second, third] = [1, 2, 3].map(PoolId::new);
        let lives = [first, second].map(|process| series.life_of(process, pid));
        assert_eq!(lives, [0, 1]);
        series.keep(|process| process == second, &EntryCounts::default());
        assert_eq!(series.life_of(second, pid), 1);
        assert_eq!(series.life_of(third, pid), 2, "no number is used again");
    }
}
