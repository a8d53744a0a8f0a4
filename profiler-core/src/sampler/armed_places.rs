//! The places of the armed threads. A place contains what the signal handler knows about its
//! thread. The handler finds the place by the word that the signal carries.
//!
//! The handler uses no thread-locals, because a thread of the host may not have allocated them yet.
//! [`super::armed`] takes and releases places. The handler, the sampler's thread and the threads
//! that arm themselves use them.
//!
//! ```text
//! word   bits 48…63 MAGIC · 16…47 generation · 0…15 index
//! ```
//!
//! A place is taken by a compare-and-swap of its generation, from even (free) to odd. The sampler's
//! thread releases the place after its thread has ended and the thread's samples have been read. So
//! an odd generation belongs to one thread. For other threads that release places, see
//! [`Armed::release`]. A handler counts itself as busy before it compares the generation, and does
//! nothing if the generation differs. A place is not taken while a handler is busy in it.
//!
//! ```text
//!             take                        release (sampler)
//! free (2n) ────────▶ taken (2n + 1) ─────────────────────▶ free (2n + 2)
//! ```
//!
//! The sampler writes the bounds of a stack while handlers may read them. The end is 0 during a
//! change. A handler that reads two different ends treats the bounds as unknown.
//!
//! Invariant: the memory of places is never freed.

#![allow(unsafe_code)]

use std::io;
use std::ptr;
use std::sync::atomic::AtomicPtr;
use std::time::Duration;

use super::stack_copy::Bounds;
use super::trigger::Trigger;
use crate::ids::ThreadId;
use crate::label::LabelStack;
use crate::label::registry;
use crate::params::SampleSource;
use crate::sync::fixed::{AtomicU64, Ordering};

/// Places per block.
const BLOCK: usize = 256;
/// Maximum number of blocks.
const BLOCKS: usize = 64;
pub(super) const MAGIC: u64 = 0x9f10;
/// The processor time of a thread that has armed itself and has no sample yet.
pub(super) const NO_SAMPLE: u64 = u64::MAX;
/// One armed thread.
#[derive(Debug)]
pub(super) struct ArmedThread {
    /// Odd while the place is taken.
    generation: AtomicU64,
    tid: AtomicU64,
    /// See [`Trigger::to_word`]; 0 without a trigger.
    trigger: AtomicU64,
    /// 1 if the thread armed itself.
    by_itself: AtomicU64,
    /// The thread's processor time at its last sample. Swapped by the handler and by the sampler.
    cpu_ns: AtomicU64,
    /// The number of handlers that use the place.
    busy: AtomicU64,
    /// The number of samples that its handler has begun.
    begun: AtomicU64,
    /// The number of its samples that the sampler has read.
    drained: AtomicU64,
    lowest: AtomicU64,
    end: AtomicU64,
    thread_pointer: AtomicU64,
    labels: AtomicPtr<LabelStack>,
}

