//! Several lives of one process: a process that executes another program keeps its number.
//!
//! Part of the [`ProcessTable`]. Each program that records is a process of the session of its own,
//! with a pool of its own. Used by the supervisor, which ends the earlier life, and by the thread
//! that lets processes join. Invariant: a life ends only if the system shows that the process
//! executes another program or no longer maps its pool, or, where the system does not show that, if
//! its channel has closed and the process joins again.

use std::sync::Arc;

use profiler_core::ids::{PoolId, ProcessId};
use profiler_sys::OwnFile;

#[cfg(observing)]
use super::tracked_process::Handing;
use super::{ProcessState, ProcessTable, Remains, TrackedProcess};
use crate::sys::{ProgramImage, facts_of};

/// A process of the session that has the same number as a process that joins.
#[derive(Clone, Debug)]
pub(crate) enum EarlierLife {
    /// Its program is no longer executed: its recording has ended.
    Over(PoolId),
    /// It records, as far as is known: the joining process is another profiler in the same program.
    Records,
    /// Its recording has ended if the process does not map this pool, or, if that is not known, if
    /// its channel has closed.
    Unclear {
        key: PoolId,
        pool: Arc<OwnFile>,
        has_hung_up: bool,
    },
}

impl ProcessTable {
    /// The earlier life of the process `pid`, which executes the program `now` and joins.
    #[cfg_attr(
        not(all(target_os = "linux", not(profiler_portable))),
        allow(dead_code)
    )]
    pub(crate) fn earlier_life(
        &self,
        pid: ProcessId,
        now: Option<ProgramImage>,
    ) -> Option<EarlierLife> {
        let all = self.lock();
        let (key, process) = all.iter().find(|(_, process)| {
            process.pid == pid
                && !process.is_over()
                && !process.is_observed // it ends when the recorder begins
                && !was_another_process(process, now)
                && (process.said_hello || process.remains.is_taken_by(pid))
        })?;
        // The session ends with the program of its own process.
        if process.state == ProcessState::Parent {
            return Some(EarlierLife::Records);
        }
        if is_replaced(process, now) {
            return Some(EarlierLife::Over(*key));
        }
        let has_hung_up = process.has_hung_up();
        Some(match (&process.remains, has_hung_up) {
            (Remains::Pool(pool), _) => EarlierLife::Unclear {
                key: *key,
                pool: Arc::clone(pool),
                has_hung_up,
            },
            (_, true) => EarlierLife::Over(*key),
            (_, false) => EarlierLife::Records,
        })
    }

    /// Whether a recorder in this process records it, as far as is known.
    #[cfg(observing)]
    pub(crate) fn records_itself(&self, pid: ProcessId) -> bool {
        let records = |process: &TrackedProcess| {
            process.pid == pid
                && !process.is_over()
                && !process.is_observed
                && (process.has_joined
                    || process.handing == Handing::Claimed
                    || process.remains.is_taken_by(pid))
        };
        self.lock().values().any(records)
    }

    /// Notes that the own recorder of an observed process records it from now on. If the process was
    /// observed `for_a_moment` only, this part of it is not shown.
    #[cfg(observing)]
    pub(crate) fn note_recorder(&self, key: PoolId, for_a_moment: bool) {
        self.change(key, |process| {
            process.records_itself = true;
            process.is_left_out = for_a_moment;
        });
    }

    /// Notes that this part of the life of a process is not shown.
    #[cfg(observing)]
    pub(crate) fn leave_out(&self, key: PoolId) {
        self.change(key, |process| process.is_left_out = true);
    }

    /// Whether a process is known to execute another program than when it connected.
    pub(crate) fn executes_another_program(&self, key: PoolId) -> bool {
        let known = self.lock().get(&key).and_then(known_image);
        known.is_some_and(executes_another)
    }

    /// The processes whose channel has closed, and that execute another program than when they
    /// connected.
    pub(crate) fn newly_executed(&self) -> Vec<PoolId> {
        let hung_up: Vec<(PoolId, (ProcessId, ProgramImage))> = {
            let all = self.lock();
            let hung_up = all.iter().filter(|(_, process)| process.has_hung_up());
            hung_up
                .filter_map(|(key, process)| Some((*key, known_image(process)?)))
                .collect()
        };
        let executed = hung_up
            .into_iter()
            .filter(|(_, known)| executes_another(*known));
        executed.map(|(key, _)| key).collect()
    }
}

