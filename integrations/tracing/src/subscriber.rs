//! A subscriber that records, and passes everything on to the program's own subscriber.
//!
//! Called by `tracing`. Every span has one number for the program. If the inner subscriber wants
//! the span, this is the inner subscriber's number, and `InnerSpans` finds the recorded span.
//! Otherwise it is a number of `span_id`, and the inner subscriber never sees it.
//!
//! Invariants: the inner subscriber gets exactly the calls that it would get without the profiler,
//! apart from additional questions whether it is interested. An explicit parent that it does not
//! know is replaced by none, as `tracing` does for a disabled parent.

#![allow(unsafe_code)]

use std::any::TypeId;
use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

use profiler_core::internal::runtime_site::count_without_site;
use tracing_core::span::{Attributes, Current, Id, Record};
use tracing_core::subscriber::Interest;
use tracing_core::{Dispatch, Event, LevelFilter, Metadata, Subscriber};

use crate::call_site::{CallSite, site_of, site_of_span};
use crate::clone_counts::CloneCounts;
use crate::inner_spans::InnerSpans;
use crate::recording::{self, FindSpan};
use crate::rules::RecordingRules;
use crate::span_id::{MAX_SITE, RecordedSpan};
use crate::{dispatches, entered};

/// Handles of spans that only the profiler wants.
static CLONES: CloneCounts = CloneCounts::new();

/// Records spans and events, and passes them on to an inner subscriber.
///
/// Made by [`around`](crate::around) or [`RecordingRules::around`].
pub struct ProfilerSubscriber<S> {
    inner: S,
    rules: RecordingRules,
    spans: InnerSpans,
    /// The inner subscriber's interest in each call site, by the call site's number.
    interests: Box<[AtomicU8]>,
}

/// The inner subscriber has not been asked about a call site.
const UNKNOWN: u8 = 0;
const NEVER: u8 = 1;
const SOMETIMES: u8 = 2;
const ALWAYS: u8 = 3;

impl RecordingRules {
    /// A subscriber that records by these rules, and passes everything on to `inner`.
    pub fn around<S>(self, inner: S) -> ProfilerSubscriber<S> {
        ProfilerSubscriber {
            inner,
            rules: self,
            spans: InnerSpans::new(),
            interests: (0..=MAX_SITE).map(|_| AtomicU8::new(UNKNOWN)).collect(),
        }
    }
}

impl<S> ProfilerSubscriber<S> {
    /// The inner subscriber.
    pub const fn inner(&self) -> &S {
        &self.inner
    }

    fn interest_in(&self, site: &CallSite) -> Option<&AtomicU8> {
        self.interests.get(usize::try_from(site.number).ok()?)
    }
}

impl<S: Subscriber> ProfilerSubscriber<S> {
    /// Whether the inner subscriber wants a span or an event.
    #[inline]
    fn inner_wants(&self, site: Option<&CallSite>, metadata: &Metadata<'_>) -> bool {
        let known = site.and_then(|site| self.interest_in(site));
        match known.map_or(UNKNOWN, |interest| interest.load(Ordering::Relaxed)) {
            NEVER => false,
            ALWAYS => true,
            _ => self.inner.enabled(metadata),
        }
    }

    /// The call site of something that is recorded now. Counts a loss if there is none.
    #[inline]
    fn recorded_site(&self, metadata: &'static Metadata<'static>) -> Option<&'static CallSite> {
        if !self.rules.record(metadata) {
            return None;
        }
        let site = site_of(metadata);
        if site.is_none() {
            count_without_site();
        }
        site
    }

    /// Passes a new span on to the inner subscriber.
    fn new_inner_span(&self, attributes: &Attributes<'_>) -> Id {
        match attributes.parent() {
            Some(parent) if is_own(parent) => {
                let root = Attributes::new_root(attributes.metadata(), attributes.values());
                self.inner.new_span(&root)
            }
            _ => self.inner.new_span(attributes),
        }
    }
}

/// Whether the inner subscriber does not know a number.
#[inline]
fn is_own(id: &Id) -> bool {
    RecordedSpan::of_id(id).is_some()
}

impl<S> FindSpan for ProfilerSubscriber<S> {
    #[inline]
    fn find(&self, id: &Id) -> Option<RecordedSpan> {
        RecordedSpan::of_id(id).or_else(|| self.spans.find(id))
    }
}

