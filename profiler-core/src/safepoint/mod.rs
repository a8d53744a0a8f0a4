//! Samples embedded interpreters at safe points: their stacks, with their own function names.
//!
//! An interpreter polls where its state is consistent: between instructions, or when a native
//! function returns. A poll compares the clock with the next due time, and asks for the stack only
//! if this time has passed. No thread is interrupted and no stack is unwound; a long native call is
//! one sample that carries the whole time of the call. [`SampleWriter`] writes these samples like
//! all others, and their frames are labels, so the profile shows them like the samples of a thread.
//!
//! The samples of two samplers in one thread row would be mixed. Give the interpreter a thread
//! number of its own, or start the session with `Features::NO_SAMPLING`.
//!
//! ```text
//! poll ──▶ now < due? done (one clock read)
//!            └▶ (pause: one sample without a stack) ─▶ sample ─▶ due = next grid point
//! ```
//!
//! Invariants: nothing is allocated before [`SafePointSampler::start`], and
//! [`SafePointSampler::stop`] frees everything; a function's name is requested once after each
//! start and written once per session; a sample is in the pool when the poll returns, so there is
//! no batch that could be lost.
//!
//! ```
//! use std::time::Duration;
//! use profiler_core::safepoint::{FunctionId, FunctionName, SafePointSampler};
//!
//! let thread = profiler_core::thread::current();
//! let main = || FunctionName { name: "main", file: "script.lua", line: 1 };
//! let mut sampler = SafePointSampler::new(thread, Duration::from_micros(1250));
//! sampler.start(); // false: no session runs
//! for instruction in 0..1000 {
//!     // … the interpreter executes it …
//!     sampler.poll(|stack| stack.push(FunctionId(1), main));
//! }
//! sampler.stop(|stack| stack.push(FunctionId(1), main));
//! ```

mod names;
mod running;
mod schedule;

use std::time::Duration;

pub use names::StackRoom;

pub use crate::sample_types::{FunctionId, FunctionName};

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
    /// Creates a sampler that is off. Its samples go to the row of `thread`. Allocates nothing.
    pub fn new(thread: ThreadId, interval: Duration) -> Self {
        Self {
            thread,
            interval,
            about: (&category::OTHER).into(),
            on: None,
        }
    }

    /// Sets the category that functions are shown in; "Other" by default.
    pub fn about(mut self, about: impl Into<CategoryPair>) -> Self {
        self.about = about.into();
        self
    }

    /// Starts sampling; time counts from now on. Returns false, and changes nothing, if no session
    /// runs. If the sampler is already on, returns true and changes nothing.
    ///
    /// Reads the names in the pool, so that no name is written twice. This takes about a
    /// millisecond for ten thousand names.
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
    /// Costs a branch while off, and a clock read while on. If the stack has more than
    /// [`MAX_FRAMES`](crate::sampler::MAX_FRAMES) functions, the outermost ones are left out.
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