impl ArmedThread {
    const fn new() -> Self {
        Self {
            generation: AtomicU64::new(0),
            tid: AtomicU64::new(0),
            trigger: AtomicU64::new(0),
            by_itself: AtomicU64::new(0),
            cpu_ns: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            drained: AtomicU64::new(0),
            lowest: AtomicU64::new(0),
            end: AtomicU64::new(0),
            thread_pointer: AtomicU64::new(0),
            labels: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Takes the place if it is free; returns its generation.
    fn take(&self) -> Option<u64> {
        let generation = self.generation.load(Ordering::Relaxed);
        if generation & 1 == 1 {
            return None;
        }
        self.generation
            .compare_exchange(
                generation,
                generation + 1,
                Ordering::SeqCst,
                Ordering::Relaxed,
            )
            .ok()?;
        if self.busy.load(Ordering::SeqCst) != 0 {
            // A handler of the last owner still uses the place.
            self.generation.store(generation + 2, Ordering::SeqCst);
            return None;
        }
        for word in [&self.trigger, &self.end, &self.begun, &self.drained] {
            word.store(0, Ordering::Relaxed);
        }
        self.labels.store(ptr::null_mut(), Ordering::Relaxed);
        Some(generation + 1)
    }

    /// Begins to use the place in a handler. False if the place no longer belongs to this word. If
    /// true, the handler calls [`Self::leave`] afterwards, and no other thread gets the place
    /// before that.
    pub(super) fn enter(&self, word: u64) -> bool {
        self.busy.fetch_add(1, Ordering::SeqCst);
        let generation = self.generation.load(Ordering::SeqCst);
        let is_its = word_of(generation, index_of(word)) == word && generation & 1 == 1;
        if !is_its {
            self.leave();
        }
        is_its
    }

    /// Ends the use of the place in a handler.
    pub(super) fn leave(&self) {
        self.busy.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns the processor time since the thread's last sample, and begins to count anew. Returns
    /// `first_ns` if the thread armed itself and has no sample. For signal handlers and the
    /// sampler's thread.
    pub(super) fn take_cpu(&self, now_ns: u64, first_ns: u64) -> u64 {
        match self.cpu_ns.swap(now_ns, Ordering::Relaxed) {
            NO_SAMPLE => first_ns,
            before => now_ns.saturating_sub(before),
        }
    }

    /// The processor time since the thread's last sample; `since_found_ns` if the thread armed
    /// itself and has no sample.
    pub(super) fn untaken_cpu(&self, now_ns: u64, since_found_ns: u64) -> u64 {
        match self.cpu_ns.load(Ordering::Relaxed) {
            NO_SAMPLE => since_found_ns,
            before => now_ns.saturating_sub(before),
        }
    }

    /// Counts a sample that the handler begins.
    pub(super) fn begin_sample(&self) {
        self.begun.fetch_add(1, Ordering::Release);
    }

    /// Counts a sample that the sampler has read.
    pub(super) fn end_sample(&self) {
        self.drained.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of samples that the handler has begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Acquire)
    }

    /// Whether the handler has begun a sample that the sampler has not read.
    pub(super) fn has_unread_samples(&self) -> bool {
        self.begun.load(Ordering::Acquire) != self.drained.load(Ordering::Relaxed)
    }

    /// Frees the place in a forked child that begins anew. The trigger is not deleted. A handler
    /// that used the place ran in the parent.
    fn forget_parent(&self) {
        for word in [&self.trigger, &self.tid, &self.busy] {
            word.store(0, Ordering::SeqCst);
        }
        let generation = self.generation.load(Ordering::SeqCst);
        self.generation
            .store(generation.wrapping_add(1) & !1, Ordering::SeqCst);
    }

    /// The thread's labels. For the thread's signal handler.
    pub(super) fn labels(&self) -> Option<&'static LabelStack> {
        if self.by_itself.load(Ordering::Relaxed) != 0 {
            // The thread has used the profiler's thread-locals before it armed itself.
            return registry::own_stack();
        }
        // SAFETY: null, or a label stack, which is never freed.
        unsafe { self.labels.load(Ordering::Acquire).as_ref() }
    }

    /// Sets the labels of a thread that did not arm itself. Called by the sampler's thread, and by
    /// the thread itself.
    pub(super) fn set_labels(&self, labels: &'static LabelStack) {
        let labels = ptr::from_ref(labels).cast_mut();
        self.labels.store(labels, Ordering::Release);
    }

    /// The bounds of the thread's stack; the end is 0 if they are not known. For the thread's
    /// signal handler.
    pub(super) fn bounds(&self) -> Bounds {
        let end = self.end.load(Ordering::Acquire);
        let lowest = self.lowest.load(Ordering::Acquire);
        let thread_pointer = self.thread_pointer.load(Ordering::Acquire);
        if end != self.end.load(Ordering::Relaxed) {
            return Bounds::default();
        }
        Bounds {
            lowest: if end == 0 { 0 } else { lowest },
            end,
            thread_pointer,
        }
    }

    /// Sets the bounds of the thread's stack. Called by the sampler's thread.
    pub(super) fn set_bounds(&self, bounds: Bounds) {
        self.end.store(0, Ordering::SeqCst);
        self.lowest.store(bounds.lowest, Ordering::SeqCst);
        self.thread_pointer
            .store(bounds.thread_pointer, Ordering::SeqCst);
        self.end.store(bounds.end, Ordering::SeqCst);
    }
}

/// A taken place, with the word of its owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Armed {
    pub(super) thread: &'static ArmedThread,
    pub(super) word: u64,
}

