//! The handle [`Group`], which refers to a registered group by kind, name and labels.
//!
//! Applications create handles; `groups::local` and `groups::future` ask a handle for its
//! registered group. A handle looks up its group once. Invariant: an entry never waits for the
//! registry: if the registry cannot be locked, the handle keeps the entry, and the thread that
//! registers the group adds it to the group.

use std::sync::OnceLock;

use super::registered::{Identity, Registered, ticks_of};
use super::registry::{self, Locked};
use crate::group_kind::GroupKind;
use crate::pending_sum::PendingSum;
use crate::record::session_state;

/// An entity that work is done for: a plugin, a tenant, a class of requests, a part of the program.
///
/// Made as a static, by [`crate::group!`] or [`Group::new`], or registered while the program runs.
/// All handles with the same kind, name and labels are one group of the process. A program should
/// have few groups: they stay for the life of the process. Groups beyond 4,093 are left out and
/// counted, each once.
#[derive(Debug)]
pub struct Group {
    /// `None`: the kind is the part of the name before a colon.
    kind: Option<GroupKind>,
    name: &'static str,
    is_fine: bool,
    registered: OnceLock<Option<&'static Registered>>,
    /// Entries made while the registry could not be locked.
    missed: PendingSum,
}

impl Group {
    /// A group for use as a static.
    pub const fn new(kind: GroupKind, name: &'static str) -> Self {
        Self::make(Some(kind), name, false)
    }

    /// A group from one text, such as `plugin:foo`. Without a known kind before the colon it is a
    /// component of that name.
    pub const fn named(text: &'static str) -> Self {
        Self::make(None, text, false)
    }

    /// A group that is measured only while [`super::Probes::FINE`] is requested, and does not
    /// appear in a profile before.
    pub const fn fine(kind: GroupKind, name: &'static str) -> Self {
        Self::make(Some(kind), name, true)
    }

    const fn make(kind: Option<GroupKind>, name: &'static str, is_fine: bool) -> Self {
        Self {
            kind,
            name,
            is_fine,
            registered: OnceLock::new(),
            missed: PendingSum::new(),
        }
    }

    /// The group of this kind and name, for names that are known only at run time, such as a
    /// tenant's. Takes a lock and may allocate: keep the handle. If there are too many groups
    /// already, or if the program's allocator calls it while the same thread registers a group, the
    /// handle counts nothing.
    pub fn register(kind: GroupKind, name: &str) -> Self {
        Self::register_with(kind, name, &[])
    }

    /// Like [`Group::register`], with labels, which belong to the group's identity.
    pub fn register_with(kind: GroupKind, name: &str, labels: &[(&str, &str)]) -> Self {
        Self::registered_as(false, || Identity::new(kind, name, labels, false))
    }

    /// Like [`Group::register`], for a group that is measured only while [`super::Probes::FINE`] is
    /// requested.
    pub fn register_fine(kind: GroupKind, name: &str) -> Self {
        Self::registered_as(true, || Identity::new(kind, name, &[], true))
    }

    fn registered_as(is_fine: bool, identity: impl FnOnce() -> Identity) -> Self {
        // Nothing is allocated before the lock: a call from the program's allocator finds it taken.
        let found = registry::lock().and_then(|mut known| registry::find(&mut known, identity()));
        if let Some(group) = found.filter(|_| !is_fine && session_state::is_active()) {
            // Makes the group visible before it is entered. If other threads hold the lock for
            // long, its first iteration does that. Never waits: the program's allocator may register
            // groups while this thread holds the lock.
            let _ = crate::record::local::with_manager(|manager| group.place(manager, false));
        }
        let group = Self::make(None, "", is_fine);
        let _ = group.registered.set(found);
        group
    }

    /// Whether the group is measured only while fine groups are requested.
    #[inline(always)]
    pub(super) const fn is_fine(&self) -> bool {
        self.is_fine
    }

    /// The group behind the handle; `None` if there are too many, or while the registry cannot be
    /// locked.
    #[inline]
    pub(super) fn registered(&self) -> Option<&'static Registered> {
        match self.registered.get() {
            Some(known) => *known,
            None => self.find(),
        }
    }

    /// Like `registered`, but waits for the registry; not for use on entries.
    pub(super) fn resolve(&self) -> Option<&'static Registered> {
        match self.registered.get() {
            Some(known) => *known,
            None => registry::lock().and_then(|known| self.register_in(known)),
        }
    }

    #[cold]
    fn find(&self) -> Option<&'static Registered> {
        if let Some(known) = registry::try_lock() {
            return self.register_in(known);
        }
        self.miss();
        None
    }

    fn register_in(&self, mut known: Locked) -> Option<&'static Registered> {
        let (kind, name) = self
            .kind
            .map_or_else(|| GroupKind::split(self.name), |kind| (kind, self.name));
        let identity = Identity::new(kind, name, &[], self.is_fine);
        let found = registry::find(&mut known, identity);
        // Under the registry's lock, like the cell of the process's group.
        let found = *self.registered.get_or_init(|| found);
        drop(known);
        found.into_iter().for_each(|found| self.hand_over(found));
        found
    }

    /// Counts an entry made while the registry could not be locked.
    fn miss(&self) {
        self.missed
            .add(session_state::epoch_of(session_state::word()), 1);
        // A thread that registered the group meanwhile may have collected `missed` before this
        // entry was added.
        if let Some(Some(found)) = self.registered.get() {
            self.hand_over(found);
        }
    }

    /// Moves the missed entries to the registered group. Every thread that finds the group
    /// registered calls this once afterwards; [`PendingSum`] explains why no entry is lost.
    fn hand_over(&self, found: &'static Registered) {
        let missed = ticks_of(&self.missed);
        if missed > 0 {
            found.keep(missed);
        }
    }
}

/// A clone is the same group.
impl Clone for Group {
    fn clone(&self) -> Self {
        // Resolved before the copy, so that all clones share one registration and one set of missed
        // entries.
        let _ = self.resolve();
        let group = Self::make(self.kind, self.name, self.is_fine);
        if let Some(known) = self.registered.get() {
            let _ = group.registered.set(*known);
        }
        group
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
