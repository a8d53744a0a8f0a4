//! Connects a thread to its stopwatch, and the stopwatch to the cells.
//!
//! Called by guards and loops. One word ([`session_state::groups`]) states whether anything is
//! counted: 0 while no session runs and in forked children; otherwise bit 0, the probes in bits 1
//! to 4, and the session's number from bit 8 on. A thread that enters a group for the first time in
//! a session makes its stopwatch (which allocates, once) and finds its own group. Invariants: a
//! thread's stopwatch belongs to one session; measurements that an ended session has not committed
//! are discarded; if the thread-local (while the thread ends, or while an allocator runs that the
//! stopwatch has called) or a lock is unavailable, the guard does nothing and never waits.

#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::ptr;

use super::clock::SessionTime;
use super::group::Group;
use super::registered::Registered;
use super::registry;
use super::stopwatch::{Exit, Owned, Stopwatch};
use crate::carried;
use crate::group_kind::Probes;
use crate::label::registry as label;
use crate::manager::ChunkManager;
use crate::pool::layout::header as at;
use crate::pool::tag::{belongs_to, pool_tag};
use crate::record::{local, session_state, thread_names};
use crate::sync::fixed::{AtomicU64, Ordering};
use crate::sys;
use crate::template::Template;

/// Bit of the word: groups are counted.
const ON: u64 = 1;
const EPOCH_SHIFT: u32 = 8;

/// The probes requested for this session and later ones.
static WANTED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The thread's stopwatch, once it has one. A bare pointer without destructor, so that finding
    /// it costs one instruction.
    static OWN: Cell<*const RefCell<Own>> = const { Cell::new(ptr::null()) };
    /// Set while the thread makes its stopwatch.
    static MAKING: Cell<bool> = const { Cell::new(false) };
    /// Set when the thread has given up its stopwatch; it does not make another one.
    static HAS_ENDED: Cell<bool> = const { Cell::new(false) };
}

/// Frees the thread's stopwatch when the thread ends.
static AT_END: sys::ThreadEnd = sys::ThreadEnd::new(free_own);

extern "C" fn free_own(_: *mut std::ffi::c_void) {
    HAS_ENDED.set(true);
    let own = OWN.replace(ptr::null());
    if !own.is_null() {
        // SAFETY: from `Box::into_raw` in `make_own`, for this thread alone. No call on this thread
        // uses it: the thread is about to end, and a later call finds the pointer cleared.
        drop(unsafe { Box::from_raw(own.cast_mut()) });
    }
}

/// The state of one thread.
#[derive(Debug)]
struct Own {
    watch: Stopwatch,
    epoch: u64,
    /// The group of threads of its name.
    group: Option<&'static Registered>,
    /// How often the thread had been named when `group` was found.
    named: u32,
}

/// The initial value of a stopwatch. A template, because a small stack may have no room for the
/// value.
// SAFETY: it owns nothing: everything it refers to is static.
static NEW: Template<RefCell<Own>> = unsafe { Template::new(RefCell::new(Own::new())) };

/// A thread that ends hands over the open iteration of a custom loop.
impl Drop for Own {
    fn drop(&mut self) {
        let word = session_state::groups();
        if word != 0 && self.epoch == epoch_of(word) {
            self.settle(word);
        }
    }
}

const fn epoch_of(word: u64) -> u64 {
    word >> EPOCH_SHIFT
}

fn probes_of(word: u64) -> Probes {
    Probes::from_bits(u8::try_from(word & 0xff).unwrap_or(0))
}

/// Called when a session has begun.
pub(crate) fn begin_session(manager: &ChunkManager, epoch: u64) {
    super::clock::begin_session(manager.pool().clock());
    registry::place_all(manager);
    let wanted = WANTED.load(Ordering::SeqCst);
    manager.pool().set_header(at::PROBES, wanted);
    session_state::set_groups(true, |_| (epoch << EPOCH_SHIFT) | wanted | ON);
    // Another thread may have changed the request meanwhile.
    until_settled(&WANTED, apply);
}

/// Sets the probes of this process for this session and later ones. Called by a child's control
/// thread for the parent, and by the parent for itself. Takes effect with the next iteration of
/// each thread.
pub fn set_probes(probes: Probes) {
    if session_state::is_forked_child() {
        return;
    }
    WANTED.store(u64::from(probes.bits()), Ordering::SeqCst);
    until_settled(&WANTED, apply);
}

