//! The events of all threads of a process.
//!
//! Used by the session's reader of observed programs. A new thread inherits the events of the
//! thread that starts it. Where the system cannot do that (before Linux 5.13), [`follow`] finds new
//! threads in the list of threads.
//!
//! [`follow`]: ProcessEvents::follow
//!
//! Invariant: the events of all processes that write into the same rings are limited; a thread that
//! gets none is counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::event::{Event, EventError, EventKind, Sampling};
use crate::ring::{EventBudget, Rings};

/// The kinds of events, the best first.
const KINDS: [EventKind; 4] = [
    EventKind {
        in_system: true,
        is_inherited: true,
    },
    EventKind {
        in_system: false,
        is_inherited: true,
    },
    EventKind {
        in_system: true,
        is_inherited: false,
    },
    EventKind {
        in_system: false,
        is_inherited: false,
    },
];

/// The events of a process.
#[derive(Debug)]
pub struct ProcessEvents {
    pid: u32,
    sampling: Sampling,
    kind: EventKind,
    /// The events of each thread that was found in the list of threads.
    threads: BTreeMap<u32, ThreadEvents>,
    /// The processor time of threads whose events are closed.
    closed_ns: u64,
    /// The number of threads without events, because there are too many.
    refused: u64,
    budget: Arc<EventBudget>,
}

/// The events of a thread, one for each processor.
#[derive(Debug)]
struct ThreadEvents {
    all: Vec<Event>,
    budget: Arc<EventBudget>,
}

impl Drop for ThreadEvents {
    fn drop(&mut self) {
        self.budget.give_back(self.all.len());
    }
}

impl ProcessEvents {
    /// Opens events for all threads of a process. Their samples are among the records of `rings`.
    ///
    /// # Errors
    /// If no thread gets events.
    pub fn open(pid: u32, rings: &Rings, sampling: Sampling) -> Result<Self, EventError> {
        let mut refusal = EventError::Unsupported;
        // A thread that is started after the events of its creator are opened inherits them.
        let present = threads_of(pid);
        for kind in KINDS {
            match ThreadEvents::open(pid, rings, (sampling, kind)) {
                Ok(main) => {
                    let mut events = Self {
                        pid,
                        sampling,
                        kind,
                        threads: BTreeMap::from([(pid, main)]),
                        closed_ns: 0,
                        refused: 0,
                        budget: Arc::clone(rings.budget()),
                    };
                    events.add_new(rings, &present);
                    return Ok(events);
                }
                Err(error @ (EventError::Ended | EventError::Exhausted)) => return Err(error),
                // The system may forbid one kind and not support the next one.
                Err(error) if refusal != EventError::Forbidden => refusal = error,
                Err(_) => {}
            }
        }
        Err(refusal)
    }

    /// Opens events for threads that have none.
    fn add_new(&mut self, rings: &Rings, present: &[u32]) {
        for thread in present {
            if self.threads.contains_key(thread) {
                continue;
            }
            let opened = ThreadEvents::open(*thread, rings, (self.sampling, self.kind));
            let events = opened.unwrap_or_else(|error| {
                self.refused += u64::from(error != EventError::Ended);
                ThreadEvents {
                    all: Vec::new(),
                    budget: Arc::clone(&self.budget),
                }
            });
            self.threads.insert(*thread, events);
        }
    }

    /// Opens events for new threads, and closes those of threads that have ended, if threads do not
    /// inherit them.
    pub fn follow(&mut self, rings: &Rings) {
        if self.kind.is_inherited {
            return;
        }
        let present = threads_of(self.pid);
        let ended = self
            .threads
            .extract_if(.., |thread, _| present.binary_search(thread).is_err());
        for (_, events) in ended {
            self.closed_ns = self.closed_ns.saturating_add(events.count_ns());
        }
        self.add_new(rings, &present);
    }

    /// The processor time of the process since its events were opened, in nanoseconds. Complete
    /// also after its end.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        let open = self.threads.values().map(ThreadEvents::count_ns);
        open.fold(self.closed_ns, u64::saturating_add)
    }

    /// The threads that have events of their own. Threads that inherit them are not among these.
    pub fn threads(&self) -> impl Iterator<Item = u32> {
        self.threads.keys().copied()
    }

    /// The number of threads without samples, because there were too many events.
    #[must_use]
    pub const fn refused_threads(&self) -> u64 {
        self.refused
    }
}

