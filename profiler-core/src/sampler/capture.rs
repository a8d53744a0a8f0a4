//! Reads the registers and the stack of other threads, for the sampler's thread.
//!
//! The sampler arms a slot and signals the thread with the slot's ticket. The handler claims the
//! slot, copies its registers and the upper part of its stack into it, and returns; it never waits.
//! A handler touches a slot only between its own claim and its own release, even if the sampler has
//! given up.
//!
//! ```text
//!             arm              claim              release
//! free, full ─────▶ armed (g) ──────▶ filling (g) ───────▶ full (g)
//!                      │ give up
//!                      ▼
//!                     free
//! ```
//!
//! A full slot is armed again after its answer has been read or dropped. So several threads can
//! answer before the sampler has read the first answer.
//!
//! A ticket carries the slot's generation `g`. A handler whose signal comes late finds another
//! generation, or a slot that is not armed, and does nothing. A slot that is being filled is not
//! armed again.
//!
//! The sampler decides which bytes may be copied: those from the stack pointer to the upper end of
//! the thread's own stack. Nothing is copied if the stack pointer is outside that stack or in an
//! alternate stack, or if the bounds were found for another thread. The bounds do not prove that
//! every page is readable: a coroutine's stack may lie in the same mapping, with a guard page in
//! between that the list of mappings does not show. So the handler asks the system about every page
//! before it reads it, and stops at the first unreadable one.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::PlacedFrame;
use super::event_count::{EventCount, Patience};
use super::unwind::Copied;
use crate::entry::stack::Frame;
use crate::ids::{DefinitionId, ThreadId};
use crate::label::{LabelStack, MAX_LABELS};
use crate::pool::tag::pool_tag;
use crate::record::session_state;
use crate::sync::fixed::{AtomicU64, Ordering};
use crate::sys::native::machine::{Registers, is_in_alternate_stack, thread_pointer};
use crate::sys::native::{memory, signal};
use crate::time::Timestamp;

/// The maximum number of threads that are asked at the same time.
pub(super) const SLOTS: usize = 4;
/// The maximum number of bytes of a stack that are copied. A longer stack is marked as cut.
pub(super) const STACK_BYTES: usize = 64 * 1024;
const STACK_WORDS: usize = STACK_BYTES / 8;

const FREE: u64 = 0;
const ARMED: u64 = 1;
const FILLING: u64 = 2;
const FULL: u64 = 3;
const PHASE: u64 = 3;

const MAGIC: u64 = 0x9f0f;
const GENERATION_BITS: u32 = 44;

/// The bounds of a thread's stack; 0 if not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) lowest: u64,
    pub(super) end: u64,
    /// The thread's control block: distinguishes it from a later thread with the same number.
    pub(super) thread_pointer: u64,
}

/// The data that a handler writes to a slot.
#[derive(Clone, Copy, Debug, Default)]
struct Filled {
    at: u64,
    registers: Registers,
    thread_pointer: u64,
    /// Whether the thread ran on its own stack, as far as known.
    is_at_home: bool,
    words: usize,
    is_cut: bool,
    labels: usize,
}

#[repr(C, align(64))]
struct Slot {
    /// Generation, and phase in the lowest two bits.
    state: AtomicU64,
    bounds: UnsafeCell<Bounds>,
    /// The open labels of the thread that is asked.
    labels_of: UnsafeCell<Option<&'static LabelStack>>,
    filled: UnsafeCell<Filled>,
    stack: UnsafeCell<[u64; STACK_WORDS]>,
    labels: UnsafeCell<[PlacedFrame; MAX_LABELS]>,
}

// SAFETY: the one sampler writes `bounds` and `labels_of` before it arms the slot. Only the handler
// that claimed the slot writes the other fields, and the sampler reads them only after that handler
// has released it.
unsafe impl Sync for Slot {}

impl Slot {
    const fn new() -> Self {
        Self {
            state: AtomicU64::new(FREE),
            bounds: UnsafeCell::new(Bounds {
                lowest: 0,
                end: 0,
                thread_pointer: 0,
            }),
            labels_of: UnsafeCell::new(None),
            filled: UnsafeCell::new(Filled {
                at: 0,
                registers: Registers {
                    pc: 0,
                    sp: 0,
                    fp: 0,
                    lr: 0,
                },
                thread_pointer: 0,
                is_at_home: false,
                words: 0,
                is_cut: false,
                labels: 0,
            }),
            stack: UnsafeCell::new([0; STACK_WORDS]),
            labels: UnsafeCell::new([(Frame::Code(DefinitionId::NONE, 0), 0); MAX_LABELS]),
        }
    }

