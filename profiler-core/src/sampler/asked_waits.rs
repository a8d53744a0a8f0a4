//! Waits of this process for whose holders it asks its session, and the answers.
//!
//! A process does not look for the processes that hold the other end of a pipe: the session knows
//! the names of its processes, and reads the descriptors of all of them only once. The sampler's
//! thread asks, and goes on; later looks use the answer.
//!
//! ```text
//! own_waits ──ask──▶ listener ──▶ session (message of the child, or a call in the parent)
//!     ▲                                │
//!     └──take_answers── answers ◀──name_waits
//! ```
//!
//! Invariants: the sampler's thread never waits for an answer. It asks nothing without a listener,
//! or while a question is not answered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use profiler_sys::Renewable;
use serde::{Deserialize, Serialize};

/// The maximum number of waits in one question.
pub const MAX_ASKED_WAITS: usize = 16;

/// The maximum number of bytes of memory with one wait.
pub const MAX_ASKED_MEMORY: usize = 128;

/// A waiting thread for whose holder this process asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedWait {
    /// The number of the asked wait. The answer repeats it.
    pub number: u32,
    /// The thread's number in the system.
    pub thread: u32,
    /// The system call in which it waits.
    pub call: i64,
    /// The first three arguments of the call.
    pub arguments: [u64; 3],
    /// The address of `memory`.
    pub address: u64,
    /// What the arguments point to: a list or a set of descriptors, or the owner of a lock. At most
    /// [`MAX_ASKED_MEMORY`] bytes; empty for most calls.
    pub memory: Vec<u8>,
}

impl AskedWait {
    /// Reads memory of the process. False if `memory` does not contain all of it.
    pub fn read(&self, address: u64, room: &mut [u8]) -> bool {
        let start = address.checked_sub(self.address);
        let start = start.and_then(|start| usize::try_from(start).ok());
        let end = start.and_then(|start| start.checked_add(room.len()));
        let bytes = start
            .zip(end)
            .and_then(|(start, end)| self.memory.get(start..end));
        bytes.map(|bytes| room.copy_from_slice(bytes)).is_some()
    }
}

/// The answer about one asked wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedWait {
    /// See [`AskedWait::number`].
    pub number: u32,
    /// The name of the label. `None` if no process or thread is known that can end the wait.
    pub name: Option<String>,
}

/// Passes questions to the session. Called on the sampler's thread.
pub(crate) type WaitListener = Box<dyn Fn(Vec<AskedWait>) + Send>;

struct Exchange {
    listener: Mutex<Option<WaitListener>>,
    has_listener: AtomicBool,
    /// Whether a question is not answered.
    is_asked: AtomicBool,
    answers: Mutex<Vec<Vec<NamedWait>>>,
}

static EXCHANGE: Renewable<Exchange> = Renewable::new(Exchange::new());

impl Exchange {
    const fn new() -> Self {
        Self {
            listener: Mutex::new(None),
            has_listener: AtomicBool::new(false),
            is_asked: AtomicBool::new(false),
            answers: Mutex::new(Vec::new()),
        }
    }
}

/// Sets the listener for questions; `None` removes it.
pub fn set_wait_listener(listener: Option<WaitListener>) {
    EXCHANGE
        .has_listener
        .store(listener.is_some(), Ordering::Relaxed);
    let before = std::mem::replace(&mut *lock(&EXCHANGE.listener), listener);
    EXCHANGE.is_asked.store(false, Ordering::Release);
    drop(before); // outside of the lock
}

/// Passes on the answer of the session: the names of all waits that it could look up. Ends the open
/// question. The sampler ignores the names of an answer to an older question.
pub fn name_waits(names: Vec<NamedWait>) {
    let has_names = names.iter().any(|named| named.name.is_some());
    let mut answers = lock(&EXCHANGE.answers);
    // The sampler may be paused.
    if answers.len() < MAX_ASKED_WAITS {
        answers.push(names);
    }
    drop(answers);
    EXCHANGE.is_asked.store(false, Ordering::Release);
    if has_names {
        super::wake(); // the waits may be short
    }
}

/// Whether there is a listener.
#[cfg_attr(profiler_portable, allow(dead_code))] // no samples on these systems
pub(super) fn has_listener() -> bool {
    EXCHANGE.has_listener.load(Ordering::Relaxed)
}

/// Whether a question is open. If it returns false, [`take_answers`] returns the answer.
#[cfg_attr(profiler_portable, allow(dead_code))] // as above
pub(super) fn is_asked() -> bool {
    EXCHANGE.is_asked.load(Ordering::Acquire)
}

/// Asks for whom these threads wait.
#[cfg_attr(profiler_portable, allow(dead_code))] // as above
pub(super) fn ask(waits: Vec<AskedWait>) {
    if let Some(listener) = &*lock(&EXCHANGE.listener) {
        EXCHANGE.is_asked.store(true, Ordering::Release);
        listener(waits);
    }
}

/// The answers that have arrived since the last call.
#[cfg_attr(profiler_portable, allow(dead_code))] // as above
pub(super) fn take_answers() -> Vec<Vec<NamedWait>> {
    std::mem::take(&mut *lock(&EXCHANGE.answers))
}

/// In a forked child that begins anew: forgets the listener and the answers of the parent.
pub(crate) fn forget_parent() {
    EXCHANGE.renew(Exchange::new());
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
