//! The registry of the probes that all monitors together request.
//!
//! Probes are counted here for all processes together. The first [`Monitor`] of a probe turns it on
//! in this process at once and wakes the supervisor, which reads [`ProbeRegistry::wanted`] and
//! sends the probes to all children; the last one turns it off. A child that connects later gets
//! the current probes. Invariants: no caller waits for a child or for the supervisor; the
//! supervisor reads the latest state; nothing changes after the session's end; a [`Monitor`] holds
//! no resources of the session.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use profiler_core::groups::{self, Probes};

/// Makes the supervisor read the registry. It must not wait.
type Wake = Box<dyn Fn() + Send + Sync + UnwindSafe + RefUnwindSafe>;

#[derive(Debug, Default)]
struct ProbeCounts {
    /// The number of monitors for each of [`Probes::EACH`].
    counts: [usize; Probes::EACH.len()],
    /// The wanted probes after the last change before the session's end.
    latest: Probes,
    is_over: bool,
    /// This process is not asked: it records for another session, which decides about its probes.
    spares_this_process: bool,
}

impl ProbeCounts {
    fn wanted(&self) -> Probes {
        let each = Probes::EACH
            .iter()
            .zip(self.counts)
            .filter(|(_, count)| *count > 0);
        each.fold(Probes::NONE, |all, ((probe, _), _)| all.with(*probe))
    }

    fn set_here(&self, probes: Probes) {
        if !self.spares_this_process {
            groups::set_probes(probes);
        }
    }

    fn count(&mut self, probes: Probes, change: fn(usize) -> usize) {
        let each = Probes::EACH.iter().zip(&mut self.counts);
        each.filter(|((probe, _), _)| probes.contains(*probe))
            .for_each(|(_, count)| *count = change(*count));
    }
}

/// The registry of probes. See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct ProbeRegistry(Mutex<ProbeCounts>);

impl ProbeRegistry {
    /// A registry that changes nothing in this process, which records for another session.
    pub(crate) fn of_children() -> Self {
        Self(Mutex::new(ProbeCounts {
            spares_this_process: true,
            ..ProbeCounts::default()
        }))
    }

    fn lock(&self) -> MutexGuard<'_, ProbeCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies `change` to the counts of these probes.
    fn change(&self, wake: &Wake, probes: Probes, change: fn(usize) -> usize) {
        let mut state = self.lock();
        state.count(probes, change);
        let wanted = state.wanted();
        if wanted != state.latest && !state.is_over {
            state.latest = wanted;
            state.set_here(wanted);
            wake();
        }
    }

    /// The probes that all processes must measure now.
    pub(crate) fn wanted(&self) -> Probes {
        self.lock().latest
    }

    /// Ends the session: no probe is wanted any more.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_over = true;
        state.set_here(Probes::NONE);
    }
}

/// Makes all processes measure these probes, including processes started later, until it is
/// dropped.
#[must_use = "nothing is measured any more when this is dropped"]
pub struct Monitor {
    registry: Arc<ProbeRegistry>,
    wake: Wake,
    probes: Probes,
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor")
            .field("probes", &self.probes)
            .finish_non_exhaustive()
    }
}

impl Monitor {
    /// `wake` makes the supervisor read the registry. It must not wait.
    pub(crate) fn new(
        registry: Arc<ProbeRegistry>,
        wake: impl Fn() + Send + Sync + UnwindSafe + RefUnwindSafe + 'static,
        probes: Probes,
    ) -> Self {
        let wake: Wake = Box::new(wake);
        registry.change(&wake, probes, |count| count.saturating_add(1));
        Self {
            registry,
            wake,
            probes,
        }
    }

    /// The probes that it requests.
    pub const fn probes(&self) -> Probes {
        self.probes
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.registry
            .change(&self.wake, self.probes, |count| count.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crossbeam_channel::bounded;
    use profiler_sys::spawn_quiet;

    use super::*;
    use crate::supervisor::{SupervisorEvent, Waker};

    #[test]
    fn p11_a_busy_supervisor_delays_no_monitor_and_later_reads_the_latest_probes() {
        let (events, queue) = bounded(1);
        events.send(SupervisorEvent::Woken).unwrap();
        let registry = Arc::<ProbeRegistry>::default();
        let waker = Waker::new(events);
        let shared = Arc::clone(&registry);
        let (done, is_done) = bounded(1);
        let create = move || {
            let early = waker.clone();
            drop(Monitor::new(
                Arc::clone(&shared),
                move || early.wake(),
                Probes::JANK,
            ));
            let monitor = Monitor::new(shared, move || waker.wake(), Probes::BLOCKING);
            done.send(()).unwrap();
            monitor
        };
        let thread = spawn_quiet("test-monitor", create).unwrap();
        is_done
            .recv_timeout(Duration::from_secs(120))
            .expect("a monitor waited for the supervisor");
        assert_eq!((registry.wanted(), queue.len()), (Probes::BLOCKING, 1));
        drop(thread.join().unwrap());
        assert_eq!(registry.wanted(), Probes::NONE);
    }

    #[test]
    fn p11_a_probe_is_wanted_until_its_last_monitor_is_dropped() {
        let mut counts = ProbeCounts::default();
        counts.count(Probes::JANK.with(Probes::CPU), |count| count + 1);
        counts.count(Probes::JANK, |count| count + 1);
        assert_eq!(counts.wanted(), Probes::JANK.with(Probes::CPU));
        counts.count(Probes::JANK.with(Probes::CPU), |count| count - 1);
        assert_eq!(counts.wanted(), Probes::JANK);
        counts.count(Probes::JANK, |count| count - 1);
        assert_eq!(counts.wanted(), Probes::NONE);
    }
}
