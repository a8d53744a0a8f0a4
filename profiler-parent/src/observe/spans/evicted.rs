//! Spans that were evicted before they ended. They are counted at eviction, so their ends must not
//! be counted again.
//!
//! Owned by [`super::Spans`]. The latest [`MAX`] are remembered, at about 64 bytes each; the end
//! of an older one counts as an end without a start. Spans without a number are identified by a
//! hash of their name and text; a collision within one thread makes a count wrong by one.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};

use profiler_core::ids::ThreadId;

/// Limit on the remembered spans of one process.
pub(super) const MAX: usize = 16 * 1024;

/// Identifies an evicted span: by its number, or by its thread and the hash of its name and text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Numbered(u64),
    Named(ThreadId, u64),
}

/// The latest evicted spans whose end was not read yet.
#[derive(Debug, Default)]
pub(super) struct EvictedSpans {
    hasher: RandomState,
    /// By key, then in the order of eviction.
    known: BTreeSet<(Key, u64)>,
    by_age: BTreeMap<u64, Key>,
    next: u64,
}

impl EvictedSpans {
    pub(super) fn add_numbered(&mut self, id: u64) {
        self.add(Key::Numbered(id));
    }

    pub(super) fn add_named(&mut self, thread: ThreadId, name: &str, label: Option<&str>) {
        self.add(self.named(thread, name, label));
    }

    /// Removes the span with this number. Returns whether it was remembered.
    pub(super) fn end_numbered(&mut self, id: u64) -> bool {
        self.take(Key::Numbered(id))
    }

    /// Removes the latest unnumbered span of this name and text. Returns whether one was
    /// remembered.
    pub(super) fn end_named(&mut self, thread: ThreadId, name: &str, label: Option<&str>) -> bool {
        !self.by_age.is_empty() && self.take(self.named(thread, name, label))
    }

    pub(super) fn knows_numbered(&self, id: u64) -> bool {
        self.latest(Key::Numbered(id)).is_some()
    }

    /// Removes the unnumbered spans of an exited thread.
    pub(super) fn forget_thread(&mut self, thread: ThreadId) {
        let first = (Key::Named(thread, 0), 0);
        let last = (Key::Named(thread, u64::MAX), u64::MAX);
        for (key, age) in self.known.range(first..=last).copied().collect::<Vec<_>>() {
            self.remove(key, age);
        }
    }

    fn named(&self, thread: ThreadId, name: &str, label: Option<&str>) -> Key {
        Key::Named(thread, self.hasher.hash_one((name, label)))
    }

    fn add(&mut self, key: Key) {
        if let Some((age, oldest)) = self.by_age.first_key_value().map(|(age, key)| (*age, *key))
            && self.by_age.len() >= MAX
        {
            self.remove(oldest, age);
        }
        self.known.insert((key, self.next));
        self.by_age.insert(self.next, key);
        self.next += 1;
    }

    fn latest(&self, key: Key) -> Option<u64> {
        self.known
            .range((key, 0)..=(key, u64::MAX))
            .next_back()
            .map(|(_, age)| *age)
    }

    fn take(&mut self, key: Key) -> bool {
        let latest = self.latest(key);
        latest.into_iter().for_each(|age| self.remove(key, age));
        latest.is_some()
    }

    fn remove(&mut self, key: Key, age: u64) {
        self.known.remove(&(key, age));
        self.by_age.remove(&age);
    }
}
