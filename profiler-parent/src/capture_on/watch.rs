//! The signs that the worker looks at: what has happened since the last look.
//!
//! Invariant: what happened before the watch began is no sign.

use std::path::PathBuf;

use profiler_sys::FileStamp;

use super::cause::CaptureCause;
use super::flag::CaptureFlag;
use super::memory::MemoryWatch;
use super::trigger::Deaths;
use crate::process_table::ProcessTable;
use crate::session_time::SessionTime;
use crate::sys::chosen_signal::ChosenSignal;

/// The signs of one look.
#[derive(Debug, Default)]
pub(super) struct Signs {
    /// The cause of the first one.
    pub(super) first: Option<CaptureCause>,
    /// How many there are.
    pub(super) count: u64,
}

impl Signs {
    /// Adds this many signs with the same cause.
    pub(super) fn add(&mut self, times: u64, cause: impl FnOnce() -> CaptureCause) {
        if times > 0 {
            self.first.get_or_insert_with(cause);
            self.count = self.count.saturating_add(times);
        }
    }
}

/// What is looked at.
#[derive(Debug)]
pub(super) enum Watch {
    Flag {
        flag: &'static CaptureFlag,
        seen: u64,
    },
    Signal {
        signal: ChosenSignal,
        seen: u64,
    },
    File {
        path: PathBuf,
        /// `None`: it did not exist.
        seen: Option<FileStamp>,
    },
    Deadlocks {
        /// The number of the next one.
        next: usize,
    },
    Deaths {
        deaths: Deaths,
        /// The number of the next one.
        next: u64,
    },
    Memory(MemoryWatch),
}

impl Watch {
    pub(super) fn of_flag(flag: &'static CaptureFlag) -> Self {
        let seen = flag.raised();
        Self::Flag { flag, seen }
    }

    pub(super) fn of_signal(signal: ChosenSignal) -> Self {
        let seen = signal.arrived();
        Self::Signal { signal, seen }
    }

    pub(super) fn of_file(path: PathBuf) -> Self {
        let seen = stamp_of(&path);
        Self::File { path, seen }
    }

    pub(super) fn of_deadlocks(processes: &ProcessTable) -> Self {
        let next = processes.deadlocks().len();
        Self::Deadlocks { next }
    }

    pub(super) fn of_deaths(deaths: Deaths, processes: &ProcessTable) -> Self {
        let (_, next) = processes.deaths_from(u64::MAX);
        Self::Deaths { deaths, next }
    }

    /// Adds the signs since the last look.
    pub(super) fn look(&mut self, processes: &ProcessTable, time: SessionTime, signs: &mut Signs) {
        match self {
            Self::Flag { flag, seen } => {
                signs.add(since(seen, flag.raised()), || CaptureCause::Flag);
            }
            Self::Signal { signal, seen } => {
                let new = since(seen, signal.arrived());
                signs.add(new, || CaptureCause::Signal(signal.number()));
            }
            Self::File { path, seen } => {
                let now = stamp_of(path);
                let is_new = now.is_some() && now != *seen;
                *seen = now;
                signs.add(u64::from(is_new), || CaptureCause::File(path.clone()));
            }
            Self::Deadlocks { next } => {
                let found = processes.deadlocks_from(*next);
                *next = next.saturating_add(found.len());
                for deadlock in found {
                    signs.add(1, || CaptureCause::Deadlock(deadlock));
                }
            }
            Self::Deaths { deaths, next } => {
                let (new, further) = processes.deaths_from(*next);
                *next = further;
                for death in new.into_iter().filter(|death| deaths.include(&death.why)) {
                    signs.add(1, || CaptureCause::Death(death));
                }
            }
            Self::Memory(memory) => memory.look(processes, time, signs),
        }
    }
}

/// How much a counter has grown.
fn since(seen: &mut u64, now: u64) -> u64 {
    let new = now.wrapping_sub(*seen);
    *seen = now;
    new
}

fn stamp_of(path: &std::path::Path) -> Option<FileStamp> {
    let about = std::fs::metadata(path).ok()?;
    Some(FileStamp::of(&about))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The signs of a look.
    fn look(watch: &mut Watch) -> u64 {
        let mut signs = Signs::default();
        watch.look(
            &ProcessTable::default(),
            SessionTime::start_now(),
            &mut signs,
        );
        signs.count
    }

    #[test]
    fn each_raising_of_a_flag_is_one_sign_and_earlier_ones_are_none() {
        static FLAG: CaptureFlag = CaptureFlag::new();
        FLAG.raise();
        let mut watch = Watch::of_flag(&FLAG);
        assert_eq!(look(&mut watch), 0);
        (0..3).for_each(|_| FLAG.raise());
        assert_eq!((look(&mut watch), look(&mut watch)), (3, 0));
    }

    #[test]
    fn a_file_is_a_sign_when_it_appears_and_when_it_is_changed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("capture");
        std::fs::write(&path, "before").unwrap();
        let mut watch = Watch::of_file(path.clone());
        assert_eq!(look(&mut watch), 0, "it was there at the beginning");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(look(&mut watch), 0);
        std::fs::write(&path, "now").unwrap();
        assert_eq!((look(&mut watch), look(&mut watch)), (1, 0));
        std::fs::write(&path, "changed").unwrap();
        assert_eq!(look(&mut watch), 1);
    }
}