impl Armed {
    /// The number of the thread.
    pub(super) fn tid(self) -> ThreadId {
        ThreadId::new(self.thread.tid.load(Ordering::SeqCst))
    }

    /// Whether the thread armed itself.
    pub(super) fn is_by_itself(self) -> bool {
        self.thread.by_itself.load(Ordering::Acquire) != 0
    }

    /// Sets the thread's processor time at its last sample, and whether it arms itself. Called
    /// before [`Self::start`].
    pub(super) fn prepare(self, cpu_ns: u64, by_itself: bool) {
        self.thread
            .by_itself
            .store(u64::from(by_itself), Ordering::Relaxed);
        self.thread.cpu_ns.store(cpu_ns, Ordering::Relaxed);
    }

    /// Gives the place the thread's number. Returns whether no other place has it that `counts`.
    ///
    /// A thread may arm itself while the sampler's thread arms it. Both call this function before
    /// they make a trigger, so at least one of them sees the other.
    pub(super) fn claim(self, thread: ThreadId, counts: impl Fn(Self) -> bool) -> bool {
        self.thread.tid.store(thread.get(), Ordering::SeqCst);
        let is_other = |other: &Self| other.word != self.word && other.tid() == thread;
        !taken().filter(is_other).any(counts)
    }

    /// Makes a trigger and starts it. The place has the thread's number before: see
    /// [`Self::claim`].
    pub(super) fn start(
        self,
        source: SampleSource,
        thread: ThreadId,
        first: Duration,
        interval: Duration,
    ) -> io::Result<()> {
        let trigger = Trigger::create(source, thread, self.word, interval)?;
        self.thread
            .trigger
            .store(trigger.to_word(), Ordering::SeqCst);
        trigger.start(first, interval)
    }

    /// Gives the trigger another interval, if there is one and its thread lives.
    pub(super) fn set_interval(self, first: Duration, interval: Duration) {
        let trigger = Trigger::from_word(self.thread.trigger.load(Ordering::SeqCst));
        if let Some(trigger) = trigger {
            trigger.set_interval(first, interval);
        }
    }

    /// Whether the trigger belongs to the calling thread, and not to an ended thread that had the
    /// same number. False without a trigger.
    pub(super) fn is_of_living_thread(self) -> bool {
        let trigger = Trigger::from_word(self.thread.trigger.load(Ordering::SeqCst));
        // The clock of an ended thread stands still, and that of a new thread begins at 0.
        let last = self.thread.cpu_ns.load(Ordering::Relaxed);
        trigger.is_some_and(|trigger| trigger.is_of_living_thread(last))
    }

    /// Whether the place has no trigger: the sampler's thread is about to make one, or it was
    /// deleted.
    pub(super) fn has_no_trigger(self) -> bool {
        Trigger::from_word(self.thread.trigger.load(Ordering::SeqCst)).is_none()
    }

    /// Whether the program has closed the trigger's descriptor.
    pub(super) fn has_lost_trigger(self) -> bool {
        let trigger = Trigger::from_word(self.thread.trigger.load(Ordering::SeqCst));
        trigger.is_some_and(Trigger::is_lost)
    }

    /// Takes the trigger out of the place, if it is there.
    pub(super) fn take_trigger(self) -> Option<Trigger> {
        Trigger::from_word(self.thread.trigger.swap(0, Ordering::SeqCst))
    }

