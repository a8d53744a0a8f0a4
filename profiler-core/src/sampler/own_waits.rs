//! The holders of the waits of this process, as the session has named them.
//!
//! Owned by the sampler's thread. A look at a waiting thread finds the label of its wait here. If
//! the object of the wait is not known, or was named too long ago, the wait is among the next
//! questions (`asked_waits`), and the thread is looked at again.
//!
//! Invariants: a question is sent only after the previous one is answered, so the channel holds at
//! most one question. A question contains at most [`MAX_ASKED_WAITS`] waits. At most [`MAX_KNOWN`]
//! objects are known.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::asked_waits::{self, AskedWait, MAX_ASKED_WAITS, NamedWait};
use super::schedule::now;
use super::wait_key::{WaitKey, is_file_lock, key_of, may_have_holder, memory_of, name_lasts};
use super::wait_labels::WaitLabels;
use crate::entry::stack::Frame;
use crate::ids::ThreadId;
use crate::manager::ChunkManager;
use crate::pool::definitions::Definition;
use crate::sys::native::memory::OwnMemory;
use crate::sys::native::tasks::Wait;

/// The time until the session is asked again about a wait that it could not look up.
const UNCERTAIN_LASTS: Duration = Duration::from_millis(100);
/// The shortest time between an answer and the next question.
const PAUSE: Duration = Duration::from_millis(20);
/// The maximum number of objects that are known.
const MAX_KNOWN: usize = 1024;

/// The number of the next asked wait. The numbers continue in the next session, so an answer from
/// an earlier session matches no wait.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A wait for which the session was asked.
#[derive(Clone, Copy, Debug)]
struct KnownWait {
    label: Option<Frame>,
    /// Whether the session has looked it up; otherwise the label is an older one.
    is_certain: bool,
    named: Instant,
    /// When it is asked for again.
    until: Instant,
}

/// What is known of a thread's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnWait {
    /// The label that shows for whom the thread waits.
    pub(super) label: Option<Frame>,
    /// Whether the session has looked up the wait. Otherwise, a later look asks again.
    pub(super) is_known: bool,
}

impl OwnWait {
    /// No label, and none is expected.
    pub(super) const WITHOUT_HOLDER: Self = Self {
        label: None,
        is_known: true,
    };
}

/// The waits of this process.
#[derive(Debug)]
pub(super) struct OwnWaits {
    manager: Arc<ChunkManager>,
    labels: WaitLabels,
    known: HashMap<WaitKey, KnownWait>,
    /// The waits of the next question.
    next: Vec<(WaitKey, AskedWait)>,
    /// The waits of the question that is not answered yet.
    asked: Option<Vec<(WaitKey, u32)>>,
    /// The time before which no question is sent.
    pause_until: Option<Instant>,
}

impl OwnWaits {
    pub(super) fn new(manager: Arc<ChunkManager>) -> Self {
        Self {
            manager,
            labels: WaitLabels::default(),
            known: HashMap::new(),
            next: Vec::new(),
            asked: None,
            pause_until: None,
        }
    }

    /// The label of a thread's wait, as the session has named it. The thread has not run since
    /// `since`: what was looked up later holds as long as it waits.
    pub(super) fn of(
        &mut self,
        thread: ThreadId,
        wait: Wait,
        (memory, since): (&OwnMemory, Option<Instant>),
    ) -> OwnWait {
        if !may_have_holder(wait) || !asked_waits::has_listener() {
            return OwnWait::WITHOUT_HOLDER;
        }
        let key = key_of(thread, wait, memory);
        let known = self.known.get(&key).copied();
        let moment = now();
        let holds = |known: &KnownWait| {
            let is_of_this_wait = since.is_some_and(|since| known.named >= since);
            moment < known.until || known.is_certain && is_of_this_wait
        };
        if let Some(known) = known.filter(holds) {
            return OwnWait {
                label: known.label,
                is_known: known.is_certain,
            };
        }
        self.want(key, thread, (wait, memory));
        // The holder of a file's lock is often another one each time.
        let old = known.filter(|_| !is_file_lock(wait.call));
        OwnWait {
            label: old.and_then(|known| known.label),
            is_known: false,
        }
    }

