//! The tracks of metrics in the profile, and the bounds of their number.
//!
//! Used by `counters`, `gauges` and `histograms`. A metric with its labels has a track, which finds
//! its target, the counters of the profile, at its first change in a session: by then the program
//! has described its metrics. A pool has room for 1,024 counters of all kinds, so there are bounds:
//!
//! ```text
//! keys    4,096 of each kind; metrics after them share the track of their name
//! labels  100 of each name, and 600 counters in all, have targets of their own
//! names   1,024 of each kind, with a target "NAME (other labels)"; 300 counters in all
//! ```
//!
//! Invariants: a target never changes; nothing waits for a lock; what has no target is counted.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use metrics::Key;
use profiler_core::counter::Counter;

use crate::descriptions::{self, Kind};
use crate::key_table::KeyTable;
use crate::units::{Quantity, Scale};

/// The category of counters that have no category of their own in viewers.
pub(crate) const CATEGORY: &str = "Metrics";
/// Places for keys, and for names: twice the most of them.
const KEY_PLACES: usize = 8192;
const NAME_PLACES: usize = 2048;
/// Most sets of labels of one name that have targets of their own.
const MAX_OF_NAME: usize = 100;
/// Most bytes of the name of a target.
const MAX_NAME: usize = 256;

/// Counters for metrics with their labels, and for the others.
static OWN_COUNTERS: Budget = Budget::new(600);
static OTHER_COUNTERS: Budget = Budget::new(300);

/// A number of counters that may be made.
#[derive(Debug)]
struct Budget(AtomicUsize);

impl Budget {
    const fn new(most: usize) -> Self {
        Self(AtomicUsize::new(most))
    }

    fn take(&self, counters: usize) -> bool {
        let less = |left: usize| left.checked_sub(counters);
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.is_ok()
    }
}

/// The metrics of one kind.
#[derive(Debug)]
pub(crate) struct Tracks<T: 'static> {
    keys: KeyTable<Track<T>, KEY_PLACES>,
    names: KeyTable<NameTracks<T>, NAME_PLACES>,
    kind: Kind,
    /// The counters of one target.
    counters: usize,
    make: fn(&Subject) -> T,
}

/// What the metrics of one name share.
#[derive(Debug)]
struct NameTracks<T: 'static> {
    /// The sets of labels that have targets of their own.
    own: AtomicUsize,
    others: Track<T>,
}

/// A metric with its labels.
#[derive(Debug)]
pub(crate) struct Track<T: 'static> {
    key: Key,
    /// For all labels that have no track or target of their own.
    is_of_others: bool,
    /// The latest value, as the kind of the metric needs it.
    pub(crate) latest: AtomicU64,
    target: OnceLock<Target<T>>,
}

/// Where the changes of a metric go.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<T> {
    /// To counters of its own.
    Own(T),
    /// To the counters of the other labels of its name.
    Shared(T),
    /// Nowhere.
    Nowhere,
}

/// A metric that gets a target.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// Its name with its labels.
    pub(crate) name: String,
    pub(crate) scale: Scale,
    description: String,
}

thread_local! {
    /// Whether the calling thread is finding a target.
    static IS_FINDING: Cell<bool> = const { Cell::new(false) };
}

impl<T: Copy> Tracks<T> {
    pub(crate) const fn new(kind: Kind, counters: usize, make: fn(&Subject) -> T) -> Self {
        Self {
            keys: KeyTable::new(),
            names: KeyTable::new(),
            kind,
            counters,
            make,
        }
    }

