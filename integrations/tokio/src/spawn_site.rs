//! The places in the source at which tasks are spawned: what is made once for each, and how it is
//! found again.
//!
//! Used by the hooks, which get the place from tokio, and by the wrapped futures, which have a name
//! besides. Places are claimed once and never freed. There are at most [`MAX`] places; the tasks
//! of further ones have one name. A thread waits only while another one stores a pointer.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::Location;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use profiler_core::groups::{Group, GroupKind};
use profiler_core::internal::runtime_site::{RuntimeSite, category_of_target};
use profiler_core::label::Label;
use profiler_core::marker::Category;

use crate::task_schema::{poll_schema, task_schema};

/// Most places. Their groups, labels and definitions stay for the life of the process.
const MAX: usize = 1024;
/// Twice as many as there are places.
const TABLE_SIZE: usize = 2 * MAX;
/// The name of the tasks of all further places.
const FURTHER: &str = "tasks of further places";

static SITES: [OnceLock<&'static SpawnSite>; TABLE_SIZE] = [const { OnceLock::new() }; TABLE_SIZE];
static MADE: AtomicUsize = AtomicUsize::new(0);
static FURTHER_SITE: OnceLock<SpawnSite> = OnceLock::new();

/// What a site is found by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SiteKey {
    /// The name that the program has given; `None` if the place in the source is the name.
    pub(crate) name: Option<&'static str>,
    /// The place in the source.
    pub(crate) location: &'static Location<'static>,
}

impl SiteKey {
    /// The same place may have several addresses: it is then found several times, under one name.
    #[inline]
    fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self.location, other.location) && self.name == other.name
    }

    /// Fibonacci hashing: the upper bits of the product depend on all bits of the addresses.
    #[inline]
    fn first_place(&self) -> usize {
        let location = std::ptr::from_ref(self.location).addr() as u64;
        let name = self.name.map_or(0, |name| name.as_ptr().addr() as u64);
        let address = location ^ name.rotate_left(32);
        let hash = address.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        usize::try_from(hash >> (u64::BITS - TABLE_SIZE.ilog2())).unwrap_or(0)
    }
}

/// A place at which tasks are spawned.
#[derive(Debug)]
pub(crate) struct SpawnSite {
    key: Option<SiteKey>,
    /// The name of its tasks.
    pub(crate) name: &'static str,
    /// The starts and ends of its tasks.
    pub(crate) tasks: RuntimeSite,
    /// The polls of its tasks.
    pub(crate) polls: RuntimeSite,
    /// The frame in the stacks of a thread that polls one of its tasks.
    pub(crate) label: Label,
    /// The group of its polls.
    pub(crate) group: Group,
}

/// The category of everything that this crate records.
pub(crate) fn tokio_category() -> &'static Category {
    category_of_target("tokio")
}

/// The site of this key; makes it if it is new.
#[inline]
pub(crate) fn site_of(key: SiteKey) -> &'static SpawnSite {
    let first = key.first_place();
    match SITES.get(first).and_then(OnceLock::get) {
        Some(site) if site.is_of(&key) => site,
        _ => find_or_make(key, first),
    }
}

#[inline(never)]
fn find_or_make(key: SiteKey, first: usize) -> &'static SpawnSite {
    let places = SITES.iter().cycle().skip(first).take(TABLE_SIZE);
    let mut made = None;
    for place in places {
        let site = match place.get() {
            Some(site) => site,
            None => {
                let Some(new) = made.or_else(|| make(key)) else {
                    break;
                };
                made = Some(new);
                // Another thread may have stored its site meanwhile; this one then goes on.
                let _ = place.set(new);
                place.get().copied().unwrap_or(new)
            }
        };
        if site.is_of(&key) {
            return site;
        }
    }
    FURTHER_SITE.get_or_init(|| SpawnSite::new(None, FURTHER, "", 0))
}

