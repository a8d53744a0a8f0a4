//! Whether the inner subscriber wants a span or an event that `tracing` passes to the subscriber.
//!
//! Used by the subscriber. During a session `tracing` also passes on what only the profiler wants,
//! so the inner subscriber's answers are kept: its interest in each call site, and its latest
//! answer on this thread to the question whether it wants something. It is not asked twice: filters
//! may count the questions, and layers with filters keep their answer until the event comes.
//!
//! A bridge, such as that for the crate `log`, asks with metadata of its own, and then passes an
//! event of another call site, which is not registered. So an answer for metadata that is no
//! registered call site is valid for the next unregistered one.

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering};

use tracing_core::subscriber::Interest;
use tracing_core::{Metadata, Subscriber};

use crate::call_site::{CallSite, find_site};
use crate::span_id::MAX_SITE;

/// The inner subscriber's interest in a call site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// `tracing` has not registered the call site with this subscriber since it has a number.
    Nothing,
    Never,
    Sometimes,
    Always,
}

impl Known {
    const ALL: [Self; 4] = [Self::Nothing, Self::Never, Self::Sometimes, Self::Always];

    fn of(interest: &Interest) -> Self {
        match () {
            () if interest.is_never() => Self::Never,
            () if interest.is_always() => Self::Always,
            () => Self::Sometimes,
        }
    }
}

/// An answer of the inner subscriber.
#[derive(Clone, Copy, Debug)]
struct Answer {
    /// The address of the metadata in the question.
    address: usize,
    /// The metadata is that of a call site with a known interest.
    is_registered: bool,
    is_wanted: bool,
}

thread_local! {
    /// The latest answer on this thread, until an event or a span takes it.
    static ANSWER: Cell<Option<Answer>> = const { Cell::new(None) };
}

/// The interest of one inner subscriber in the call sites, by their numbers.
#[derive(Debug)]
pub(crate) struct InnerInterests(Box<[AtomicU8]>);

impl InnerInterests {
    pub(crate) fn new() -> Self {
        let unknown = || AtomicU8::new(Known::Nothing as u8);
        Self((0..=MAX_SITE).map(|_| unknown()).collect())
    }

    /// Keeps the interest that the inner subscriber has in a call site.
    pub(crate) fn set(&self, site: &CallSite, interest: &Interest) {
        if let Some(place) = self.place(site) {
            place.store(Known::of(interest) as u8, Ordering::Relaxed);
        }
    }

    /// Asks the inner subscriber whether it wants something, unless its interest says no.
    pub(crate) fn ask(&self, inner: &impl Subscriber, metadata: &Metadata<'_>) -> bool {
        match self.of(find_site(metadata)) {
            Known::Never => false,
            Known::Nothing => is_within_hint(inner, metadata) && inner.enabled(metadata),
            Known::Sometimes | Known::Always => inner.enabled(metadata),
        }
    }

    /// Keeps an answer for the span or the event that `tracing` passes next on this thread.
    pub(crate) fn keep_answer(&self, metadata: &Metadata<'_>, is_wanted: bool) {
        ANSWER.set(Some(Answer {
            address: address_of(metadata),
            is_registered: self.of(find_site(metadata)) != Known::Nothing,
            is_wanted,
        }));
    }

    /// Whether the inner subscriber wants a span or an event; takes the kept answer. `ask` asks it.
    #[inline]
    pub(crate) fn wants(
        &self,
        site: Option<&CallSite>,
        metadata: &Metadata<'_>,
        ask: impl FnOnce() -> bool,
    ) -> bool {
        let answer = ANSWER.get();
        if answer.is_some() {
            ANSWER.set(None);
        }
        let known = self.of(site);
        match (known, answer) {
            (Known::Never, _) => false,
            (_, Some(answer)) if answer.address == address_of(metadata) => answer.is_wanted,
            (Known::Always, _) => true,
            (Known::Sometimes, _) => ask(),
            (Known::Nothing, Some(answer)) if !answer.is_registered => answer.is_wanted,
            // `tracing` has the inner subscriber's own interest in this call site.
            (Known::Nothing, _) => true,
        }
    }

    #[inline]
    fn of(&self, site: Option<&CallSite>) -> Known {
        let place = site.and_then(|site| self.place(site));
        let word = place.map_or(0, |place| place.load(Ordering::Relaxed));
        let known = Known::ALL.get(usize::from(word));
        known.copied().unwrap_or(Known::Nothing)
    }

    #[inline]
    fn place(&self, site: &CallSite) -> Option<&AtomicU8> {
        self.0.get(usize::try_from(site.number).ok()?)
    }
}

/// Asks the inner subscriber for its interest in a call site. There is none above its largest
/// level: during a session `tracing` does not refuse such a level on its behalf.
pub(crate) fn ask_interest(
    inner: &impl Subscriber,
    metadata: &'static Metadata<'static>,
) -> Interest {
    let interest = inner.register_callsite(metadata);
    if is_within_hint(inner, metadata) {
        interest
    } else {
        Interest::never()
    }
}

fn is_within_hint(inner: &impl Subscriber, metadata: &Metadata<'_>) -> bool {
    let hint = inner.max_level_hint();
    hint.is_none_or(|hint| *metadata.level() <= hint)
}

/// Drops the kept answer: nothing comes after a refusal.
pub(crate) fn forget_answer() {
    ANSWER.set(None);
}

fn address_of(metadata: &Metadata<'_>) -> usize {
    std::ptr::from_ref(metadata).addr()
}
