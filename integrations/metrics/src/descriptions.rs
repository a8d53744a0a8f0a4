//! The units and descriptions of metrics.
//!
//! Written by the program, usually when it starts, and read once per metric, at its first change in
//! a session. Invariants: their number is bounded; a call waits for another thread only for about a
//! millisecond, because in a forked child that thread may not exist.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, TryLockError};

use metrics::{KeyName, SharedString, Unit};

/// Most descriptions.
const MAX: usize = 4096;
/// How often a thread tries to take the lock, and lets other threads run in between.
const TRIES: u32 = 1000;

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// What the program says about a metric.
#[derive(Clone, Debug, Default)]
pub(crate) struct Description {
    pub(crate) unit: Option<Unit>,
    pub(crate) text: Option<SharedString>,
}

type Known = BTreeMap<(Kind, KeyName), Description>;

static DESCRIPTIONS: Mutex<Known> = Mutex::new(BTreeMap::new());

/// Keeps a description. The latest one of a metric counts.
pub(crate) fn keep(kind: Kind, name: &KeyName, unit: Option<Unit>, text: &SharedString) {
    let Some(mut known) = lock() else { return };
    let key = (kind, name.to_retained());
    if known.len() < MAX || known.contains_key(&key) {
        let text = Some(text.clone());
        known.insert(key, Description { unit, text });
    }
}

/// The description of a metric.
pub(crate) fn find(kind: Kind, name: KeyName) -> Description {
    let known = lock();
    let found = known.and_then(|known| known.get(&(kind, name)).cloned());
    found.unwrap_or_default()
}

fn lock() -> Option<MutexGuard<'static, Known>> {
    (0..TRIES).find_map(|_| match DESCRIPTIONS.try_lock() {
        Ok(known) => Some(known),
        Err(TryLockError::Poisoned(known)) => Some(known.into_inner()),
        Err(TryLockError::WouldBlock) => {
            std::thread::yield_now();
            None
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_description_of_a_kind_counts() {
        let name = KeyName::from_const_str("described");
        let text = |text| SharedString::const_str(text);
        keep(Kind::Counter, &name, Some(Unit::Bytes), &text("first"));
        keep(Kind::Counter, &name, Some(Unit::Count), &text("second"));
        keep(Kind::Gauge, &name, None, &text("a gauge"));
        let found = find(Kind::Counter, name.clone());
        assert_eq!(found.unit, Some(Unit::Count));
        assert_eq!(found.text.as_deref(), Some("second"));
        assert_eq!(find(Kind::Gauge, name.clone()).unit, None);
        assert!(find(Kind::Histogram, name).text.is_none());
    }
}
