//! Finds the labels of each thread, in a list that only grows and whose places are reused.
//!
//! A thread takes a place when it opens its first label in a session, enters its first group or
//! gets its first trace, and releases it when it ends. The sampler finds the place by the thread's
//! number. Lock-free: no thread waits here, not even for a suspended thread.
//!
//! Invariants: a place is never freed, so it may be read at any time. It belongs to its owner while
//! the owner's number is stored in it. The number of places is the largest number of threads that
//! had labels at once; each takes 1.2 KiB. The hot thread-local is a bare pointer without
//! destructor: it may be read at any point of a thread's life, and is cleared before the place is
//! released.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::HashMap;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::AtomicPtr;

use super::NONE;
use super::stack::{LabelStack, OpenLabels};
use crate::carried::{self, Carried};
use crate::ids::{DefinitionId, ThreadId};
use crate::pool::tag::pool_tag;
use crate::sync::fixed::{AtomicU64, Ordering};
use crate::sys;

/// The labels of one thread.
#[derive(Debug)]
struct ThreadLabels {
    /// The system's number of the thread; 0 = free.
    owner: AtomicU64,
    stack: LabelStack,
    next: Option<&'static ThreadLabels>,
}

static FIRST: AtomicPtr<ThreadLabels> = AtomicPtr::new(ptr::null_mut());
/// The number of times that a thread took a place.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// See [`set_first_label_hook`].
static FIRST_LABEL_HOOK: OnceLock<fn(ThreadId, &'static LabelStack)> = OnceLock::new();

thread_local! {
    static OWN: Cell<Option<&'static LabelStack>> = const { Cell::new(None) };
    /// The thread defines a label or makes its place; set for ever when the thread ends.
    static MAKING: Cell<bool> = const { Cell::new(false) };
    /// The place that contains the stack of `OWN`.
    static PLACE: Cell<Option<&'static ThreadLabels>> = const { Cell::new(None) };
}

/// Releases the place when the thread ends.
static AT_END: sys::ThreadEnd = sys::ThreadEnd::new(give_back);

extern "C" fn give_back(_: *mut std::ffi::c_void) {
    MAKING.set(true); // stays set: code that still runs on the thread takes no other place
    OWN.set(None);
    carried::end();
    if let Some(place) = PLACE.take() {
        place.stack.leave(0);
        place.owner.store(0, Ordering::Release);
    }
}

/// Opens a label of the calling thread; returns the number that were open before.
#[inline(always)]
pub(super) fn push(tag: u64, label: DefinitionId, address: u64) -> u32 {
    match OWN.get() {
        Some(stack) => stack.push(tag, label, address),
        None => push_first(tag, label, address),
    }
}

#[cold]
#[inline(never)]
fn push_first(tag: u64, label: DefinitionId, address: u64) -> u32 {
    unless_making(take_place).map_or(NONE, |own| own.push(tag, label, address))
}

/// What the calling thread carries. Takes a place for it, which allocates, unless it has one;
/// `None` within such a call and while the thread ends.
#[inline]
pub(crate) fn carried() -> Option<&'static Carried> {
    carried::own().or_else(|| unless_making(|| &take_place().carried))
}

/// Runs `make`, which may allocate. `None` without a call if the thread is already within such a
/// call, because the allocator may open labels, and if the thread is ending.
pub(super) fn unless_making<T>(make: impl FnOnce() -> T) -> Option<T> {
    if MAKING.replace(true) {
        return None;
    }
    let made = make();
    MAKING.set(false);
    Some(made)
}

/// Sets a function that a thread calls when it has opened no label before, with its own label
/// stack. The first function stays. It must neither wait nor open labels.
#[cfg_attr(profiler_portable, allow(dead_code))] // no sampler on these systems
pub(crate) fn set_first_label_hook(hook: fn(ThreadId, &'static LabelStack)) {
    let _ = FIRST_LABEL_HOOK.set(hook);
}

/// Closes the calling thread's labels except the `outside` outermost ones.
#[inline(always)]
pub(super) fn leave(outside: u32) {
    if let Some(stack) = OWN.get() {
        stack.leave(outside);
    }
}

/// In a forked child that begins anew, whose only thread is the calling one: releases the places of
/// the parent's threads, and gives the calling thread's place the thread's new number. Its open
/// labels belong to the parent's pool, so they are not shown.
pub(crate) fn forget_parent() {
    let own = PLACE.get().map(ptr::from_ref);
    let tid = sys::current_thread_id().get();
    for place in all() {
        if own == Some(ptr::from_ref(place)) {
            place.owner.store(tid, Ordering::Release);
        } else {
            place.stack.leave(0);
            place.stack.carried.clear();
            place.owner.store(0, Ordering::Release);
        }
    }
}

/// The open labels of the calling thread, outermost first.
pub(crate) fn own() -> OpenLabels<'static> {
    OWN.get()
        .map_or_else(OpenLabels::none, |stack| stack.open(pool_tag()))
}

/// The label stack of the calling thread, if it has one. For signal handlers on threads that have
/// recorded before.
pub(crate) fn own_stack() -> Option<&'static LabelStack> {
    OWN.get()
}