    /// Deletes the trigger and frees the place, unless another thread has freed it. Called by the
    /// sampler's thread after the last sample of the thread has been read. Also called by a thread
    /// that arms itself, for its own place if it fails, and for the place of an ended thread with
    /// the same number.
    pub(super) fn release(self) {
        let index = index_of(self.word);
        let trigger = self.thread.trigger.load(Ordering::SeqCst);
        let tid = self.thread.tid.load(Ordering::SeqCst);
        let generation = self.thread.generation.load(Ordering::SeqCst);
        if word_of(generation, index) != self.word || generation & 1 == 0 {
            return;
        }
        // Both values belong to this owner. If another thread frees the place now and a new owner
        // takes it, the new owner's values differ.
        let replace = |word: &AtomicU64, old: u64| {
            word.compare_exchange(old, 0, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
        };
        if replace(&self.thread.trigger, trigger)
            && let Some(trigger) = Trigger::from_word(trigger)
        {
            trigger.delete_if_allowed();
        }
        replace(&self.thread.tid, tid);
        let freed = self.thread.generation.compare_exchange(
            generation,
            generation + 1,
            Ordering::SeqCst,
            Ordering::Relaxed,
        );
        if freed.is_ok() {
            FIRST_FREE.fetch_min(index as u64, Ordering::Relaxed);
        }
    }
}

/// For each block of [`BLOCK`] places, its first place; null until the block is needed.
static ALL: [AtomicPtr<ArmedThread>; BLOCKS] = [const { AtomicPtr::new(ptr::null_mut()) }; BLOCKS];
/// The index at which the search for a free place begins. Usually no place below it is free.
static FIRST_FREE: AtomicU64 = AtomicU64::new(0);
/// The armed thread that a signal's word names: `None` if the word is not of this kind, and
/// `Some(None)` if the place no longer belongs to the word.
pub(super) fn of_word(word: u64) -> Option<Option<&'static ArmedThread>> {
    if word >> 48 != MAGIC {
        return None;
    }
    let index = index_of(word);
    let thread = block(index / BLOCK).and_then(|block| block.get(index % BLOCK));
    Some(thread.filter(|thread| {
        let generation = thread.generation.load(Ordering::Acquire);
        word_of(generation, index) == word && generation & 1 == 1
    }))
}

fn index_of(word: u64) -> usize {
    (word & 0xffff) as usize
}

fn word_of(generation: u64, index: usize) -> u64 {
    (MAGIC << 48) | ((generation & 0xffff_ffff) << 16) | index as u64
}

/// Takes a free place; `None` if all are taken.
pub(super) fn take() -> Option<Armed> {
    let first = usize::try_from(FIRST_FREE.load(Ordering::Relaxed)).unwrap_or(0);
    let armed = (first..BLOCKS * BLOCK).chain(0..first).find_map(|index| {
        let place = block_or_new(index / BLOCK)?.get(index % BLOCK)?;
        let word = word_of(place.take()?, index);
        Some(Armed {
            thread: place,
            word,
        })
    })?;
    FIRST_FREE.store(index_of(armed.word) as u64 + 1, Ordering::Relaxed);
    Some(armed)
}

/// In a forked child that begins anew, whose only thread is the calling one: frees all places.
pub(super) fn forget_parent() {
    let all = (0..BLOCKS).map_while(block).flatten();
    all.for_each(ArmedThread::forget_parent);
    FIRST_FREE.store(0, Ordering::Relaxed);
}

/// Passes the labels of the calling thread to its signal handler. Called when the thread opens its
/// first label, so that its next sample shows the label.
///
/// A thread that the sampler arms meanwhile has its number in its place before the sampler looks
/// for its labels ([`Armed::claim`]), and the labels can be found before this call. So one of the
/// two finds the other.
pub(super) fn set_own_labels(thread: ThreadId, labels: &'static LabelStack) {
    taken()
        .filter(|armed| armed.tid() == thread)
        .for_each(|armed| armed.thread.set_labels(labels));
}

