//! A sampler for interpreters that never samples.

use std::marker::PhantomData;
use std::time::Duration;

use crate::category::CategoryPair;
use crate::ids::ThreadId;

/// The interpreter's number of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u64);

/// What a function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FunctionName<'n> {
    /// Shown name.
    pub name: &'n str,
    /// Source file; empty if unknown.
    pub file: &'n str,
    /// Line in it, from 1 on; 0 if unknown.
    pub line: u32,
}

/// A stack that is not taken.
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
    /// A sampler.
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

    /// False.
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
