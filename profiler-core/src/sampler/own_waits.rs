//! For whom the threads of this process wait, as far as the session has said.
//!
//! Owned by the sampler's thread. A look at a waiting thread finds the label of its wait here. If
//! the object of the wait is not known, or was named too long ago, the wait is among the next
//! questions (`asked_waits`), and the thread is looked at again.
//!
//! Invariants: at most one question is without an answer, and a question contains at most
//! [`MAX_ASKED_WAITS`] waits. A session that does not answer is asked rarely. At most [`MAX_KNOWN`]
//! objects are known.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::asked_waits::{self, AskedWait, MAX_ASKED_WAITS, NamedWait};
use super::schedule::now;
use super::wait_labels::WaitLabels;
use crate::entry::stack::Frame;
use crate::ids::ThreadId;
use crate::manager::ChunkManager;
use crate::pool::definitions::Definition;
use crate::sys::native::memory::OwnMemory;
use crate::sys::native::tasks::{self, Wait};
use profiler_sys::FileIdentity;

/// How long the name of an object is taken as true.
const NAME_LASTS: Duration = Duration::from_secs(1);
/// The same for a wait whose holder may change although the call is the same: for any child, for a
/// set of descriptors, for a lock on a file.
const PASSING_NAME_LASTS: Duration = Duration::from_millis(100);
/// How long a wait is not asked for again which the session could not look up.
const UNCERTAIN_LASTS: Duration = Duration::from_millis(100);
/// The shortest time between an answer and the next question.
const PAUSE: Duration = Duration::from_millis(10);
/// The longest time to wait for an answer.
const ANSWER: Duration = Duration::from_secs(1);
/// How long nothing is asked after there was no answer.
const SILENCE: Duration = Duration::from_secs(10);
/// The maximum number of objects that are known.
const MAX_KNOWN: usize = 1024;
/// The highest number of a descriptor. A higher argument is an address.
const MAX_DESCRIPTOR: u64 = 1 << 20;
/// The offset of the owner's number from the lock word of a mutex of glibc.
const OWNER_AT: u64 = 8;

/// The number of the next question. An answer to an earlier session has no number of this one.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// What a thread waits for, as far as this process can tell without looking at others. Equal keys
/// have the same holder for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum WaitKey {
    /// A call on a descriptor: the number, and what it refers to at present.
    Descriptor {
        call: i64,
        descriptor: u64,
        file: FileIdentity,
    },
    /// Any other call, of one thread.
    Call {
        thread: ThreadId,
        call: i64,
        first: u64,
        second: u64,
        /// The owner of the lock, if the call waits for one.
        owner: u32,
    },
}

/// A wait for which the session was asked.
#[derive(Clone, Copy, Debug)]
struct KnownWait {
    label: Option<Frame>,
    /// Whether the session has looked it up; otherwise the label is an older one.
    is_certain: bool,
    /// When it is asked for again.
    until: Instant,
}

/// What is known of a thread's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnWait {
    /// The label that shows for whom the thread waits.
    pub(super) label: Option<Frame>,
    /// Whether this will not change while the thread waits. Otherwise, the session is asked.
    pub(super) is_known: bool,
}