/// Makes a site; `None` if there are too many.
#[cold]
fn make(key: SiteKey) -> Option<&'static SpawnSite> {
    let next = |made: usize| (made < MAX).then_some(made + 1);
    MADE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
        .ok()?;
    let at = key.location;
    let place = format!("{}:{}:{}", short_path(at.file()), at.line(), at.column());
    let name: &'static str = match key.name {
        Some(name) => name,
        None => Box::leak(place.into_boxed_str()),
    };
    let site = SpawnSite::new(Some(key), name, short_path(at.file()), at.line());
    Some(Box::leak(Box::new(site)))
}

impl SpawnSite {
    fn new(key: Option<SiteKey>, name: &'static str, file: &'static str, line: u32) -> Self {
        let category = tokio_category();
        let description = match key {
            Some(SiteKey { location, .. }) => {
                let column = location.column();
                format!("spawned at {file}:{line}:{column}")
            }
            None => "spawned at one of many places".to_owned(),
        };
        let type_name = format!("{name} {:06x}", short_hash(name, &description));
        Self {
            key,
            name,
            tasks: RuntimeSite::new(name, category, task_schema(&type_name, &description)),
            polls: RuntimeSite::new(name, category, poll_schema()),
            label: Label::new(name, file, line),
            group: Group::new(GroupKind::Task, name),
        }
    }

    #[inline]
    fn is_of(&self, key: &SiteKey) -> bool {
        self.key.is_some_and(|known| known.is(key))
    }
}

/// Tells types of the same name apart, because the types of all processes are merged by name.
fn short_hash(name: &str, description: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (name, description).hash(&mut hasher);
    hasher.finish() & 0xff_ffff
}

/// A path without what differs from machine to machine: the registry of crates, or the directories
/// above the last three names.
fn short_path(path: &str) -> &str {
    for registry in ["/registry/src/", "/git/checkouts/"] {
        if let Some((_, below)) = path.split_once(registry) {
            return below.split_once('/').map_or(below, |(_, path)| path);
        }
    }
    if !path.starts_with('/') {
        return path;
    }
    let third = path.rmatch_indices('/').nth(2);
    third.map_or(path, |(at, _)| path.get(at + 1..).unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn here(name: Option<&'static str>) -> &'static SpawnSite {
        site_of(SiteKey {
            name,
            location: Location::caller(),
        })
    }

    #[test]
    fn a_place_is_found_again_and_another_place_or_name_is_another_site() {
        let sites = [None, None, Some("named"), Some("other")].map(|name| here(name));
        assert!(std::ptr::eq(sites[0], sites[1]));
        assert!(
            sites[0].name.contains("src/spawn_site.rs:"),
            "{}",
            sites[0].name
        );
        assert_eq!([sites[2].name, sites[3].name], ["named", "other"]);
        let elsewhere = here(None);
        assert_ne!(elsewhere.name, sites[0].name);
    }

    #[test]
    fn places_beyond_the_bound_share_one_site() {
        let names: Vec<&'static str> = (0..2 * MAX)
            .map(|number| &*Box::leak(format!("name {number}").into_boxed_str()))
            .collect();
        let sites: Vec<_> = names.iter().map(|name| here(Some(name))).collect();
        let further = sites.iter().filter(|site| site.name == FURTHER).count();
        assert!(further >= MAX, "{further}");
        assert!(std::ptr::eq(here(Some("one more")), sites[sites.len() - 1]));
    }

    #[test]
    fn a_path_says_the_same_on_all_machines() {
        let paths = [
            "/home/u/.cargo/registry/src/a.registry-0123/hyper-1.6.1/src/rt.rs",
            "/home/u/.cargo/git/checkouts/a-0123/4567/src/lib.rs",
            "/home/u/project/service/src/main.rs",
            "src/main.rs",
            "/main.rs",
        ];
        let expected = [
            "hyper-1.6.1/src/rt.rs",
            "4567/src/lib.rs",
            "service/src/main.rs",
            "src/main.rs",
            "/main.rs",
        ];
        assert_eq!(paths.map(short_path), expected);
    }
}