impl<S: Subscriber> Subscriber for ProfilerSubscriber<S> {
    fn on_register_dispatch(&self, dispatch: &Dispatch) {
        dispatches::note(dispatch);
        self.inner.on_register_dispatch(dispatch);
    }

    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        let inner = self.inner.register_callsite(metadata);
        if !self.rules.record(metadata) {
            return inner;
        }
        let Some(interest) = site_of(metadata).and_then(|site| self.interest_in(site)) else {
            return inner;
        };
        let word = match () {
            () if inner.is_never() => NEVER,
            () if inner.is_always() => ALWAYS,
            () => SOMETIMES,
        };
        interest.store(word, Ordering::Relaxed);
        Interest::always()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // The inner subscriber is always asked: layers with filters remember the answer.
        let inner = self.inner.enabled(metadata);
        inner || self.rules.record(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let inner = self.inner.max_level_hint()?;
        if self.rules.are_applied() {
            Some(inner.max(self.rules.max_level))
        } else {
            Some(inner)
        }
    }

    #[inline]
    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let metadata = attributes.metadata();
        let site = self.recorded_site(metadata);
        let inner = self
            .inner_wants(site, metadata)
            .then(|| self.new_inner_span(attributes));
        let span = site.map(|site| recording::begin(site, attributes, self));
        match (inner, span) {
            (None, span) => span.unwrap_or(RecordedSpan::NOT_RECORDED).id(),
            (Some(id), None) => id,
            (Some(id), Some(span)) => {
                self.spans.insert(&id, span);
                id
            }
        }
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        if let Some(span) = self.find(id) {
            recording::add_values(span, values);
        }
        if !is_own(id) {
            self.inner.record(id, values);
        }
    }

    fn record_follows_from(&self, id: &Id, follows: &Id) {
        if let (Some(span), Some(follows)) = (self.find(id), self.find(follows)) {
            recording::follow(span, follows);
        }
        if !is_own(id) && !is_own(follows) {
            self.inner.record_follows_from(id, follows);
        }
    }

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let site = self.recorded_site(metadata);
        if let Some(site) = site {
            recording::event(site, event, self);
        }
        if self.inner_wants(site, metadata) && self.inner.event_enabled(event) {
            self.inner.event(event);
        }
    }

    #[inline]
    fn enter(&self, id: &Id) {
        recording::enter(id, self.find(id), &self.rules);
        if !is_own(id) {
            self.inner.enter(id);
        }
    }

    #[inline]
    fn exit(&self, id: &Id) {
        recording::exit(id, &self.rules);
        if !is_own(id) {
            self.inner.exit(id);
        }
    }

    fn clone_span(&self, id: &Id) -> Id {
        let Some(span) = RecordedSpan::of_id(id) else {
            return self.inner.clone_span(id);
        };
        if span.site() != 0 && !CLONES.add(span.number()) {
            count_without_site();
        }
        id.clone()
    }

    #[allow(deprecated)]
    fn drop_span(&self, id: Id) {
        self.try_close(id);
    }

    #[inline]
    fn try_close(&self, id: Id) -> bool {
        if let Some(span) = RecordedSpan::of_id(&id) {
            let is_last = CLONES.remove(span.number());
            if is_last {
                recording::end(span);
            }
            return is_last;
        }
        let is_closed = self.inner.try_close(id.clone());
        if is_closed && let Some(span) = self.spans.remove(&id) {
            recording::end(span);
        }
        is_closed
    }

    fn current_span(&self) -> Current {
        let innermost = entered::innermost().map(|entered| entered.id);
        match innermost.and_then(RecordedSpan::from_word) {
            Some(span) => match site_of_span(span) {
                Some(site) => Current::new(span.id(), site.metadata),
                None => Current::none(),
            },
            None => self.inner.current_span(),
        }
    }

    unsafe fn downcast_raw(&self, id: TypeId) -> Option<*const ()> {
        if id == TypeId::of::<Self>() {
            return Some(std::ptr::from_ref(self).cast());
        }
        // SAFETY: the caller's promise about the use of the pointer is passed on.
        unsafe { self.inner.downcast_raw(id) }
    }
}

impl<S: fmt::Debug> fmt::Debug for ProfilerSubscriber<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProfilerSubscriber")
            .field("inner", &self.inner)
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}