/// Applies the requested value until it no longer changes. So the last caller applies the latest
/// value, and no caller undoes another's request.
fn until_settled(wanted: &AtomicU64, mut apply: impl FnMut(u64)) {
    loop {
        let now = wanted.load(Ordering::SeqCst);
        apply(now);
        if wanted.load(Ordering::SeqCst) == now {
            return;
        }
    }
}

fn apply(wanted: u64) {
    session_state::set_groups(false, |word| epoch_of(word) << EPOCH_SHIFT | wanted | ON);
    let _ = local::with_manager(|manager| {
        manager.pool().set_header(at::PROBES, wanted);
        Some(())
    });
}

/// The probes in effect in this process; none while no session runs.
pub fn probes() -> Probes {
    probes_of(session_state::groups())
}

/// Runs `body` with the calling thread's stopwatch for the running session.
#[inline]
fn with_own<T>(word: u64, body: impl FnOnce(&mut Own) -> T) -> Option<T> {
    let known = OWN.get();
    let own = if known.is_null() { make_own()? } else { known };
    // SAFETY: the pointer is cleared on this thread before the stopwatch is freed.
    let mut own = unsafe { &*own }.try_borrow_mut().ok()?;
    if own.epoch != epoch_of(word) {
        own.begin(word);
    }
    Some(body(&mut own))
}

/// Makes the thread's stopwatch; `None` while the thread ends, and within another such call: making
/// it allocates, and the allocator may enter groups.
#[cold]
fn make_own() -> Option<*const RefCell<Own>> {
    if HAS_ENDED.get() || MAKING.replace(true) {
        return None;
    }
    AT_END.arm();
    let own = Box::into_raw(NEW.boxed());
    OWN.set(own);
    MAKING.set(false);
    Some(own.cast_const())
}

impl Own {
    const fn new() -> Self {
        Self {
            watch: Stopwatch::new(),
            epoch: 0,
            group: None,
            named: 0,
        }
    }

    #[cold]
    fn begin(&mut self, word: u64) {
        self.watch.reset();
        self.epoch = epoch_of(word);
        self.group = None;
        let _ = label::carried(); // the thread's place, where samples find its group
    }

    /// Lets the thread's samples carry its innermost group. Returns the word that they carry.
    #[inline(always)]
    fn carry(&self) -> u64 {
        let word = self.watch.innermost().map_or(0, Registered::word);
        if let Some(carried) = carried::own() {
            carried.set_group(word);
        }
        word
    }

    /// The same after the thread has entered a group, which may have no cell yet.
    #[inline(always)]
    fn carry_entered(&self) {
        let tag = pool_tag();
        if !belongs_to(self.carry(), tag)
            && let Some(group) = self.watch.innermost()
        {
            carry_first(group, tag);
        }
    }

    #[inline]
    fn enter(
        &mut self,
        word: u64,
        groups: impl Iterator<Item = &'static Registered> + Clone,
        waits: bool,
    ) -> Owned {
        let Self {
            watch,
            group,
            named,
            ..
        } = self;
        let implied = || {
            let now = thread_names::times_named();
            if group.is_none() || *named != now {
                *group = registry::of_thread(thread_names::own_name().as_deref());
                *named = now;
            }
            [*group, registry::of_process()]
        };
        let owned = watch.enter(&SessionTime, probes_of(word), implied, groups, waits);
        self.carry_entered();
        owned
    }

    fn exit(&mut self, word: u64, owned: Owned) {
        let exit = self.watch.exit(&SessionTime, owned);
        self.carry();
        if exit == Exit::Outermost {
            self.settle(word);
        }
    }

    /// Ends the iteration: adds its results to the cells.
    #[inline(never)]
    fn settle(&mut self, word: u64) {
        let epoch = self.epoch;
        let watch = &mut self.watch;
        let mut has_manager = false;
        let settled = local::with_manager(|manager| {
            has_manager = true;
            // Since the word was read, the session may have ended and another may have begun in the
            // same pool. A session that ends from now on waits for this thread.
            let is_same = epoch_of(session_state::groups()) == epoch;
            watch.settle(&SessionTime, probes_of(word), |group, run| {
                if is_same {
                    group.commit(manager, run);
                }
            });
            Some(())
        });
        if settled.is_none() && !has_manager {
            // The session is just beginning or ending: only ticks are worth keeping.
            watch.settle(&SessionTime, Probes::NONE, |group, run| {
                group.keep(run.ticks)
            });
        }
    }
}