    fn step(&self, from: u64, to: u64) -> bool {
        self.state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

/// All zeros, so memory is used only on first access. Never freed, since a signal may come late.
static ALL: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];
/// Rung each time a slot is filled. Made before the first signal is sent.
static BELL: OnceLock<EventCount> = OnceLock::new();

/// The contents of the word that is sent with the signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    slot: usize,
    generation: u64,
}

impl Ticket {
    const fn word(self) -> u64 {
        (MAGIC << (64 - 16)) | (self.generation << 4) | self.slot as u64
    }

    fn of(word: u64) -> Option<Self> {
        let generation = (word >> 4) & ((1 << GENERATION_BITS) - 1);
        let slot = usize::try_from(word & 0xf).ok()?;
        (word >> (64 - 16) == MAGIC).then_some(Self { slot, generation })
    }

    const fn state(self, phase: u64) -> u64 {
        (self.generation << 2) | phase
    }
}

/// A thread's answer: its registers, stack and labels at one instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub(super) at: Timestamp,
    pub(super) registers: Registers,
    pub(super) thread_pointer: u64,
    /// Whether it did not run on an alternate stack.
    pub(super) is_at_home: bool,
    pub(super) stack: Copied<'a>,
    /// Its open labels, each with an address in the frame that opened it.
    pub(super) labels: &'a [PlacedFrame],
}

/// The sampler's side of the slots. At most one exists at a time.
#[derive(Debug)]
pub(super) struct Captures {
    /// For each slot, whether its ticket has not been waited for yet.
    waited_for: [bool; SLOTS],
    patience: Patience,
}

impl Captures {
    /// `None` if the program handles the signal itself.
    pub(super) fn new() -> Option<Self> {
        BELL.get_or_init(EventCount::new);
        signal::install(answer).ok().filter(|is_ours| *is_ours)?;
        for slot in &ALL {
            // Touch the pages now, so that no handler causes a page fault.
            let stack = slot.stack.get().cast::<u64>();
            if slot.state.load(Ordering::Acquire) & PHASE != FILLING {
                for word in (0..STACK_WORDS).step_by(512) {
                    // SAFETY: inside the array.
                    let place = unsafe { stack.add(word) };
                    // SAFETY: no slot is armed, so no handler writes to it.
                    unsafe { place.write_volatile(0) };
                }
            }
        }
        Some(Self {
            waited_for: [false; SLOTS],
            patience: Patience::new(),
        })
    }

    /// Asks a thread for its registers and stack. `None` if no slot is free.
    ///
    /// # Errors
    /// The system's error: `ESRCH` if the thread has ended.
    pub(super) fn ask(
        &mut self,
        thread: ThreadId,
        bounds: Bounds,
        labels: Option<&'static LabelStack>,
    ) -> Option<std::io::Result<Ticket>> {
        let ticket = self.arm(bounds, labels)?;
        let sent = signal::send(thread, ticket.word());
        if sent.is_err() {
            self.give_up(ticket);
            self.set_waited_for(ticket.slot, false);
        }
        Some(sent.map(|()| ticket))
    }

    fn arm(&mut self, bounds: Bounds, labels: Option<&'static LabelStack>) -> Option<Ticket> {
        let is_free = |number: usize| self.waited_for.get(number) == Some(&false);
        let mut free = ALL
            .iter()
            .enumerate()
            .filter(|(number, _)| is_free(*number));
        let ticket = free.find_map(|(number, slot)| {
            let state = slot.state.load(Ordering::Acquire);
            if state & PHASE == ARMED || state & PHASE == FILLING {
                return None;
            }
            // SAFETY: the slot is neither armed nor being filled, so no handler reads it.
            unsafe { *slot.bounds.get() = bounds };
            // SAFETY: as above.
            unsafe { *slot.labels_of.get() = labels };
            let generation = ((state >> 2) + 1) & ((1 << GENERATION_BITS) - 1);
            let ticket = Ticket {
                slot: number,
                generation,
            };
            slot.step(state, ticket.state(ARMED)).then_some(ticket)
        })?;
        self.set_waited_for(ticket.slot, true);
        Some(ticket)
    }