    /// The track of a metric; `None` if there are too many names.
    #[inline]
    pub(crate) fn track(&self, key: &Key) -> Option<&'static Track<T>> {
        let own = self.keys.get_or_make(key, |key| Track::new(key, false));
        own.or_else(|| self.others_of(key))
    }

    #[cold]
    fn others_of(&self, key: &Key) -> Option<&'static Track<T>> {
        Some(&self.name_tracks(key)?.others)
    }

    fn name_tracks(&self, key: &Key) -> Option<&'static NameTracks<T>> {
        let name = Key::from_name(key.name_shared());
        self.names.get_or_make(&name, |name| NameTracks {
            own: AtomicUsize::new(0),
            others: Track::new(name, true),
        })
    }

    /// Where the changes of a metric go. Finds it out at the first change.
    #[inline]
    pub(crate) fn target(&self, track: &'static Track<T>) -> Target<T> {
        match track.target.get() {
            Some(target) => *target,
            None => self.find_target(track),
        }
    }

    /// Finding a target allocates, and the program's allocator may change a metric. Such a change
    /// finds no target, and is counted by its caller.
    #[cold]
    #[inline(never)]
    fn find_target(&self, track: &'static Track<T>) -> Target<T> {
        if IS_FINDING.replace(true) {
            return Target::Nowhere;
        }
        let found = self.search(track);
        IS_FINDING.set(false);
        found
    }

    fn search(&self, track: &'static Track<T>) -> Target<T> {
        let found = if track.is_of_others {
            if OTHER_COUNTERS.take(self.counters) {
                Target::Shared((self.make)(&self.subject(track)))
            } else {
                Target::Nowhere
            }
        } else {
            match self.name_tracks(&track.key) {
                Some(name) if self.may_have_own(name) => {
                    Target::Own((self.make)(&self.subject(track)))
                }
                // Values of several gauges have no sum, so gauges share no track.
                Some(_) if self.kind == Kind::Gauge => Target::Nowhere,
                Some(name) => {
                    let others = &name.others;
                    let known = others.target.get().copied();
                    known.unwrap_or_else(|| self.search(others))
                }
                None => Target::Nowhere,
            }
        };
        // Another thread may have been faster; then what was made here is not used.
        let _ = track.target.set(found);
        track.target.get().copied().unwrap_or(found)
    }

    fn may_have_own(&self, name: &NameTracks<T>) -> bool {
        let next = |own: usize| (own < MAX_OF_NAME).then_some(own + 1);
        let counted = name
            .own
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        counted.is_ok() && OWN_COUNTERS.take(self.counters)
    }

    fn subject(&self, track: &Track<T>) -> Subject {
        let key = &track.key;
        let described = descriptions::find(self.kind, key.name_shared());
        Subject {
            name: if track.is_of_others {
                cut(format!("{} (other labels)", key.name()))
            } else {
                name_with_labels(key)
            },
            scale: Scale::of(key.name(), described.unit),
            description: described.text.as_deref().unwrap_or("").to_owned(),
        }
    }

    /// All metrics that have tracks of their own.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static Track<T>> {
        self.keys.iter()
    }
}

impl<T> Track<T> {
    const fn new(key: Key, is_of_others: bool) -> Self {
        Self {
            key,
            is_of_others,
            latest: AtomicU64::new(0),
            target: OnceLock::new(),
        }
    }

    /// Whether it is the track of one metric only.
    #[inline]
    pub(crate) const fn is_own(&self) -> bool {
        !self.is_of_others
    }
}

impl Subject {
    /// Makes a counter of the profile. It lives as long as the process.
    pub(crate) fn counter(&self, what: &str, scale: Scale, category: Category) -> &'static Counter {
        let unit = match scale.suffix() {
            "" => String::new(),
            unit => format!(" ({unit})"),
        };
        let name = cut(format!("{}{what}{unit}", self.name));
        let category = category.of(scale);
        let description = cut(self.description.clone());
        Box::leak(Box::new(Counter::new(
            leak(name),
            category,
            leak(description),
        )))
    }
}

/// How viewers draw a counter of bytes. Others are numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Category {
    /// The changes matter.
    Rate,
    /// The value matters.
    Level,
    /// It counts something else than the metric does.
    Number,
}

impl Category {
    const fn of(self, scale: Scale) -> &'static str {
        match (scale.quantity, self) {
            (Quantity::Bytes, Self::Rate) => "Bandwidth",
            (Quantity::Bytes, Self::Level) => "Memory",
            _ => CATEGORY,
        }
    }
}

pub(crate) fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// Takes a counter beyond those of a target; false if there are too many.
pub(crate) fn take_counter() -> bool {
    OWN_COUNTERS.take(1)
}

/// A name like `requests{method=GET, status=200}`.
fn name_with_labels(key: &Key) -> String {
    let labels: Vec<String> = key
        .labels()
        .map(|label| format!("{}={}", label.key(), label.value()))
        .collect();
    if labels.is_empty() {
        cut(key.name().to_owned())
    } else {
        cut(format!("{}{{{}}}", key.name(), labels.join(", ")))
    }
}

/// The beginning of a long text.
fn cut(mut text: String) -> String {
    if text.len() > MAX_NAME {
        text.truncate(text.floor_char_boundary(MAX_NAME));
        text.push('…');
    }
    text
}
