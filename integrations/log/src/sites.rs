//! What is made once for the records of a target: the call site of their markers.
//!
//! Called for each record. There is one site for each target and each sequence of keys, found by a
//! hash of both. Sites live as long as the process; there are at most [`MAX`], and the records
//! after them have one site together and their target in a field. Lock-free, except that a thread
//! waits for another one that stores a pointer in the same place.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use log::Record;
use profiler_core::internal::runtime_site::{RuntimeSite, category_of_target};

use crate::record_schema::schema_of;
use crate::values::{MAX_VALUES, for_each};

/// Most sites.
const MAX: usize = 1000;
/// Places of the table: a power of two, about twice as many as there are sites.
const PLACES: usize = 2048;
/// The hash of nothing. It is not 0, because an empty text would then leave it as it is.
const HASH_SEED: u64 = 0x517c_c1b7_2722_0a95;
/// The name of the markers of records without a site of their own, and their category.
const OTHER_TARGETS: &str = "log";

static SITES: [OnceLock<&'static RecordSite>; PLACES] = [const { OnceLock::new() }; PLACES];
static MADE: AtomicUsize = AtomicUsize::new(0);
static OTHER_SITE: OnceLock<RecordSite> = OnceLock::new();

/// The call site of the markers of a target.
#[derive(Debug)]
pub(crate) struct RecordSite {
    hash: u64,
    /// The name of its markers.
    pub(crate) target: &'static str,
    /// The names of the key-values that are fields.
    pub(crate) names: Box<[Box<str>]>,
    pub(crate) markers: RuntimeSite,
}

impl RecordSite {
    fn new(target: &str, names: Box<[Box<str>]>, hash: u64) -> Self {
        let target: &'static str = Box::leak(Box::from(target));
        let markers = RuntimeSite::new(target, category_of_target(target), schema_of(&names));
        Self {
            hash,
            target,
            names,
            markers,
        }
    }
}

/// The site of a record, and the number of its key-values.
pub(crate) fn site_of(record: &Record<'_>) -> (&'static RecordSite, usize) {
    let (hash, count) = hash_of(record);
    let first = usize::try_from(hash % PLACES as u64).unwrap_or(0);
    let target = record.target();
    let is_its = |site: &RecordSite| site.hash == hash && site.target == target;
    match SITES.get(first).and_then(OnceLock::get) {
        Some(site) if is_its(site) => (site, count),
        _ => (find_or_make(record, hash, first), count),
    }
}

#[inline(never)]
fn find_or_make(record: &Record<'_>, hash: u64, first: usize) -> &'static RecordSite {
    let is_its = |site: &RecordSite| site.hash == hash && site.target == record.target();
    let places = SITES.iter().skip(first).chain(SITES.iter().take(first));
    let mut made = None;
    for place in places {
        let site = match place.get() {
            Some(site) => site,
            None => {
                made = made.or_else(|| make(record, hash));
                let Some(made) = made else { break };
                place.get_or_init(|| made)
            }
        };
        if is_its(site) {
            return site;
        }
    }
    OTHER_SITE.get_or_init(|| RecordSite::new(OTHER_TARGETS, Box::default(), 0))
}

/// Makes a site; `None` if there are too many.
fn make(record: &Record<'_>, hash: u64) -> Option<&'static RecordSite> {
    let next = |made: usize| (made < MAX).then_some(made + 1);
    MADE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
        .ok()?;
    let mut names = Vec::new();
    for_each(record.key_values(), |index, key, _| {
        if index < MAX_VALUES {
            names.push(Box::from(key.as_str()));
        }
    });
    let site = RecordSite::new(record.target(), names.into(), hash);
    Some(Box::leak(Box::new(site)))
}

/// A hash of the target and of the keys that are fields, and the number of all keys.
fn hash_of(record: &Record<'_>) -> (u64, usize) {
    let mut hash = add_text(HASH_SEED, record.target());
    let mut count = 0;
    for_each(record.key_values(), |index, key, _| {
        count = index.saturating_add(1);
        if index < MAX_VALUES {
            hash = add_text(hash, key.as_str());
        }
    });
    (hash ^ (hash >> 32), count)
}

/// Adds a text to a hash: eight bytes at a time, then its length.
fn add_text(hash: u64, text: &str) -> u64 {
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    let mut last = [0; 8];
    for (place, byte) in last.iter_mut().zip(rest) {
        *place = *byte;
    }
    let add =
        |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash = words
        .iter()
        .fold(hash, |hash, word| add(hash, u64::from_le_bytes(*word)));
    add(add(hash, u64::from_le_bytes(last)), text.len() as u64)
}

#[cfg(test)]
mod tests {
    use log::kv;
    use proptest::prelude::*;

    use super::*;

    fn of(target: &str, values: &[(&str, u64)]) -> &'static RecordSite {
        let values: Vec<(kv::Key<'_>, kv::Value<'_>)> = values
            .iter()
            .map(|(key, value)| (kv::Key::from_str(key), kv::Value::from(*value)))
            .collect();
        let record = Record::builder().target(target).key_values(&values).build();
        site_of(&record).0
    }

    fn names(site: &RecordSite) -> Vec<&str> {
        site.names.iter().map(|name| &**name).collect()
    }

    proptest! {
        #[test]
        fn a_site_has_the_target_and_the_keys_of_its_record(
            target in "[a-c]{0,3}", keys in prop::collection::vec("[a-c]{0,2}", 0..3)
        ) {
            let values: Vec<_> = keys.iter().map(|key| (key.as_str(), 1)).collect();
            let site = of(&target, &values);
            prop_assert!(std::ptr::eq(site, of(&target, &values)));
            if site.target != OTHER_TARGETS {
                prop_assert_eq!(site.target, target);
                prop_assert_eq!(names(site), keys);
            }
        }
    }

    #[test]
    fn the_number_of_sites_is_bounded() {
        let targets = (0..2 * MAX).map(|number| format!("target {number}"));
        let sites: Vec<_> = targets.map(|target| of(&target, &[("key", 1)])).collect();
        let last = sites.last().unwrap();
        assert_eq!((last.target, names(last).len()), (OTHER_TARGETS, 0));
        assert!(MADE.load(Ordering::Relaxed) <= MAX);
    }
}