    fn set_waited_for(&mut self, slot: usize, is_waited_for: bool) {
        if let Some(place) = self.waited_for.get_mut(slot) {
            *place = is_waited_for;
        }
    }

    /// Waits for the answer to a ticket; `None` after the deadline. Called once for every ticket.
    pub(super) fn wait(&mut self, ticket: Ticket, until: Instant) -> Option<Seen<'_>> {
        // The result borrows `self`, so no slot is armed while it is read.
        self.set_waited_for(ticket.slot, false);
        let bell = BELL.get_or_init(EventCount::new);
        if self.patience.wait(bell, until, || is_full(ticket)) {
            return self.read(ticket);
        }
        // A handler that has claimed the slot will finish without waiting, so wait for it.
        if self.give_up(ticket) {
            None
        } else {
            self.wait_to_the_end(ticket)
        }
    }

    fn wait_to_the_end(&mut self, ticket: Ticket) -> Option<Seen<'_>> {
        for _ in 0..100 {
            if is_full(ticket) {
                return self.read(ticket);
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        None // its thread lost the processor; the slot is unusable until the handler ends
    }

    /// Makes a ticket void. False if a handler has already claimed the slot.
    fn give_up(&mut self, ticket: Ticket) -> bool {
        ALL.get(ticket.slot)
            .is_some_and(|slot| slot.step(ticket.state(ARMED), ticket.state(FREE)))
    }

    fn read(&mut self, ticket: Ticket) -> Option<Seen<'_>> {
        let slot = ALL.get(ticket.slot)?;
        // SAFETY: the slot is full, and only `arm` changes that, which needs `&mut self`.
        let filled = unsafe { *slot.filled.get() };
        // SAFETY: as above; the borrow lasts as long as that of `self`.
        let stack = unsafe { &*slot.stack.get() };
        // SAFETY: as above.
        let labels = unsafe { &*slot.labels.get() };
        let start = filled.registers.sp & !7;
        Some(Seen {
            labels: labels.get(..filled.labels)?,
            at: Timestamp::from_raw(filled.at),
            registers: filled.registers,
            thread_pointer: filled.thread_pointer,
            is_at_home: filled.is_at_home,
            stack: Copied {
                start,
                words: stack.get(..filled.words)?,
                is_cut: filled.is_cut,
            },
        })
    }
}

/// Voids all tickets, also after a panic: late handlers find nothing to fill. The next sampler can
/// use all slots that no handler is filling.
impl Drop for Captures {
    fn drop(&mut self) {
        for slot in &ALL {
            let state = slot.state.load(Ordering::Acquire);
            if state & PHASE == ARMED {
                slot.step(state, state & !PHASE | FREE);
            }
        }
    }
}

fn is_full(ticket: Ticket) -> bool {
    ALL.get(ticket.slot)
        .is_some_and(|slot| slot.state.load(Ordering::Acquire) == ticket.state(FULL))
}

/// The handler's part. False if the word is not one of ours.
///
/// # Safety
/// `context` comes from the kernel, and its handler is still running.
unsafe fn answer(word: u64, context: *const libc::ucontext_t) -> bool {
    let Some(ticket) = Ticket::of(word) else {
        return false;
    };
    let Some(slot) = ALL.get(ticket.slot) else {
        return false;
    };
    // In a forked child no sampler waits for the answer.
    if session_state::is_foreign() || !slot.step(ticket.state(ARMED), ticket.state(FILLING)) {
        return true;
    }
    // SAFETY: the caller's promise, and this handler has just claimed the slot.
    unsafe { fill(slot, context) };
    slot.state.store(ticket.state(FULL), Ordering::Release);
    if let Some(bell) = BELL.get() {
        bell.ring();
    }
    true
}

