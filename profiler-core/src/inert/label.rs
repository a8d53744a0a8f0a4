//! Labels that are not stored.

pub use profiler_core_macros::function;
#[doc(hidden)]
pub use profiler_core_macros::{function_of_child, function_of_parent};

use std::marker::PhantomData;

use crate::category::{Category, CategoryPair};

/// The static behind a [`crate::label!`]. Not for direct use.
#[derive(Debug)]
pub struct Label;

impl Label {
    /// Makes a label that is not shown.
    pub const fn new(_name: &'static str, _file: &'static str, _line: u32) -> Self {
        Self
    }
}

/// The guard of a label. Not `Send`, like the engine's guard.
#[derive(Debug)]
#[must_use = "a label ends when its guard is dropped; bind it: let _label = label!(…)"]
pub struct LabelScope(PhantomData<*const ()>);

impl LabelScope {
    /// Opens nothing.
    #[inline(always)]
    pub fn new(_label: &'static Label, _category: impl Into<CategoryPair>) -> Self {
        Self::disabled()
    }

    /// Opens nothing.
    #[doc(hidden)]
    #[inline(always)]
    pub fn open_at(_label: &'static Label, _category: &'static Category, _address: u64) -> u32 {
        0
    }

    /// Closes nothing.
    #[doc(hidden)]
    #[inline(always)]
    pub fn close(_outside: u32) {}

    /// A label that is not shown.
    pub const fn disabled() -> Self {
        Self(PhantomData)
    }
}

impl Drop for LabelScope {
    #[inline(always)]
    fn drop(&mut self) {}
}