    /// Asks for a wait although its object is known: the session notes long waits of each thread,
    /// to find deadlocks. False if this is not possible at present.
    pub(super) fn ask_anew(&mut self, thread: ThreadId, wait: Wait, memory: &OwnMemory) -> bool {
        if !may_have_holder(wait) {
            return true;
        }
        asked_waits::has_listener()
            && self.want(key_of(thread, wait, memory), thread, (wait, memory))
    }

    /// Adds a wait of a thread to the next question, unless it is there already. False if there is
    /// no room.
    fn want(&mut self, key: WaitKey, thread: ThreadId, (wait, memory): (Wait, &OwnMemory)) -> bool {
        let Ok(number) = u32::try_from(thread.get()) else {
            return true;
        };
        let is_this =
            |(wanted, asked): &(WaitKey, AskedWait)| *wanted == key && asked.thread == number;
        if self.next.iter().any(is_this) {
            return true;
        }
        if self.next.len() >= MAX_ASKED_WAITS {
            return false;
        }
        let found = memory_of(wait, memory);
        let asked = AskedWait {
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            thread: number,
            call: wait.call,
            arguments: wait.arguments,
            address: found.address,
            memory: found.bytes,
        };
        self.next.push((key, asked));
        true
    }

    /// Takes the answers, and asks what is wanted.
    pub(super) fn exchange(&mut self) {
        let is_answered = !asked_waits::is_asked();
        let moment = now();
        for answer in asked_waits::take_answers() {
            self.learn(&answer, moment);
        }
        if is_answered {
            // A question that is still here gets no answer: its listener was replaced.
            self.asked = None;
        }
        let is_pausing = self.pause_until.is_some_and(|until| moment < until);
        if is_answered && !is_pausing && !self.next.is_empty() {
            let next = std::mem::take(&mut self.next);
            let keys = next.iter().map(|(key, wait)| (*key, wait.number));
            self.asked = Some(keys.collect());
            asked_waits::ask(next.into_iter().map(|(_, wait)| wait).collect());
        }
    }

    /// Notes the names of waits. An answer to another question has no effect.
    fn learn(&mut self, answer: &[NamedWait], moment: Instant) {
        let is_of = |asked: &mut Vec<(WaitKey, u32)>| {
            let numbers = || asked.iter().map(|(_, number)| *number);
            answer
                .iter()
                .all(|found| numbers().any(|number| number == found.number))
        };
        let Some(asked) = self.asked.take_if(is_of) else {
            return;
        };
        self.pause_until = Some(moment + PAUSE);
        self.make_room(moment);
        for (key, number) in asked {
            let found = answer.iter().find(|found| found.number == number);
            let known = match found {
                Some(found) => KnownWait {
                    label: self.label(found.name.as_deref()),
                    is_certain: true,
                    named: moment,
                    until: moment + name_lasts(&key),
                },
                None => KnownWait {
                    label: self.known.get(&key).and_then(|known| known.label),
                    is_certain: false,
                    named: moment,
                    until: moment + UNCERTAIN_LASTS,
                },
            };
            self.known.insert(key, known);
        }
    }

    fn label(&mut self, name: Option<&str>) -> Option<Frame> {
        let pool = self.manager.pool();
        let define = |definition: &Definition| pool.define(definition).ok();
        self.labels.label(name?, &define)
    }

    fn make_room(&mut self, moment: Instant) {
        if self.known.len() + MAX_ASKED_WAITS <= MAX_KNOWN {
            return;
        }
        self.known.retain(|_, known| moment < known.until);
        if self.known.len() + MAX_ASKED_WAITS > MAX_KNOWN {
            self.known.clear();
        }
    }
}

#[cfg(test)]
mod tests;
