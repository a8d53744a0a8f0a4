//! Which thread has which labels: a list that only grows, and its places are used again.
//!
//! A thread takes a place when it opens its first label in a session and gives it back when it ends; the sampler finds
//! it by the thread's number. Lock-free, so nobody ever waits here, also not for a thread that is held up.
//!
//! Invariants: a place is never freed, so whoever finds one may read it at any time; it is its owner's as long as the
//! owner's number stands in it. There are as many places as threads had labels at once, of 1 KiB each. The hot
//! thread-local is a bare pointer without destructor: it may be read at any point of a thread's life, and is
//! cleared before the place is given back.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::AtomicPtr;

use super::NONE;
use super::stack::{LabelStack, OpenLabels};
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
/// How often a thread took a place.
static TAKEN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static OWN: Cell<Option<&'static LabelStack>> = const { Cell::new(None) };
    static MAKING: Cell<bool> = const { Cell::new(false) };
    /// The place that `OWN` refers to.
    static PLACE: Cell<Option<&'static ThreadLabels>> = const { Cell::new(None) };
}

/// Gives the place back when the thread ends.
static AT_END: sys::ThreadEnd = sys::ThreadEnd::new(give_back);

extern "C" fn give_back(_: *mut std::ffi::c_void) {
    MAKING.set(true); // stays set: code that still runs on the thread takes no other place
    OWN.set(None);
    if let Some(place) = PLACE.take() {
        place.stack.leave(0);
        place.owner.store(0, Ordering::Release);
    }
}

/// Opens a label of the calling thread; says how many were open before.
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
    if MAKING.replace(true) {
        return NONE; // making a place allocates, and the allocator has labels
    }
    let own = take_place();
    MAKING.set(false);
    own.push(tag, label, address)
}

/// Closes the calling thread's labels but the `outside` outermost ones.
#[inline(always)]
pub(super) fn leave(outside: u32) {
    if let Some(stack) = OWN.get() {
        stack.leave(outside);
    }
}

/// The labels that the calling thread has open, outermost first.
pub(crate) fn own() -> OpenLabels<'static> {
    OWN.get().map_or_else(OpenLabels::none, |stack| stack.open(pool_tag()))
}

/// A place for the calling thread.
fn take_place() -> &'static LabelStack {
    let tid = sys::current_thread_id().get();
    let place = all().find(|place| place.claim(tid)).unwrap_or_else(|| add(tid));
    AT_END.arm();
    PLACE.set(Some(place));
    TAKEN.fetch_add(1, Ordering::Release);
    OWN.set(Some(&place.stack));
    &place.stack
}

impl ThreadLabels {
    fn claim(&self, tid: u64) -> bool {
        self.owner.compare_exchange(0, tid, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// Adds a place to the list.
fn add(tid: u64) -> &'static ThreadLabels {
    let mut first = FIRST.load(Ordering::Acquire);
    let stack = LabelStack::new();
    let place = Box::leak(Box::new(ThreadLabels { owner: AtomicU64::new(tid), stack, next: None }));
    loop {
        place.next = deref(first);
        let this = ptr::from_mut(place);
        match FIRST.compare_exchange_weak(first, this, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: from `Box::leak`, and from now on nobody has a unique reference to it.
            Ok(_) => return unsafe { &*this },
            Err(other) => first = other,
        }
    }
}

fn all() -> impl Iterator<Item = &'static ThreadLabels> {
    std::iter::successors(deref(FIRST.load(Ordering::Acquire)), |place| place.next)
}

fn deref(place: *mut ThreadLabels) -> Option<&'static ThreadLabels> {
    // SAFETY: null, or put into the list by `add`: initialised before, never freed, never changed but for its atomics.
    unsafe { place.as_ref() }
}

/// Finds the labels of threads for a sampler, which asks for the same ones again and again.
#[derive(Debug, Default)]
pub(crate) struct LabelFinder {
    known: HashMap<ThreadId, &'static ThreadLabels>,
    /// [`TAKEN`] at the last look at the whole list.
    seen: u64,
}

impl LabelFinder {
    /// The open labels of a thread; `None` if it never had any. Allocates only when new threads have some.
    ///
    /// The thread may end, and another take the place over, at any time. Whoever has stopped the thread, or runs on it in
    /// a signal handler, reads its own.
    pub(crate) fn of(&mut self, thread: ThreadId) -> Option<&'static LabelStack> {
        let is_its = |place: &&&'static ThreadLabels| place.owner.load(Ordering::Acquire) == thread.get();
        if let Some(place) = self.known.get(&thread).filter(is_its) {
            return Some(&place.stack);
        }
        let taken = TAKEN.load(Ordering::Acquire);
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
    use super::*;
    use crate::entry::stack::Frame;

    fn on_a_thread<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::Builder::new().spawn(body).unwrap().join().unwrap()
    }

    #[test]
    fn the_labels_of_a_thread_are_found_while_it_lives() {
        let (tid, taken) = on_a_thread(|| {
            let outside = push(1, DefinitionId::new(5), 50);
            let tid = sys::current_thread_id();
            let found = on_a_thread(move || {
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
        assert!(LabelFinder::default().of(tid).is_none(), "a thread that has ended has labels");
    }

    #[test]
    fn threads_one_after_the_other_use_the_same_places() {
        for _ in 0..100 {
            on_a_thread(|| {
                push(1, DefinitionId::new(1), 1);
            });
        }
        assert!(all().count() < 50, "{} places", all().count());
    }

    #[test]
    fn a_new_owner_begins_without_labels() {
        for _ in 0..20 {
            on_a_thread(|| assert_eq!(push(1, DefinitionId::new(1), 1), 0, "left open by another thread"));
        }
    }
}
