//! Futures in groups: each poll is one entry.

#![allow(unsafe_code)]

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::group::Group;
use super::local::{Entered, enter_registered};
use super::registered::Registered;

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

impl<F: Future> Future for InGroup<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the inner future is not moved: the reference goes straight into a pin, `InGroup`
        // has no `Drop`, and it hands out no other reference to the future. The group is not
        // pinned.
        let this = unsafe { self.get_unchecked_mut() };
        let entered = this.group.map_or(Entered::NOTHING, enter_registered);
        // SAFETY: as above: the future lies inside the pinned value and stays there until it is
        // dropped in place.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        let polled = future.poll(context);
        drop(entered);
        polled
    }
}
