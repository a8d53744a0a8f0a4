//! Sampling at safe points, for interpreters that the program embeds: their stacks, in their own names.
//!
//! An interpreter polls where its state is in order: between instructions, when a native function returns. A poll
//! compares the clock with the next due time, and only then asks for the stack. Nobody is interrupted and nothing is
//! unwound; a long native call is one sample that stands for all of its time. Samples go the way of all others
//! ([`SampleWriter`]), frames are labels; so the profile shows them like any thread's.
//!
//! Two samplers in one thread row would mix: give the interpreter a thread number of its own, or sample with
//! `Features::NO_SAMPLING`.
//!
//! ```text
//! poll ──▶ now < due? done (one clock read)
//!            └▶ (a pause: one sample without a stack, as long as the pause) ─▶ sample ─▶ due = next on the grid
//! ```
//!
//! Invariants: nothing is allocated before [`SafePointSampler::start`], all of it is given back by
//! [`SafePointSampler::stop`]; a function's name is asked for and written once in a session; a sample is in the pool when the
//! poll returns, so there is no batch that could be lost.
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

mod schedule;
mod names;
mod running;

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
    /// A sampler that is off, of the thread whose row the samples go to. Allocates nothing.
    pub fn new(thread: ThreadId, interval: Duration) -> Self {
        Self { thread, interval, about: (&category::OTHER).into(), on: None }
    }

    /// The category that functions are shown in; "Other" if not said.
    pub fn about(mut self, about: impl Into<CategoryPair>) -> Self {
        self.about = about.into();
        self
    }

    /// Begins to sample; time counts from now on. False, and nothing changed, while no session runs. Nothing happens
    /// if it is on.
    ///
    /// Reads the names that the pool has, so that none is written twice: about a millisecond for ten thousand.
    pub fn start(&mut self) -> bool {
        if self.on.is_none() {
            self.on = Running::begin(self.thread, self.interval, self.about).map(Box::new);
        }
        self.on.is_some()
    }

    /// Whether it samples.
    pub const fn is_on(&self) -> bool {
        self.on.is_some()
    }

    /// At a safe point: samples if it is time, with the stack that `stack` pushes, the outermost function first.
    ///
    /// Costs a clock read, and a branch while off. Of a stack that is deeper than
    /// [`MAX_FRAMES`](crate::sampler::MAX_FRAMES) the outermost functions are left out.
    #[inline]
    pub fn poll(&mut self, stack: impl FnOnce(&mut StackRoom<'_>)) {
        let Some(running) = &mut self.on else { return };
        let now = Timestamp::now();
        if running.is_due(now) {
            running.sample(now, stack);
        }
    }

    /// The interpreter stops, as for a debugger: what passes until [`Self::resume`] is nobody's time.
    pub fn suspend(&mut self) {
        if let Some(running) = &mut self.on {
            running.suspend(Timestamp::now());
        }
    }

    /// The interpreter goes on.
    pub fn resume(&mut self) {
        if let Some(running) = &mut self.on {
            running.resume(Timestamp::now());
        }
    }

    /// Ends sampling and gives all memory back. The time since the last sample goes to the stack that `stack` pushes.
    /// Dropping the sampler ends it too, but leaves that time out.
    pub fn stop(&mut self, stack: impl FnOnce(&mut StackRoom<'_>)) {
        if let Some(mut running) = self.on.take() {
            let now = Timestamp::now();
            running.resume(now);
            running.sample(now, stack);
        }
    }
}