/// Gives a group a cell before its first iteration has ended, so that samples can carry it. If the
/// pool had no room, only the end of an iteration asks it again.
#[cold]
#[inline(never)]
fn carry_first(group: &Registered, tag: u64) {
    let Some(carried) = carried::own().filter(|_| !group.is_refused_by(tag)) else {
        return;
    };
    let placed = local::with_manager(|manager| group.place_again(manager));
    if placed.is_some() {
        carried.set_group(group.word());
    }
}

/// The calling thread works for one or several groups until this is dropped. Guards may be dropped
/// in any order: the thread leaves a group when it drops its last guard of the group.
///
/// Belongs to the thread that made it. A guard that is never dropped leaves the thread in its
/// groups. Do not hold it across an `.await`: other futures that the thread's executor polls
/// meanwhile would count as work for these groups. For futures there is
/// [`InGroups::in_group`](super::InGroups::in_group).
#[derive(Debug)]
#[must_use = "the group is left at once"]
pub struct Entered {
    owned: Owned,
    _of_thread: PhantomData<*const ()>,
}

impl Entered {
    pub(super) const NOTHING: Self = Self::new(Owned::NOTHING);

    const fn new(owned: Owned) -> Self {
        Self {
            owned,
            _of_thread: PhantomData,
        }
    }

    /// The guard as two numbers, for code in other languages. Nothing is left until
    /// [`Self::from_raw`] makes a guard of them on the same thread.
    #[doc(hidden)]
    pub fn into_raw(self) -> [u64; 2] {
        let words = self.owned.to_words();
        std::mem::forget(self);
        words
    }

    /// The guard of these numbers. Numbers that are not of a guard of this thread do not harm the
    /// process, but the times of groups may be wrong.
    #[doc(hidden)]
    pub const fn from_raw(words: [u64; 2]) -> Self {
        Self::new(Owned::from_words(words))
    }
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        if !self.owned.is_nothing() {
            leave(self.owned);
        }
    }
}

#[inline(never)]
fn leave(owned: Owned) {
    let word = session_state::groups();
    if word != 0 {
        with_own(word, |own| own.exit(word, owned));
    } else if let Some(carried) = carried::own() {
        carried.set_group(0); // the session has ended within the group
    }
}

/// Whether groups, or fine groups, are counted now, according to `word`.
#[inline(always)]
fn is_on(word: u64, is_fine: bool) -> bool {
    let wants = if is_fine {
        u64::from(Probes::FINE.bits())
    } else {
        ON
    };
    cfg!(feature = "enabled") && word & wants != 0
}

/// Enters one group.
#[inline(always)]
pub(super) fn enter(group: &Group) -> Entered {
    let word = session_state::groups();
    if is_on(word, group.is_fine()) {
        enter_one(word, group)
    } else {
        Entered::NOTHING
    }
}

#[inline(never)]
fn enter_one(word: u64, group: &Group) -> Entered {
    group.registered().map_or(Entered::NOTHING, |group| {
        enter_found(word, std::iter::once(group), false)
    })
}

/// Enters one group whose handle is not yet resolved.
#[inline]
pub(super) fn enter_registered(group: &'static Registered) -> Entered {
    let word = session_state::groups();
    if is_on(word, group.is_fine()) {
        enter_found(word, std::iter::once(group), false)
    } else {
        Entered::NOTHING
    }
}

#[inline]
fn enter_found(
    word: u64,
    groups: impl Iterator<Item = &'static Registered> + Clone,
    waits: bool,
) -> Entered {
    Entered::new(with_own(word, |own| own.enter(word, groups, waits)).unwrap_or(Owned::NOTHING))
}

/// Enters several groups at the same instant.
#[inline]
pub(super) fn enter_all<const N: usize>(groups: &[&Group; N]) -> Entered {
    let word = session_state::groups();
    if !cfg!(feature = "enabled") || word == 0 {
        return Entered::NOTHING;
    }
    // Each handle is resolved once, because a failed attempt counts a missed entry.
    let found = groups.map(|group| {
        if is_on(word, group.is_fine()) {
            group.registered()
        } else {
            None
        }
    });
    enter_found(word, found.iter().copied().flatten(), false)
}

/// Enters the group of an awaited resource. If that group is unavailable, the wait counts for all
/// other entered groups.
#[inline]
pub(super) fn enter_blocking(group: &Group) -> Entered {
    let word = session_state::groups();
    if !is_on(word, group.is_fine()) {
        return Entered::NOTHING;
    }
    enter_found(word, group.registered().into_iter(), true)
}

