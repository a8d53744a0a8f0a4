//! Samples embedded interpreters at safe points: their stacks, with their own function names.
//!
//! An interpreter polls where its state is consistent: between instructions, or when a native
//! function returns. A poll compares the clock with the next due time, and asks for the stack only
//! if it has passed. No thread is interrupted and no stack is unwound; a long native call is one
//! sample that stands for all of its time. Samples are written by [`SampleWriter`] like all others,
//! and frames are labels, so the profile shows them like any thread's.
//!
//! Two samplers in one thread row would mix: give the interpreter a thread number of its own, or
//! sample with `Features::NO_SAMPLING`.
//!
//! ```text
//! poll ──▶ now < due? done (one clock read)
//!            └▶ (pause: one sample without a stack) ─▶ sample ─▶ due = next grid point
//! ```
//!
//! Invariants: nothing is allocated before [`SafePointSampler::start`], and
//! [`SafePointSampler::stop`] frees everything; a function's name is requested and written once per
//! session; a sample is in the pool when the poll returns, so there is no batch that could be lost.
//!
//! ```
//! use std::time::Duration;
//! use profiler_core::safepoint::{FunctionId, FunctionName, SafePointSampler};
//!
//! let mut sampler = SafePointSampler::new(profiler_core::thread::current(), Duration::from_micros(1250));
//! sampler.start(); // false: no session runs
//! for instruction in 0..1000 {
//!     // … the interpreter executes it …
//!     sampler.poll(|stack| {
//!         stack.push(FunctionId(1), || FunctionName { name: "main", file: "script.lua", line: 1 });
//!     });
//! }
//! sampler.stop(|stack| stack.push(FunctionId(1), || FunctionName { name: "main", file: "script.lua", line: 1 }));
//! ```

mod names;
mod running;
mod schedule;

use std::time::Duration;

pub use names::{FunctionId, FunctionName, StackRoom};

use crate::category;
use crate::category::CategoryPair;
use crate::ids::ThreadId;
use crate::time::Timestamp;
use running::Running;

#[cfg(doc)]
use crate::sampler::SampleWriter;

/// Samples one interpreter. See the [module](self).
#[derive(Debug)]
pub struct SafePointSampler {
    thread: ThreadId,
    interval: Duration,
    about: CategoryPair,
    on: Option<Box<Running>>,
}

impl SafePointSampler {
    /// A sampler that is off; its samples go to the row of this thread. Allocates nothing.
    pub fn new(thread: ThreadId, interval: Duration) -> Self {
        Self { thread, interval, about: (&category::OTHER).into(), on: None }
    }

    /// Sets the category that functions are shown in; "Other" by default.
    pub fn about(mut self, about: impl Into<CategoryPair>) -> Self {
        self.about = about.into();
        self
    }

    /// Starts sampling; time counts from now on. Returns false, and changes nothing, while no
    /// session runs. Has no effect if the sampler is on.
    ///
    /// Reads the names in the pool, so that none is written twice: about a millisecond for ten
    /// thousand.
    pub fn start(&mut self) -> bool {
        if self.on.is_none() {
            self.on = Running::begin(self.thread, self.interval, self.about).map(Box::new);
        }
        self.on.is_some()
    }

    /// Whether the sampler is on.
    pub const fn is_on(&self) -> bool {
        self.on.is_some()
    }

    /// Polls at a safe point: samples if due, with the stack that `stack` pushes, the outermost
    /// function first.
    ///
    /// Costs a clock read, and a branch while off. Beyond
    /// [`MAX_FRAMES`](crate::sampler::MAX_FRAMES) the outermost functions are left out.
    #[inline]
    pub fn poll(&mut self, stack: impl FnOnce(&mut StackRoom<'_>)) {
        let Some(running) = &mut self.on else { return };
        let now = Timestamp::now();
        if running.is_due(now) {
            running.sample(now, stack);
        }
    }

    /// Pauses the interpreter's time, as for a debugger: the time until [`Self::resume`] is not
    /// counted.
    pub fn suspend(&mut self) {
        if let Some(running) = &mut self.on {
            running.suspend(Timestamp::now());
        }
    }

    /// Ends the pause.
    pub fn resume(&mut self) {
        if let Some(running) = &mut self.on {
            running.resume(Timestamp::now());
        }
    }

    /// Stops sampling and frees all memory. The time since the last sample goes to the stack that
    /// `stack` pushes. Dropping the sampler also stops it, but does not record that time.
    pub fn stop(&mut self, stack: impl FnOnce(&mut StackRoom<'_>)) {
        if let Some(mut running) = self.on.take() {
            let now = Timestamp::now();
            running.resume(now);
            running.sample(now, stack);
        }
    }
}