/// All taken places.
pub(super) fn taken() -> impl Iterator<Item = Armed> {
    (0..BLOCKS)
        .map_while(|number| Some((number, block(number)?)))
        .flat_map(|(number, block)| {
            block.iter().enumerate().filter_map(move |(index, thread)| {
                let generation = thread.generation.load(Ordering::SeqCst);
                let word = word_of(generation, number * BLOCK + index);
                (generation & 1 == 1).then_some(Armed { thread, word })
            })
        })
}

fn block(number: usize) -> Option<&'static [ArmedThread]> {
    let first = ALL.get(number)?.load(Ordering::Acquire);
    if first.is_null() {
        return None;
    }
    // SAFETY: `block_or_new` made `BLOCK` places, and `first` is the first of them. They are never
    // freed, and are changed only through atomics.
    Some(unsafe { std::slice::from_raw_parts(first, BLOCK) })
}

/// The block with this number; makes it if it is needed for the first time.
fn block_or_new(number: usize) -> Option<&'static [ArmedThread]> {
    if let Some(block) = block(number) {
        return Some(block);
    }
    let place = ALL.get(number)?;
    // The places are made one by one, because a whole block does not fit on a small stack.
    let new: Box<[ArmedThread]> = (0..BLOCK).map(|_| ArmedThread::new()).collect();
    let first = Box::into_raw(new);
    let added = place.compare_exchange(
        ptr::null_mut(),
        first.cast(),
        Ordering::AcqRel,
        Ordering::Acquire,
    );
    if added.is_err() {
        // SAFETY: from `Box::into_raw` above, and no other thread has seen it.
        drop(unsafe { Box::from_raw(first) });
    }
    block(number)
}

/// The taken place that a word names.
pub(super) fn armed_of(word: u64) -> Option<Armed> {
    of_word(word).flatten().map(|thread| Armed { thread, word })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_in_a_forked_child_and_its_trigger_is_forgotten() {
        let place = ArmedThread::new();
        let word = word_of(place.take().unwrap(), 0);
        place.trigger.store(7, Ordering::SeqCst);
        assert!(place.enter(word), "a handler that never leaves");
        for _ in 0..2 {
            place.forget_parent(); // the second time, the place is free already
            assert!(!place.enter(word));
        }
        assert_eq!(place.trigger.load(Ordering::SeqCst), 0);
        let new = word_of(place.take().unwrap(), 0);
        assert_ne!(new, word);
        assert!(place.enter(new));
    }

    #[test]
    fn a_place_that_a_handler_uses_gets_no_other_owner() {
        let place = ArmedThread::new();
        let word = word_of(place.take().unwrap(), 0);
        assert!(place.enter(word));
        place.generation.fetch_add(1, Ordering::SeqCst); // released
        assert!(place.take().is_none());
        place.leave();
        assert!(place.take().is_some());
    }

    #[test]
    fn processor_time_is_taken_once() {
        let thread = ArmedThread::new();
        thread.cpu_ns.store(NO_SAMPLE, Ordering::Relaxed);
        assert_eq!(thread.untaken_cpu(500, 20), 20);
        assert_eq!(
            thread.take_cpu(1000, 4),
            4,
            "the first sample weighs one tick"
        );
        assert_eq!(thread.untaken_cpu(1500, 20), 500);
        assert_eq!(thread.take_cpu(3000, 4), 2000);
    }

    #[test]
    fn bounds_that_change_are_unknown() {
        let thread = ArmedThread::new();
        let bounds = Bounds {
            lowest: 1,
            end: 9,
            thread_pointer: 7,
        };
        assert_eq!(thread.bounds().end, 0);
        thread.set_bounds(bounds);
        assert_eq!(thread.bounds(), bounds);
    }
}
