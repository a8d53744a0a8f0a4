//! Futures in groups: each poll is one entry.

#![allow(unsafe_code)]

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::group::Group;
use super::local::{Entered, enter_registered};
use super::registered::Registered;
use crate::pinned::parts_of_pinned;

/// Attaches futures to groups.
pub trait InGroups: Future + Sized {
    /// Wraps the future. Each poll counts as work for this group: one entry, and one iteration if
    /// no other group is entered. For several groups, wrap the future once for each.
    ///
    /// The first use of a group's handle waits briefly for a lock, as [`Group::register`] does;
    /// polls never do.
    fn in_group(self, group: &Group) -> InGroup<Self> {
        InGroup {
            future: self,
            group: group.resolve(),
        }
    }
}

impl<F: Future> InGroups for F {}

/// A future in a group, see [`InGroups::in_group`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct InGroup<F> {
    future: F,
    /// `None` if there were too many groups.
    group: Option<&'static Registered>,
}

parts_of_pinned!(InGroup {
    future,
    group: Option<&'static Registered>
});

impl<F: Future> Future for InGroup<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let (future, group) = self.parts();
        let entered = group.map_or(Entered::NOTHING, enter_registered);
        let polled = future.poll(context);
        drop(entered);
        polled
    }
}
