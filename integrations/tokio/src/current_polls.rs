//! The polls that the calling thread is inside of, innermost last.
//!
//! Used by the hooks of runtimes: tokio calls one before a poll and one after it, and this keeps
//! what the second needs. A poll may be inside of another: `block_in_place` may run another
//! runtime. Invariants: a thread's polls are its own; at most [`MAX`] are kept, and deeper ones
//! are not timed; code of the host never runs while they are borrowed.

use std::cell::{Cell, RefCell};

use crate::spawn_site::SpawnSite;
use crate::task_marks::PollMark;
use crate::task_table::TaskPlace;
use crate::timed_poll::TimedPoll;

/// Most polls that are kept.
const MAX: usize = 4;

/// A poll that the thread is inside of.
#[derive(Debug)]
pub(crate) struct CurrentPoll {
    pub(crate) mark: PollMark,
    /// The place of the task; `None` if the task has ended, or has no place.
    pub(crate) place: Option<&'static TaskPlace>,
    pub(crate) site: &'static SpawnSite,
    pub(crate) timed: TimedPoll,
}

thread_local! {
    static POLLS: RefCell<[Option<CurrentPoll>; MAX]> =
        const { RefCell::new([const { None }; MAX]) };
    /// The polls that are kept. Read first, because it needs no destructor.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Runs `body` with the polls, unless the thread ends.
fn with_polls<T>(body: impl FnOnce(&mut [Option<CurrentPoll>; MAX]) -> Option<T>) -> Option<T> {
    let borrowed = POLLS.try_with(|polls| body(&mut *polls.try_borrow_mut().ok()?));
    borrowed.ok().flatten()
}

/// Adds a poll that begins; `begin` begins it if there is room.
#[inline]
pub(crate) fn push(begin: impl FnOnce() -> CurrentPoll) {
    let depth = DEPTH.get();
    if depth >= MAX {
        return;
    }
    // Begun outside of the borrow.
    let poll = begin();
    let refused = with_polls(|polls| {
        *polls.get_mut(depth)? = Some(poll);
        Some(())
    });
    if refused.is_some() {
        DEPTH.set(depth + 1);
    }
}

/// Takes the poll of this task, which has ended, and the polls inside of it, which have ended
/// without a call. `None` if the beginning of the poll was not recorded.
#[inline]
pub(crate) fn pop(number: u64) -> Option<CurrentPoll> {
    while let Some(depth) = DEPTH.get().checked_sub(1) {
        if !with_polls(|polls| Some(has(polls, number)))? {
            return None;
        }
        DEPTH.set(depth);
        let poll = with_polls(|polls| polls.get_mut(depth)?.take())?;
        if poll.mark.task == number {
            return Some(poll);
        }
    }
    None
}

fn has(polls: &[Option<CurrentPoll>; MAX], number: u64) -> bool {
    let mut all = polls.iter().flatten();
    all.any(|poll| poll.mark.task == number)
}

/// If the thread is inside of a poll of this task, which has ended: returns the nanoseconds of this
/// poll so far. The end of the poll is then not added to the times of the task.
pub(crate) fn end_task(number: u64) -> Option<u64> {
    if DEPTH.get() == 0 {
        return None;
    }
    with_polls(|polls| {
        let mut all = polls.iter_mut().flatten();
        let poll = all.find(|poll| poll.mark.task == number)?;
        poll.place = None;
        Some(poll.timed.nanoseconds_so_far())
    })
}
