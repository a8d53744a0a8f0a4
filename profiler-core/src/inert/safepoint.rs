//! A sampler for interpreters that never samples.

use std::marker::PhantomData;
use std::time::Duration;

use crate::category::CategoryPair;
use crate::ids::ThreadId;
pub use crate::sample_types::{FunctionId, FunctionName};

/// A stack that is not recorded.
#[derive(Debug)]
pub struct StackRoom<'r>(PhantomData<&'r mut ()>);

impl StackRoom<'_> {
    /// Does nothing.
    pub fn push<'n>(&mut self, _id: FunctionId, _describe: impl FnOnce() -> FunctionName<'n>) {}
}

/// A sampler that is always off.
#[derive(Debug)]
pub struct SafePointSampler(());

impl SafePointSampler {
    /// Makes a sampler that is always off.
    pub fn new(_thread: ThreadId, _interval: Duration) -> Self {
        Self(())
    }

    /// Does nothing.
    pub fn about(self, _about: impl Into<CategoryPair>) -> Self {
        self
    }

    /// False: no session runs.
    pub fn start(&mut self) -> bool {
        false
    }

    /// Always false.
    pub const fn is_on(&self) -> bool {
        false
    }

    /// Does nothing.
    #[inline(always)]
    pub fn poll(&mut self, _stack: impl FnOnce(&mut StackRoom<'_>)) {}

    /// Does nothing.
    pub fn suspend(&mut self) {}

    /// Does nothing.
    pub fn resume(&mut self) {}

    /// Does nothing.
    pub fn stop(&mut self, _stack: impl FnOnce(&mut StackRoom<'_>)) {}
}