fn known_image(process: &TrackedProcess) -> Option<(ProcessId, ProgramImage)> {
    let image = process.image.filter(|_| !process.is_over())?;
    Some((process.pid, image))
}

fn executes_another((pid, image): (ProcessId, ProgramImage)) -> bool {
    let now = facts_of(pid).and_then(|facts| facts.image);
    now.is_some_and(|now| image.is_replaced_by(&now))
}

/// Whether the process has ended, and the process that is `now` has only its number.
fn was_another_process(process: &TrackedProcess, now: Option<ProgramImage>) -> bool {
    let known = process.image.zip(now);
    known.is_some_and(|(image, now)| image.start != now.start)
}

fn is_replaced(process: &TrackedProcess, now: Option<ProgramImage>) -> bool {
    let known = process.image.zip(now);
    known.is_some_and(|(image, now)| image.is_replaced_by(&now))
}

#[cfg(all(test, target_os = "linux", not(profiler_portable)))]
mod tests {
    use profiler_core::ids::ProcessStart;
    use profiler_core::session::EntryCounts;

    use super::*;

    /// A sleeping process, and the program that it executes.
    fn sleeper() -> (std::process::Child, ProcessId, ProgramImage) {
        let mut command = std::process::Command::new("sleep");
        let child = command.arg("86399").spawn().unwrap();
        let pid = ProcessId::new(child.id());
        let image = loop {
            // `spawn` returns when the program is being executed.
            if let Some(image) = facts_of(pid).and_then(|facts| facts.image) {
                break image;
            }
        };
        (child, pid, image)
    }

    fn table(pid: ProcessId, image: Option<ProgramImage>, state: ProcessState) -> ProcessTable {
        let table = ProcessTable::default();
        let counts = EntryCounts {
            evicted: 1,
            ..EntryCounts::default()
        };
        let process = TrackedProcess {
            image,
            ..TrackedProcess::new("p", pid, state, Remains::Expired(counts))
        };
        table.add(PoolId::new(7), process);
        table
    }

    #[test]
    fn a_process_that_executes_the_same_program_has_one_life() {
        let (mut child, pid, image) = sleeper();
        let table = table(pid, Some(image), ProcessState::Connected);
        assert!(!table.executes_another_program(PoolId::new(7)));
        let life = table.earlier_life(pid, Some(image));
        assert!(matches!(life, Some(EarlierLife::Records)), "{life:?}");
        assert!(table.earlier_life(ProcessId::new(1), Some(image)).is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(
            !table.executes_another_program(PoolId::new(7)),
            "a process that is gone executes nothing"
        );
    }

    #[test]
    fn a_process_with_a_reused_number_has_no_earlier_life() {
        let (mut child, pid, image) = sleeper();
        let other = ProgramImage {
            start: ProcessStart::new(image.start.get() + 1),
            ..image
        };
        for state in [
            ProcessState::Connected,
            ProcessState::Disconnected("gone".to_owned()),
        ] {
            let table = table(pid, Some(other), state);
            assert!(table.earlier_life(pid, Some(image)).is_none());
            assert!(!table.executes_another_program(PoolId::new(7)));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn the_own_process_of_a_session_has_no_earlier_life() {
        let (mut child, pid, image) = sleeper();
        let other = ProgramImage {
            stack: image.stack + 4096,
            ..image
        };
        let table = table(pid, Some(other), ProcessState::Parent);
        let life = table.earlier_life(pid, Some(image));
        assert!(matches!(life, Some(EarlierLife::Records)), "{life:?}");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn another_image_or_a_closed_channel_ends_a_life() {
        let (mut child, pid, image) = sleeper();
        let other = ProgramImage {
            stack: image.stack + 4096,
            ..image
        };
        let is_over = |life| {
            assert!(matches!(life, Some(EarlierLife::Over(key)) if key == PoolId::new(7)));
        };
        let connected = table(pid, Some(other), ProcessState::Connected);
        is_over(connected.earlier_life(pid, Some(image)));
        assert!(connected.executes_another_program(PoolId::new(7)));
        assert_eq!(connected.newly_executed(), [], "its channel is open");
        let closed = ProcessState::Disconnected("gone".to_owned());
        let closed = table(pid, None, closed);
        is_over(closed.earlier_life(pid, None));
        assert_eq!(closed.newly_executed(), [], "the program is not known");
        let closed = ProcessState::Disconnected("gone".to_owned());
        let closed = table(pid, Some(other), closed);
        assert_eq!(closed.newly_executed(), [PoolId::new(7)]);
        is_over(closed.earlier_life(pid, Some(image)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
