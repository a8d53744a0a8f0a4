//! The call sites of `tracing`: what is made once for each, and how it is found again.
//!
//! Used by the subscriber and by the layer. A call site is found by the address of its metadata, or
//! by its number, which is part of a recorded span's word. Lock-free: places are claimed once and
//! never freed, because metadata is static. There are at most [`MAX_SITE`] call sites; spans and
//! events of further ones are dropped and counted.

#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use profiler_core::internal::runtime_site::{RuntimeSite, category_of_target, count_without_site};
use profiler_core::label::Label;
use tracing_core::Metadata;

use crate::site_schema::{is_named_after_line, schema_of};
use crate::span_id::{MAX_SITE, RecordedSpan};

/// Places of the table by address: twice as many as there are call sites.
const PLACES_BITS: u32 = 14;
const PLACES: usize = 1 << PLACES_BITS;

/// A call site.
#[derive(Debug)]
pub(crate) struct CallSite {
    /// From 1 to [`MAX_SITE`].
    pub(crate) number: u64,
    pub(crate) metadata: &'static Metadata<'static>,
    /// Its markers.
    pub(crate) markers: RuntimeSite,
    /// The frame that it adds to stacks, if it makes spans.
    pub(crate) label: Label,
    /// Values came in another order than the fields of the metadata.
    pub(crate) has_unordered_values: AtomicBool,
}

static BY_ADDRESS: [AtomicPtr<CallSite>; PLACES] =
    [const { AtomicPtr::new(ptr::null_mut()) }; PLACES];
static BY_NUMBER: [AtomicPtr<CallSite>; MAX_SITE as usize + 1] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MAX_SITE as usize + 1];
static LAST_NUMBER: AtomicU64 = AtomicU64::new(0);

/// The call site of this metadata; makes it if it is new. `None` if there are too many.
#[inline]
pub(crate) fn site_of(metadata: &'static Metadata<'static>) -> Option<&'static CallSite> {
    let first = first_place(metadata);
    match loaded(BY_ADDRESS.get(first)?) {
        Some(site) if is_of(site, metadata) => Some(site),
        _ => find_or_make(metadata, first),
    }
}

/// The call site of this metadata, if it was made before.
#[inline]
pub(crate) fn find_site(metadata: &Metadata<'_>) -> Option<&'static CallSite> {
    if LAST_NUMBER.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let places = probes(first_place(metadata));
    let mut sites = places.map_while(loaded);
    sites.find(|site| is_of(site, metadata))
}

/// Counts the entries of a span or an event that has no call site.
pub(crate) fn count_lost(metadata: &Metadata<'_>) {
    let entries = if metadata.is_span() { 2 } else { 1 };
    (0..entries).for_each(|_| count_without_site());
}

/// The call site of a recorded span; `None` if the span is not recorded.
#[inline]
pub(crate) fn site_of_span(span: RecordedSpan) -> Option<&'static CallSite> {
    let number = usize::try_from(span.site()).ok()?;
    loaded(BY_NUMBER.get(number)?)
}

/// Fibonacci hashing: the upper bits of the product depend on all bits of the address.
fn first_place(metadata: &Metadata<'_>) -> usize {
    let address = ptr::from_ref(metadata).addr() as u64;
    let hash = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PLACES_BITS);
    usize::try_from(hash).unwrap_or(0)
}

#[inline(never)]
fn find_or_make(metadata: &'static Metadata<'static>, first: usize) -> Option<&'static CallSite> {
    let mut made = None;
    probes(first).find_map(|place| match loaded(place) {
        Some(site) => is_of(site, metadata).then_some(Some(site)),
        None => match made.or_else(|| make(metadata)) {
            None => Some(None),
            Some(site) => {
                made = Some(site);
                claim(place, site)
            }
        },
    })?
}

/// The places of the table by address, from this one on.
fn probes(first: usize) -> impl Iterator<Item = &'static AtomicPtr<CallSite>> {
    let places = BY_ADDRESS.iter();
    places.clone().skip(first).chain(places.take(first))
}

/// Whether a call site has this very metadata.
fn is_of(site: &CallSite, metadata: &Metadata<'_>) -> bool {
    ptr::from_ref(site.metadata).addr() == ptr::from_ref(metadata).addr()
}

/// Puts a new call site into a free place. Returns the call site of its metadata, or `None` if
/// another call site was faster and has the place.
fn claim(
    place: &AtomicPtr<CallSite>,
    site: &'static CallSite,
) -> Option<Option<&'static CallSite>> {
    let this = ptr::from_ref(site).cast_mut();
    match place.compare_exchange(ptr::null_mut(), this, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(Some(site)),
        // The number of the call site that was made in vain stays unused.
        Err(_) => loaded(place)
            .filter(|other| is_of(other, site.metadata))
            .map(Some),
    }
}

/// Makes a call site with a number; `None` if there are too many.
#[cold]
fn make(metadata: &'static Metadata<'static>) -> Option<&'static CallSite> {
    let next = |last: u64| (last < MAX_SITE).then_some(last + 1);
    let last = LAST_NUMBER.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    let number = last.ok()? + 1;
    let site = Box::leak(Box::new(CallSite::new(number, metadata)));
    let place = BY_NUMBER.get(usize::try_from(number).ok()?)?;
    place.store(ptr::from_mut(site), Ordering::Release);
    loaded(place)
}

impl CallSite {
    fn new(number: u64, metadata: &'static Metadata<'static>) -> Self {
        let name = if is_named_after_line(metadata) {
            metadata.target()
        } else {
            metadata.name()
        };
        let category = category_of_target(metadata.target());
        let (file, line) = (metadata.file(), metadata.line());
        Self {
            number,
            metadata,
            markers: RuntimeSite::new(name, category, schema_of(metadata)),
            label: Label::new(metadata.name(), file.unwrap_or(""), line.unwrap_or(0)),
            has_unordered_values: AtomicBool::new(false),
        }
    }
}

/// The call site in a place of the two tables.
#[inline]
fn loaded(place: &AtomicPtr<CallSite>) -> Option<&'static CallSite> {
    let site = place.load(Ordering::Acquire);
    // SAFETY: only `claim` and `make` store into the tables. The pointer is null, or from
    // `Box::leak` in `make`: initialised before, never freed, and changed only through its atomics.
    unsafe { site.as_ref() }
}