impl ThreadEvents {
    fn open(
        thread: u32,
        rings: &Rings,
        (sampling, kind): (Sampling, EventKind),
    ) -> Result<Self, EventError> {
        let number = libc::pid_t::try_from(thread).map_err(|_| EventError::Ended)?;
        let processors = rings.processors().count();
        if !rings.budget().take(processors) {
            return Err(EventError::Exhausted);
        }
        let mut opened = Vec::with_capacity(processors);
        let result = rings.processors().try_for_each(|(processor, owner)| {
            let event = Event::of_thread(number, processor, sampling, kind)?;
            event.write_into(owner)?;
            opened.push(event);
            Ok(())
        });
        rings.budget().give_back(processors - opened.len());
        let events = Self {
            all: opened,
            budget: Arc::clone(rings.budget()),
        };
        result.map(|()| events)
    }

    fn count_ns(&self) -> u64 {
        let counts = self.all.iter().map(Event::count_ns);
        counts.fold(0, u64::saturating_add)
    }
}

/// The threads of a process, sorted.
fn threads_of(pid: u32) -> Vec<u32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task"));
    let entries = entries.into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut all: Vec<u32> = numbers.collect();
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use test_support::patience::until;

    use super::*;
    use crate::record::Record;

    const SAMPLING: Sampling = Sampling {
        interval_ns: 1_000_000,
        stack_bytes: 4096,
    };

    /// A shell that runs without a pause until it is killed.
    fn busy() -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]);
        command.stdin(Stdio::null()).spawn().unwrap()
    }

    /// The rings, if the system permits events here.
    fn rings(most_events: usize) -> Option<Rings> {
        let rings = Rings::open(most_events);
        if let Err(error) = &rings {
            println!("left out: {error}");
        }
        rings.ok()
    }

    #[test]
    fn a_process_that_runs_has_samples_with_stacks_and_its_time_is_known_after_its_end() {
        let Some(mut rings) = rings(4096) else { return };
        let mut child = busy();
        let events = ProcessEvents::open(child.id(), &rings, SAMPLING).unwrap();
        let (mut samples, mut others, mut stacks) = (0_u64, 0, 0);
        assert!(until(|| {
            rings.read(|record| {
                if let Record::Sample(sample) = record {
                    samples += u64::from(sample.pid == child.id());
                    others += u64::from(sample.pid != child.id());
                    stacks += u64::from(sample.registers.is_some() && sample.stack.len() >= 64);
                }
            });
            samples >= 50
        }));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(others, 0);
        assert!(stacks * 10 >= samples * 9, "{stacks} of {samples}");
        let used = events.cpu_ns();
        assert!(used >= samples * SAMPLING.interval_ns / 2, "{used}");
    }

    #[test]
    fn an_executed_program_is_reported() {
        let Some(mut rings) = rings(4096) else { return };
        let mut child = Command::new("sh")
            .args(["-c", "read word; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let _events = ProcessEvents::open(child.id(), &rings, SAMPLING).unwrap();
        let mut input = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut input, b"go\n").unwrap();
        let mut executed = Vec::new();
        assert!(until(|| {
            rings.read(|record| {
                if let Record::Exec { pid, .. } = record {
                    executed.push(pid);
                }
            });
            !executed.is_empty()
        }));
        assert!(executed.iter().all(|pid| *pid == child.id()));
        drop(input);
        child.wait().unwrap();
    }

    #[test]
    fn the_number_of_events_is_limited_and_given_back() {
        let Some(rings) = rings(1) else { return };
        let mut child = busy();
        let refused = ProcessEvents::open(child.id(), &rings, SAMPLING);
        if rings.processors().count() > 1 {
            assert_eq!(refused.as_ref().err(), Some(&EventError::Exhausted));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        drop(refused);
        assert!(rings.budget().take(1), "all are given back");
    }
}