/// Copies registers and stack into a slot.
///
/// # Safety
/// The caller has claimed the slot; `context` as for [`answer`].
#[inline(always)]
unsafe fn fill(slot: &Slot, context: *const libc::ucontext_t) {
    let at = Timestamp::now().raw();
    // SAFETY: the caller's promise.
    let registers = unsafe { Registers::interrupted(context) };
    let thread_pointer = thread_pointer();
    // SAFETY: written before the slot was armed, and not again before it is full.
    let bounds = unsafe { *slot.bounds.get() };
    let start = registers.sp & !7;
    // SAFETY: the caller's promise.
    let is_at_home = !unsafe { is_in_alternate_stack(context, start) };
    let is_inside =
        bounds.lowest <= start && start < bounds.end && bounds.thread_pointer == thread_pointer;
    let all = if is_inside && is_at_home {
        (bounds.end - start) / 8
    } else {
        0
    };
    let words = (all as usize).min(STACK_WORDS);
    let words = memory::readable_bytes(start, words as u64 * 8) as usize / 8;
    // SAFETY: `words` fits the slot's array, which this handler has claimed, and all words were
    // found readable just now. This thread's own functions use the range from the interrupted stack
    // pointer to the end of its stack or to a guard page.
    unsafe {
        std::ptr::copy_nonoverlapping(start as *const u64, slot.stack.get().cast::<u64>(), words)
    };
    // SAFETY: written before the slot was armed, and not again before it is full.
    let labels_of = unsafe { *slot.labels_of.get() };
    // SAFETY: this handler has claimed the slot.
    let room = unsafe { &mut *slot.labels.get() };
    // Copied on the thread itself, so the labels match the registers copied above.
    let labels = labels_of
        .and_then(|labels| labels.copy(pool_tag(), room))
        .unwrap_or(0);
    let is_cut = all as usize > words;
    let filled = Filled {
        at,
        registers,
        thread_pointer,
        is_at_home,
        words,
        is_cut,
        labels,
    };
    // SAFETY: this handler has claimed the slot.
    unsafe { *slot.filled.get() = filled };
}

#[cfg(test)]
mod tests {
    use std::sync::{MutexGuard, PoisonError};

    use super::super::schedule::now;
    use super::*;

    /// All samplers of the process share one set of slots, so these tests run one at a time.
    fn alone() -> MutexGuard<'static, ()> {
        crate::session::ALONE_IN_TESTS
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn a_sampler_that_panics_leaves_nothing_armed_behind() {
        let _alone = alone();
        let panics = || {
            let mut captures = Captures::new().expect("the signal is ours");
            let ticket = captures.arm(Bounds::default(), None).expect("a slot");
            assert_eq!(
                ALL[ticket.slot].state.load(Ordering::Relaxed),
                ticket.state(ARMED)
            );
            std::panic::resume_unwind(Box::new(ticket));
        };
        let ticket = std::panic::catch_unwind(panics)
            .unwrap_err()
            .downcast::<Ticket>()
            .expect("its panic");
        assert_eq!(
            ALL[ticket.slot].state.load(Ordering::Relaxed),
            ticket.state(FREE)
        );
    }

    #[test]
    fn an_unread_answer_is_not_overwritten() {
        let _alone = alone();
        session_state::set_up();
        let mut captures = Captures::new().unwrap();
        let own = crate::sys::current_thread_id();
        let mut ask = || captures.ask(own, Bounds::default(), None);
        // A signal to the calling thread is handled before the sending call returns.
        let tickets = [(); SLOTS].map(|()| ask().unwrap().unwrap());
        assert!(ask().is_none(), "all slots hold unread answers");
        let until = now(); // wait for no thread
        for ticket in tickets.into_iter().rev() {
            assert!(
                captures.wait(ticket, until).is_some(),
                "{ticket:?} was lost"
            );
        }
        assert!(
            captures.ask(own, Bounds::default(), None).is_some(),
            "they are free again"
        );
    }

    #[test]
    fn a_delayed_handler_blocks_only_its_own_slot() {
        let _alone = alone();
        let mut captures = Captures::new().unwrap();
        let held_up = Ticket {
            slot: 1,
            generation: 7,
        };
        ALL[1]
            .state
            .store(held_up.state(FILLING), Ordering::Relaxed);
        let armed: Vec<_> = std::iter::from_fn(|| captures.arm(Bounds::default(), None)).collect();
        assert_eq!(
            armed.iter().map(|ticket| ticket.slot).collect::<Vec<_>>(),
            [0, 2, 3]
        );
        assert!(
            captures.wait(armed[0], now()).is_none(),
            "no thread answers"
        );
        let again = captures.arm(Bounds::default(), None);
        assert_eq!(
            again.map(|ticket| ticket.slot),
            Some(0),
            "a slot that was waited for is free"
        );
        ALL[1].state.store(held_up.state(FREE), Ordering::Relaxed);
    }
}
