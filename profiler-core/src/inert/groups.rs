//! Performance groups that count nothing.

#![allow(unsafe_code)]

use std::future::Future;
use std::marker::PhantomData;

pub use crate::group_kind::{GroupKind, Probes};

/// A group without totals.
#[derive(Clone, Debug)]
pub struct Group(());

impl Group {
    /// A group for use as a static.
    pub const fn new(_kind: GroupKind, _name: &'static str) -> Self {
        Self(())
    }

    /// A group from one text.
    pub const fn named(_text: &'static str) -> Self {
        Self(())
    }

    /// A group that is measured only on request.
    pub const fn fine(_kind: GroupKind, _name: &'static str) -> Self {
        Self(())
    }

    /// Registers nothing.
    pub fn register(_kind: GroupKind, _name: &str) -> Self {
        Self(())
    }

    /// Registers nothing.
    pub fn register_with(_kind: GroupKind, _name: &str, _labels: &[(&str, &str)]) -> Self {
        Self(())
    }

    /// Registers nothing.
    pub fn register_fine(_kind: GroupKind, _name: &str) -> Self {
        Self(())
    }

    /// Enters nothing.
    #[inline(always)]
    pub fn enter(&self) -> Entered {
        Entered(PhantomData)
    }
}

/// Several groups that a unit of work belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Groups<'a, const N: usize>(PhantomData<[&'a Group; N]>);

impl<'a, const N: usize> Groups<'a, N> {
    /// All of these groups.
    pub const fn of(_groups: [&'a Group; N]) -> Self {
        Self(PhantomData)
    }

    /// Enters nothing.
    #[inline(always)]
    pub fn enter(&self) -> Entered {
        Entered(PhantomData)
    }
}

/// The guard of entered groups. Not `Send`, like the engine's guard.
#[derive(Debug)]
#[must_use = "the group is left at once"]
pub struct Entered(PhantomData<*const ()>);

impl Drop for Entered {
    #[inline(always)]
    fn drop(&mut self) {}
}

/// Enters nothing.
#[inline(always)]
pub fn blocking(_what: &Group) -> Entered {
    Entered(PhantomData)
}

/// Does nothing.
pub fn turn() {}

/// A loop without iterations.
#[derive(Debug)]
pub struct CustomLoop(PhantomData<*const ()>);

/// Begins nothing.
pub fn custom_loop() -> CustomLoop {
    CustomLoop(PhantomData)
}

impl CustomLoop {
    /// Does nothing.
    pub fn turn(&mut self) {}
}

impl Drop for CustomLoop {
    #[inline(always)]
    fn drop(&mut self) {}
}

/// A loop inside an iteration.
#[derive(Debug)]
#[must_use = "the nested loop ends at once"]
pub struct NestedLoop(PhantomData<*const ()>);

/// Begins nothing.
pub fn nested_loop() -> NestedLoop {
    NestedLoop(PhantomData)
}

impl Drop for NestedLoop {
    #[inline(always)]
    fn drop(&mut self) {}
}

/// [`Probes::NONE`]: nothing is measured.
pub fn probes() -> Probes {
    Probes::NONE
}

/// Does nothing.
pub fn set_probes(_probes: Probes) {}

/// Attaches futures to groups.
pub trait InGroups: Future + Sized {
    /// Wraps the future, and measures nothing.
    fn in_group(self, _group: &Group) -> InGroup<Self> {
        InGroup(self)
    }
}

impl<F: Future> InGroups for F {}

/// A future whose polls are not measured.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct InGroup<F>(F);

plain_future!(InGroup);
