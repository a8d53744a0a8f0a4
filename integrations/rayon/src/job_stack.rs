//! The jobs that the calling thread has begun and not ended, innermost first.
//!
//! Used by `running_job`, `context` and `pool`. While a worker waits in `rayon::join` or at the end
//! of a scope, rayon lets it execute other jobs on top of the one that waits, so a thread may be
//! inside several jobs. Each is a [`JobLevel`] in the stack frame that executes it. Invariants: the
//! thread-local refers to a level only while [`on_top`] with that level has not returned; it has no
//! destructor, so it works at any point of a thread's life.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;

use profiler_core::groups::{Entered, Group};

use crate::carried::Carried;

/// A job that the thread is inside, or the worker itself.
pub(crate) struct JobLevel<'a> {
    /// `None`: a job without anything to carry, or the worker itself.
    pub(crate) carried: Option<&'a Arc<Carried>>,
    /// The group of the worker's pool.
    pub(crate) of_pool: Option<&'a Group>,
    /// The number of the span that jobs made here have as their parent.
    pub(crate) span: Option<u64>,
    /// The number of jobs that the thread is inside, with this one; 0 for the worker itself.
    pub(crate) depth: u32,
    /// The groups that the job has entered. Taken while a job on top of it replaces them.
    pub(crate) entered: Cell<Option<Entered>>,
}

/// The address of a level, to recognise it while it exists. Null if there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LevelAddress(usize);

thread_local! {
    static TOP: Cell<*const JobLevel<'static>> = const { Cell::new(ptr::null()) };
}

/// Runs `body` with the innermost level of the calling thread.
#[inline]
pub(crate) fn with_top<R>(body: impl FnOnce(Option<&JobLevel<'_>>) -> R) -> R {
    let top = TOP.get();
    // SAFETY: null, or stored by `on_top` on this thread. Its call has not returned, because it
    // restores the former value before it returns or unwinds, so the level that it borrows exists.
    // `body` runs within that call and cannot keep the reference, whose lifetime is its own.
    body(unsafe { top.as_ref() })
}

/// The address of the innermost level.
#[inline]
pub(crate) fn top_address() -> LevelAddress {
    LevelAddress(TOP.get().addr())
}

/// Runs `body` inside `level`.
#[inline]
pub(crate) fn on_top<R>(level: &JobLevel<'_>, body: impl FnOnce() -> R) -> R {
    let _outer = RestoreTop(TOP.replace(ptr::from_ref(level).cast()));
    body()
}

/// Makes an outer level the innermost one again when it is dropped, also in a panic.
struct RestoreTop(*const JobLevel<'static>);

impl Drop for RestoreTop {
    #[inline]
    fn drop(&mut self) {
        TOP.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn level(depth: u32) -> JobLevel<'static> {
        JobLevel {
            carried: None,
            of_pool: None,
            span: None,
            depth,
            entered: Cell::new(None),
        }
    }

    fn depth() -> Option<u32> {
        with_top(|top| top.map(|level| level.depth))
    }

    #[test]
    fn the_outer_level_is_the_innermost_again_after_a_job_and_after_a_panic() {
        assert_eq!(depth(), None);
        on_top(&level(1), || {
            let outer = top_address();
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                on_top(&level(2), || {
                    assert_eq!(depth(), Some(2));
                    assert_ne!(top_address(), outer);
                    panic!("a job");
                })
            }));
            assert!(panicked.is_err());
            assert_eq!((depth(), top_address()), (Some(1), outer));
        });
        assert_eq!(depth(), None);
    }
}