/// Takes a place for the calling thread.
fn take_place() -> &'static LabelStack {
    let tid = sys::current_thread_id().get();
    let place = all()
        .find(|place| place.claim(tid))
        .unwrap_or_else(|| add(tid));
    AT_END.arm();
    PLACE.set(Some(place));
    // Sequentially consistent, like the accesses in `LabelFinder::of` and in the hook: a sampler
    // that arms this thread now finds the place, or the hook finds that the thread is armed.
    TAKEN.fetch_add(1, Ordering::SeqCst);
    OWN.set(Some(&place.stack));
    carried::begin(&place.stack.carried);
    if let Some(tell) = FIRST_LABEL_HOOK.get() {
        tell(ThreadId::new(tid), &place.stack);
    }
    &place.stack
}

impl ThreadLabels {
    fn claim(&self, tid: u64) -> bool {
        self.owner
            .compare_exchange(0, tid, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

/// Adds a place to the list.
fn add(tid: u64) -> &'static ThreadLabels {
    let mut first = FIRST.load(Ordering::Acquire);
    let stack = LabelStack::new();
    let place = Box::leak(Box::new(ThreadLabels {
        owner: AtomicU64::new(tid),
        stack,
        next: None,
    }));
    loop {
        place.next = deref(first);
        let this = ptr::from_mut(place);
        match FIRST.compare_exchange_weak(first, this, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: from `Box::leak`, and no unique reference to it exists from now on.
            Ok(_) => return unsafe { &*this },
            Err(other) => first = other,
        }
    }
}

fn all() -> impl Iterator<Item = &'static ThreadLabels> {
    std::iter::successors(deref(FIRST.load(Ordering::Acquire)), |place| place.next)
}

fn deref(place: *mut ThreadLabels) -> Option<&'static ThreadLabels> {
    // SAFETY: null, or added by `add`: initialised before, never freed, and changed only through
    // its atomics.
    unsafe { place.as_ref() }
}

/// Calls `look` with the number of each thread that has a place, and with its labels. For signal
/// handlers: takes no lock, allocates nothing, and reads no thread-local.
#[cfg_attr(profiler_portable, allow(dead_code))] // no crash is recorded on these systems
pub(crate) fn for_each(mut look: impl FnMut(ThreadId, &'static LabelStack)) {
    for place in all() {
        let owner = place.owner.load(Ordering::Acquire);
        if owner != 0 {
            look(ThreadId::new(owner), &place.stack);
        }
    }
}

/// A number that changes whenever a thread opens its first label in a session.
pub(crate) fn changes() -> u64 {
    TAKEN.load(Ordering::Acquire)
}

/// Finds the labels of threads for a sampler, which needs the same threads repeatedly.
#[derive(Debug, Default)]
pub(crate) struct LabelFinder {
    known: HashMap<ThreadId, &'static ThreadLabels>,
    /// [`TAKEN`] at the last search of the whole list.
    seen: u64,
}

impl LabelFinder {
    /// The label stack of a thread; `None` if it never had any. Allocates only when new threads
    /// have labels.
    ///
    /// The thread may end, and another take over the place, at any time. A caller that has stopped
    /// the thread, or runs on it in a signal handler, reads that thread's own labels.
    pub(crate) fn of(&mut self, thread: ThreadId) -> Option<&'static LabelStack> {
        let is_its =
            |place: &&&'static ThreadLabels| place.owner.load(Ordering::Acquire) == thread.get();
        if let Some(place) = self.known.get(&thread).filter(is_its) {
            return Some(&place.stack);
        }
        let taken = TAKEN.load(Ordering::SeqCst);
        if taken == self.seen {
            return None;
        }
        self.seen = taken;
        self.known.clear();
        for place in all() {
            let owner = place.owner.load(Ordering::Acquire);
            if owner != 0 {
                self.known.insert(ThreadId::new(owner), place);
            }
        }
        self.known.get(&thread).map(|place| &place.stack)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use test_support::threads::on_thread;

    use super::*;
    use crate::entry::stack::Frame;

    #[test]
    fn the_labels_of_a_thread_are_found_while_it_lives() {
        let (tid, taken) = on_thread(|| {
            let outside = push(1, DefinitionId::new(5), 50);
            let tid = sys::current_thread_id();
            let found = on_thread(move || {
                let mut finder = LabelFinder::default();
                let mut out = [(Frame::Unknown(0), 0); 4];
                let count = finder.of(tid).unwrap().copy(1, &mut out).unwrap();
                out[..count].to_vec()
            });
            assert_eq!(found, [(Frame::Label(DefinitionId::new(5)), 50)]);
            leave(outside);
            (tid, TAKEN.load(Ordering::Acquire))
        });
        assert!(taken > 0);
        assert!(
            LabelFinder::default().of(tid).is_none(),
            "a thread that has ended has labels"
        );
    }

    #[test]
    fn consecutive_threads_reuse_places() {
        for _ in 0..100 {
            on_thread(|| {
                push(1, DefinitionId::new(1), 1);
            });
        }
        assert!(all().count() < 50, "{} places", all().count());
    }

    #[test]
    fn a_new_owner_begins_without_labels() {
        for _ in 0..20 {
            on_thread(|| {
                assert_eq!(
                    push(1, DefinitionId::new(1), 1),
                    0,
                    "labels left open by another thread"
                )
            });
        }
    }
}
