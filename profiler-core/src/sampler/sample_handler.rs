//! The signal handler of the samples, and the slots that it fills.
//!
//! A timer, a perf event or the sampler's thread sends the signal to a thread that runs
//! (`trigger`). The handler claims a slot, copies registers, stack and labels into it, and returns.
//! It waits for nothing and takes no lock. The sampler's thread empties the slots some milliseconds
//! later. A handler wakes the sampler's thread when half of the slots are full, and at the first
//! sample after a while without samples (`cadence`).
//!
//! The weight of a sample is the processor time that the thread used since its last sample. The
//! handler computes it from the thread's clock. So the weights of all samples add up to the time
//! used, even if signals are late. If no slot is free, the sample is dropped, and its processor
//! time is in the thread's next sample.
//!
//! The handler calls the system to read the thread's clock, to check each page of the stack and,
//! rarely, to wake the sampler's thread. It takes no sample if little is left of the stack on which it
//! runs. The room for the frame that the system puts there is ensured before: see
//! [`crate::sys::native::alternate_stack`].

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use super::armed;
use super::armed_places::{self, ArmedThread};
use super::slots::SlotStates;
use super::stack_copy::{Bounds, Seen, StackCopy};
use crate::params::SampleSource;
use crate::record::session_state;
use crate::sync::fixed::{AtomicU32, Ordering};
use crate::sys::native::machine::left_of_alternate_stack;
use crate::sys::native::{signal, tasks, trap};
use crate::time::Timestamp;
use profiler_sys::Renewable;

/// The number of slots that exist. A slot takes memory only after its first use.
const MAX_SLOTS: usize = 256;
/// The number of slots per processor, up to [`MAX_SLOTS`]: enough for the samples of 128 ms at an
/// interval of 1 ms.
const SLOTS_PER_CPU: usize = 128;

/// The bytes of a stack that the rest of the handler uses.
const HANDLER_BYTES: u64 = 512;

/// A slot's contents besides its copy.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    /// The word of the thread, see `armed_places`.
    word: u64,
    /// Processor time since the thread's last sample.
    cpu_ns: u64,
    /// How long the handler ran, in units of timestamps.
    held: u64,
}

struct Slot {
    head: UnsafeCell<Head>,
    copy: StackCopy,
}

// SAFETY: the handler that claimed the slot writes to it. The sampler reads the slot after that
// handler has published it, and before the sampler releases it.
unsafe impl Sync for Slot {}

/// All zeros, so a slot takes memory only after its first use. Never freed, because a signal may
/// come late.
static SLOTS: [Slot; MAX_SLOTS] = [const {
    Slot {
        head: UnsafeCell::new(Head {
            word: 0,
            cpu_ns: 0,
            held: 0,
        }),
        copy: StackCopy::new(),
    }
}; MAX_SLOTS];
/// Made before the first trigger.
static STATES: Renewable<OnceLock<SlotStates>> = Renewable::new(OnceLock::new());
/// Changes when the sampler's thread should wake.
static BELL: AtomicU32 = AtomicU32::new(0);

/// A sample, as the handler published it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Published<'a> {
    pub(super) seen: Seen<'a>,
    /// The word of the thread, see `armed_places`.
    pub(super) word: u64,
    pub(super) cpu_ns: u64,
    /// How long the handler ran, in units of timestamps. Contains the time in which its thread had
    /// no processor.
    pub(super) held: u64,
}

/// The sampler's side of the slots. At most one exists at a time.
#[derive(Debug)]
pub(super) struct SlotReader {
    states: &'static SlotStates,
    /// The full slots with their times, in order of time; reused.
    order: Vec<(u64, usize)>,
}

impl SlotReader {
    /// Prepares the slots, and drops samples of an earlier session.
    pub(super) fn new() -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let slots = (cpus * SLOTS_PER_CPU).min(MAX_SLOTS);
        let states = STATES.get_or_init(|| SlotStates::new(slots));
        states.full().for_each(|slot| states.release(slot));
        states.take_lost();
        Self {
            states,
            order: Vec::with_capacity(slots),
        }
    }

    /// Passes all published samples to `take`, in order of their times; returns their number.
    pub(super) fn drain(&mut self, mut take: impl FnMut(Published<'_>)) -> usize {
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        for number in self.states.full() {
            // SAFETY: the slot is full, and only this thread releases it, below.
            let seen = SLOTS
                .get(number)
                .and_then(|slot| unsafe { slot.copy.seen() });
            order.push((seen.map_or(0, |seen| seen.at.raw()), number));
        }
        order.sort_unstable();
        for (_, number) in &order {
            let Some(slot) = SLOTS.get(*number) else {
                continue;
            };
            // SAFETY: as above.
            if let Some(seen) = unsafe { slot.copy.seen() } {
                // SAFETY: as above.
                let Head { word, cpu_ns, held } = unsafe { *slot.head.get() };
                take(Published {
                    seen,
                    word,
                    cpu_ns,
                    held,
                });
            }
            self.states.release(*number);
        }
        self.order = order;
        self.order.len()
    }

    /// Chooses when the sampler is woken: by the next sample, or when half of the slots are full.
    pub(super) fn wake_at_next(&self, next: bool) {
        self.states.wake_at_next(next);
    }

    /// Whether samples wait to be drained.
    pub(super) fn has_waiting(&self) -> bool {
        self.states.has_waiting()
    }

    /// The number of slots.
    pub(super) fn number(&self) -> usize {
        self.states.number()
    }

    /// The number of samples that found no free slot since the last call.
    pub(super) fn take_lost(&self) -> u64 {
        u64::from(self.states.take_lost())
    }
}

