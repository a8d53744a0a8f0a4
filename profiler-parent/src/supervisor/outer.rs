//! The session around this one: that of `profiler record`, or of another program that has started
//! this one.
//!
//! A process has one recorder, so the outer session cannot record what this session records. This
//! session reports each process to the outer session, which lists it with the reason. The outer
//! session is found by its address in the environment, which this process has inherited.
//! Invariants: nothing is sent that is not in a profile anyway; a caller waits at most
//! [`PATIENCE`], and not again within [`QUIET`]; a session that is over is not told anything more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ipc_protocol::environment::{self, ChildEnvironment, InheritedHandle, SessionAddress};
use ipc_protocol::limits;
use ipc_protocol::message::RecordedElsewhere;
use ipc_protocol::transport::joining::{self, JoinError};
use profiler_core::ids::{ProcessId, ProcessStart};
use profiler_core::internal::sys;

use crate::sys::{facts_of, now};

/// How long a caller waits for the outer session. Usually it does not wait, because it needs no
/// answer.
const PATIENCE: Duration = Duration::from_millis(20);

/// How long nothing is told to an outer session that has not answered: it may be busy or stopped.
const QUIET: Duration = Duration::from_secs(1);

/// The session around this one.
#[derive(Debug)]
pub(crate) struct OuterSession {
    address: SessionAddress,
    is_gone: AtomicBool,
    /// When it did not answer.
    unheard: Mutex<Option<Instant>>,
}

/// A process that this session, or a session below it, records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recorded<'a> {
    pub(super) name: &'a str,
    pub(super) pid: ProcessId,
    /// The process that started it, if it is known.
    pub(super) parent: Option<ProcessId>,
    /// The process that has the session which records it.
    pub(super) session: ProcessId,
}

impl OuterSession {
    /// The session whose address this process has inherited, if there is one.
    pub(crate) fn of_environment() -> Option<Self> {
        let address = environment::session_address().ok().flatten()?;
        Some(Self {
            address,
            is_gone: AtomicBool::new(false),
            unheard: Mutex::default(),
        })
    }

    /// Tells the outer session that it cannot record a process.
    pub(super) fn tell(&self, process: Recorded<'_>) {
        if self.is_gone.load(Ordering::Relaxed) || self.is_quiet() {
            return;
        }
        match joining::report_recorded(&self.address, self.report(process), PATIENCE) {
            Err(JoinError::NoSession(_) | JoinError::OtherUser(_)) => {
                self.is_gone.store(true, Ordering::Relaxed);
            }
            Err(JoinError::NoAnswer(_)) => *self.unheard() = Some(now()),
            Ok(()) | Err(_) => {}
        }
    }

    fn is_quiet(&self) -> bool {
        self.unheard()
            .is_some_and(|unheard| unheard.elapsed() < QUIET)
    }

    fn unheard(&self) -> MutexGuard<'_, Option<Instant>> {
        self.unheard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, process: Recorded<'_>) -> RecordedElsewhere {
        let mut name = process.name.to_owned();
        limits::clip(&mut name, limits::MAX_NAME_BYTES);
        let start = facts_of(process.pid).map_or(ProcessStart::new(0), |facts| facts.start);
        RecordedElsewhere {
            token: self.address.token().clone(),
            name,
            pid: process.pid,
            start,
            parent: process.parent.unwrap_or_default(),
            session: process.session,
        }
    }
}

impl<'a> Recorded<'a> {
    /// A process that this session records.
    pub(super) fn here(name: &'a str, pid: ProcessId, parent: Option<ProcessId>) -> Self {
        Self {
            name,
            pid,
            parent,
            session: sys::process_id(),
        }
    }

    /// This process.
    pub(super) fn this_process(name: &'a str) -> Self {
        let parent = ProcessId::new(std::os::unix::process::parent_id());
        Self::here(name, sys::process_id(), Some(parent))
    }
}

/// Releases the memory that another session has handed to this process. This process records for
/// its own session, and the processes that it starts must not take the memory under its name: they
/// join the other session by themselves. Call it before this process starts threads.
pub(crate) fn release_handed_memory() {
    let Ok(Some(handed)) = environment::take() else {
        return;
    };
    let ChildEnvironment {
        pool, part_file, ..
    } = handed;
    // An error: the number belongs to another file of this process.
    let _ = (pool.release(), part_file.map(InheritedHandle::release));
}

#[cfg(all(test, target_os = "linux", not(profiler_portable)))]
mod tests {
    use ipc_protocol::environment::Token;
    use ipc_protocol::message::Opening;
    use ipc_protocol::transport::joining::{Joiner, SessionListener};
    use test_support::patience::until;

    use super::*;

    fn session_at(listener: &SessionListener) -> OuterSession {
        let token = Token::from_bytes([3; Token::BYTES]);
        OuterSession {
            address: SessionAddress::new(listener.path().to_owned(), token),
            is_gone: AtomicBool::new(false),
            unheard: Mutex::default(),
        }
    }

    /// Repeats the report until the session has received it, because a report that takes longer
    /// than [`PATIENCE`] is given up.
    fn told(
        outer: &OuterSession,
        listener: &SessionListener,
        unheard: Option<Instant>,
        name: &str,
    ) -> Joiner {
        let mut joiner = None;
        assert!(until(|| {
            *outer.unheard() = unheard;
            outer.tell(Recorded::this_process(name));
            joiner = listener.try_accept().unwrap();
            joiner.is_some()
        }));
        joiner.unwrap()
    }

    #[test]
    fn the_outer_session_learns_the_process_and_its_start() {
        let listener = SessionListener::new().unwrap();
        let outer = session_at(&listener);
        let joiner = told(&outer, &listener, None, &"n".repeat(1000));
        let Some(Opening::RecordedElsewhere(process)) = joiner.try_receive().unwrap() else {
            panic!("not a report");
        };
        assert_eq!(process.pid, sys::process_id());
        assert_eq!(process.session, sys::process_id());
        assert_eq!(process.start, sys::own_process_start());
        assert_eq!(process.name.len(), limits::MAX_NAME_BYTES);
    }

    #[test]
    fn a_session_that_has_not_answered_is_told_again_later() {
        let listener = SessionListener::new().unwrap();
        let outer = session_at(&listener);
        *outer.unheard() = Some(now());
        outer.tell(Recorded::this_process("app"));
        let long_ago = now().checked_sub(QUIET * 2);
        if outer.is_quiet() {
            assert!(listener.try_accept().unwrap().is_none(), "not yet");
        }
        told(&outer, &listener, long_ago, "app");
    }

    #[test]
    fn a_session_that_is_over_is_asked_once() {
        let listener = SessionListener::new().unwrap();
        let outer = session_at(&listener);
        drop(listener);
        assert!(!outer.is_gone.load(Ordering::Relaxed));
        assert!(until(|| {
            *outer.unheard() = None;
            outer.tell(Recorded::this_process("app"));
            outer.is_gone.load(Ordering::Relaxed)
        }));
    }
}