impl OwnWait {
    /// Nothing is known, and nothing will be.
    pub(super) const NOBODY: Self = Self {
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
    /// The waits of the question that is not answered yet, and when it was asked.
    asked: Option<(Vec<(WaitKey, u32)>, Instant)>,
    /// Nothing is asked before.
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

    /// For whom a thread waits, as far as it is known.
    pub(super) fn of(&mut self, thread: ThreadId, wait: Wait, memory: &OwnMemory) -> OwnWait {
        let is_timed = [libc::SYS_nanosleep, libc::SYS_clock_nanosleep].contains(&wait.call);
        if is_timed || !wait.is_in_a_call() || !asked_waits::has_listener() {
            return OwnWait::NOBODY;
        }
        let key = key_of(thread, wait, memory);
        let known = self.known.get(&key).copied();
        let moment = now();
        if let Some(known) = known.filter(|known| moment < known.until) {
            return OwnWait {
                label: known.label,
                is_known: known.is_certain,
            };
        }
        let is_silent = self.pause_until.is_some_and(|until| moment + PAUSE < until);
        if !is_silent {
            self.want(key, thread, wait);
        }
        // The holder of a file's lock is often another one each time.
        let old = known.filter(|_| !is_lock(wait.call));
        OwnWait {
            label: old.and_then(|known| known.label),
            is_known: is_silent,
        }
    }

    /// Adds a wait to the next question, unless it is asked for already or there is no room.
    fn want(&mut self, key: WaitKey, thread: ThreadId, wait: Wait) {
        let is_wanted = self.next.iter().any(|(wanted, _)| *wanted == key);
        let mut asked = self.asked.iter().flat_map(|(asked, _)| asked);
        let is_asked = asked.any(|(asked, _)| *asked == key);
        let thread = u32::try_from(thread.get());
        let (Ok(thread), false) = (thread, is_wanted || is_asked) else {
            return;
        };
        if self.next.len() < MAX_ASKED_WAITS {
            let asked = AskedWait {
                number: NUMBER.fetch_add(1, Ordering::Relaxed),
                thread,
                call: wait.call,
                arguments: wait.arguments,
            };
            self.next.push((key, asked));
        }
    }

    /// Takes the answers, and asks what is wanted.
    pub(super) fn exchange(&mut self) {
        let moment = now();
        for answer in asked_waits::take_answers() {
            self.learn(&answer, moment);
        }
        let is_pausing = self.pause_until.is_some_and(|until| moment < until);
        if self.next.is_empty() || is_pausing {
            return;
        }
        match &self.asked {
            Some((_, since)) if moment.saturating_duration_since(*since) < ANSWER => {}
            Some(_) => {
                self.asked = None;
                self.next.clear();
                self.pause_until = Some(moment + SILENCE);
            }
            None => self.ask(moment),
        }
    }

    fn ask(&mut self, moment: Instant) {
        let next = std::mem::take(&mut self.next);
        let keys = next.iter().map(|(key, wait)| (*key, wait.number));
        self.asked = Some((keys.collect(), moment));
        asked_waits::ask(next.into_iter().map(|(_, wait)| wait).collect());
    }

    /// Notes the names of waits.
    fn learn(&mut self, answer: &[NamedWait], moment: Instant) {
        let Some((asked, _)) = self.asked.take() else {
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
                    until: moment + name_lasts(&key),
                },
                None => KnownWait {
                    label: self.known.get(&key).and_then(|known| known.label),
                    is_certain: false,
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

fn key_of(thread: ThreadId, wait: Wait, memory: &OwnMemory) -> WaitKey {
    let [first, second, _] = wait.arguments;
    let call = wait.call;
    let is_descriptor = has_descriptor(call) && first <= MAX_DESCRIPTOR;
    let number = i32::try_from(first).ok().filter(|_| is_descriptor);
    // The call may be one of another kind, and the number that of a file which has nothing to do
    // with it. Then the key only distinguishes more than necessary.
    if let Some(file) = number.and_then(|number| tasks::file_of(thread, number)) {
        return WaitKey::Descriptor {
            call,
            descriptor: first,
            file,
        };
    }
    WaitKey::Call {
        thread,
        call,
        first,
        second,
        owner: owner(call, first, memory),
    }
}

/// The number of the thread that owns a mutex of the C library, if the call waits for a word.
fn owner(call: i64, address: u64, memory: &OwnMemory) -> u32 {
    let mut room = [0; 4];
    let is_word = call == libc::SYS_futex && address > MAX_DESCRIPTOR;
    let read = is_word && memory.read(address.wrapping_add(OWNER_AT), &mut room) == room.len();
    if read { u32::from_ne_bytes(room) } else { 0 }
}

/// Whether the first argument of a call is not certain to be something else than a descriptor.
fn has_descriptor(call: i64) -> bool {
    let others = [libc::SYS_futex, libc::SYS_wait4, libc::SYS_waitid];
    !others.contains(&call)
}

/// How long the name of a wait is taken as true.
fn name_lasts(key: &WaitKey) -> Duration {
    let (WaitKey::Descriptor { call, .. } | WaitKey::Call { call, .. }) = key;
    if is_passing(*call) {
        PASSING_NAME_LASTS
    } else {
        NAME_LASTS
    }
}

/// Whether a call waits for a lock on a file, or is one of those that can.
fn is_lock(call: i64) -> bool {
    [libc::SYS_flock, libc::SYS_fcntl].contains(&call)
}

/// Whether the holder of a wait may change although call and arguments are the same.
fn is_passing(call: i64) -> bool {
    let passing = [libc::SYS_wait4, libc::SYS_waitid, libc::SYS_ppoll];
    let sets = [libc::SYS_pselect6, libc::SYS_epoll_pwait];
    is_lock(call) || passing.contains(&call) || sets.contains(&call) || is_older_set(call)
}

#[cfg(target_arch = "x86_64")]
fn is_older_set(call: i64) -> bool {
    [libc::SYS_poll, libc::SYS_select, libc::SYS_epoll_wait].contains(&call)
}

/// Only x86-64 has these calls.
#[cfg(not(target_arch = "x86_64"))]
const fn is_older_set(_: i64) -> bool {
    false
}

#[cfg(test)]
mod tests;