/// In a forked child that begins anew: forgets the slots that threads of the parent were filling.
pub(super) fn forget_parent() {
    STATES.renew(OnceLock::new());
}

/// The present value of the bell, for [`sleep`].
pub(super) fn bell() -> u32 {
    BELL.load(Ordering::Acquire)
}

/// Sleeps until the bell differs from `seen`, or the time has passed.
pub(super) fn sleep(seen: u32, at_most: Duration) {
    profiler_sys::wait_on_word(&BELL, seen, at_most);
}

/// Wakes the sampler's thread. For signal handlers: the caller preserves `errno`.
pub(super) fn ring() {
    BELL.fetch_add(1, Ordering::Release);
    profiler_sys::wake_word(&BELL);
}

/// Installs the handler for timers and for signals of the sampler's thread, unless it is installed.
/// False if the program has replaced it.
///
/// # Errors
/// Errors of the system.
pub(super) fn install() -> io::Result<bool> {
    signal::install(answer)
}

/// Installs the handler for perf events, unless it is installed. False if the program has one of
/// its own.
///
/// # Errors
/// Errors of the system.
pub(super) fn install_for_events() -> io::Result<bool> {
    trap::install(answer)
}

/// Whether signals of this source reach the handler.
pub(super) fn is_installed_for(source: SampleSource) -> bool {
    // A thread without an event may have a timer.
    signal::is_ours() && (source != SampleSource::Sigtrap || trap::is_ours())
}

/// Takes a sample, if the word names an armed thread and samples are taken. False if the signal is
/// not the sampler's.
///
/// # Safety
/// `context` comes from the kernel, and the handler that received it is still running.
unsafe fn answer(word: u64, context: *const libc::ucontext_t) -> bool {
    let begin = Timestamp::now().raw();
    let Some(thread) = armed_places::of_word(word) else {
        return false;
    };
    let is_recording = session_state::word() & (session_state::ACTIVE | session_state::PAUSED)
        == session_state::ACTIVE;
    let (Some(thread), Some(states)) = (thread, STATES.get()) else {
        return true;
    };
    if session_state::is_foreign() || !is_recording || !armed::is_open() {
        return true;
    }
    if !thread.enter(word) {
        return true;
    }
    // SAFETY: the caller's promise; between `enter` and `leave` the place is this thread's.
    if unsafe { has_room(context, thread.bounds()) } {
        // SAFETY: as above.
        unsafe { take_sample(thread, states, (word, begin), context) };
    }
    thread.leave();
    true
}

/// Whether enough is left of the stack on which the handler runs, as far as known. If not, the
/// processor time is in the thread's next sample.
///
/// # Safety
/// As for [`answer`].
#[inline(always)]
unsafe fn has_room(context: *const libc::ucontext_t, bounds: Bounds) -> bool {
    let place = 0_u8;
    let here = std::ptr::from_ref(&place).addr() as u64;
    // SAFETY: the caller's promise.
    let left = match unsafe { left_of_alternate_stack(context, here) } {
        None if bounds.lowest <= here && here < bounds.end => Some(here - bounds.lowest),
        left => left,
    };
    left.is_none_or(|left| left >= HANDLER_BYTES)
}

/// Fills and publishes a slot, if one is free. The handler of `word` began at `begin`.
///
/// # Safety
/// As for [`answer`]; the handler has entered the place of `word`.
#[inline(always)]
unsafe fn take_sample(
    thread: &ArmedThread,
    states: &SlotStates,
    (word, begin): (u64, u64),
    context: *const libc::ucontext_t,
) {
    let Some(claim) = states.claim() else {
        return ring();
    };
    let Some(slot) = SLOTS.get(claim.slot()) else {
        return;
    };
    thread.begin_sample();
    let cpu_ns = thread.take_cpu(tasks::own_cpu_ns(), armed::first_weight_ns());
    // SAFETY: the caller's promise, and this handler has claimed the slot.
    unsafe { slot.copy.fill(context, thread.bounds(), thread.labels()) };
    let head = Head {
        word,
        cpu_ns,
        held: Timestamp::now().raw().saturating_sub(begin),
    };
    // SAFETY: this handler has claimed the slot.
    unsafe { *slot.head.get() = head };
    if states.publish(claim) {
        ring();
    }
}