/// Ends the calling thread's iteration now, also inside groups: its results are counted, and the
/// entered groups continue in the next iteration.
pub fn turn() {
    let word = session_state::groups();
    if cfg!(feature = "enabled") && word != 0 {
        with_own(word, |own| own.settle(word));
    }
}

/// A loop of the thread whose iterations end only by [`CustomLoop::turn`], until this is dropped.
#[derive(Debug)]
pub struct CustomLoop {
    /// The session, and the loop's number in it.
    known: Option<(u64, u64)>,
    _of_thread: PhantomData<*const ()>,
}

/// From now on, an iteration of the calling thread ends when the program calls
/// [`CustomLoop::turn`], not when the thread leaves its outermost group: the work for a group
/// between two turns is one run. Inside a [`nested_loop`] this applies to that loop only, not to
/// the loops around it.
pub fn custom_loop() -> CustomLoop {
    let mut made = CustomLoop {
        known: None,
        _of_thread: PhantomData,
    };
    made.with_own(|_, _, _| ());
    made
}

impl CustomLoop {
    /// Ends an iteration. Does nothing if the iteration is empty, or inside a loop that is nested
    /// in this one.
    pub fn turn(&mut self) {
        self.with_own(|own, word, serial| {
            if own.watch.is_innermost(serial) {
                own.settle(word);
            }
        });
    }

    /// Runs `body` with the thread's stopwatch, the word, and the loop's number in the running
    /// session. If that session began after this loop, the loop becomes its innermost loop.
    fn with_own(&mut self, body: impl FnOnce(&mut Own, u64, u64)) {
        let word = session_state::groups();
        if !cfg!(feature = "enabled") || word == 0 {
            return;
        }
        with_own(word, |own| {
            let serial = match self.known {
                Some((epoch, serial)) if epoch == own.epoch => serial,
                _ => own.watch.begin_custom(),
            };
            self.known = Some((own.epoch, serial));
            body(own, word, serial);
        });
    }
}

impl Drop for CustomLoop {
    fn drop(&mut self) {
        let word = session_state::groups();
        let (Some((epoch, serial)), true) = (self.known, word != 0) else {
            return;
        };
        with_own(word, |own| {
            if own.epoch == epoch {
                own.watch.end_custom(serial);
            }
            if own.watch.is_over() {
                own.settle(word);
            }
        });
    }
}

/// A loop inside an iteration, until this is dropped: see [`nested_loop`].
#[derive(Debug)]
#[must_use = "the nested loop ends at once"]
pub struct NestedLoop {
    serial: Option<u64>,
    _of_thread: PhantomData<*const ()>,
}

/// Begins a loop inside the calling thread's current work, as `block_on` and modal dialogs do.
/// Groups entered before are paused, and each counts the pause. Work in the loop is counted in
/// iterations of its own. Loops nested more than seven deep count as one loop.
pub fn nested_loop() -> NestedLoop {
    let word = session_state::groups();
    let begun = (cfg!(feature = "enabled") && word != 0).then(|| {
        with_own(word, |own| {
            let begun = own.watch.begin_nested(&SessionTime);
            own.carry_entered();
            begun
        })
        .flatten()
    });
    NestedLoop {
        serial: begun.flatten(),
        _of_thread: PhantomData,
    }
}

impl Drop for NestedLoop {
    fn drop(&mut self) {
        let word = session_state::groups();
        let (Some(serial), true) = (self.serial, word != 0) else {
            return;
        };
        with_own(word, |own| {
            let is_in = own.watch.is_in(serial);
            // Loops that are still open inside this one end with it.
            while own.watch.is_in(serial) {
                own.settle(word);
                own.watch.end_nested(&SessionTime);
            }
            own.carry();
            if is_in && own.watch.is_over() {
                own.settle(word);
            }
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn p10_applying_an_old_request_does_not_undo_a_newer_one() {
        let wanted = AtomicU64::new(2);
        let mut applied = Vec::new();
        until_settled(&wanted, |now| {
            applied.push(now);
            if applied.len() == 1 {
                wanted.store(4, Ordering::SeqCst); // another thread, meanwhile
            }
        });
        assert_eq!((applied, wanted.load(Ordering::SeqCst)), (vec![2, 4], 4));
    }
}
