//! A subscriber that records, and passes everything on to the program's own subscriber.
//!
//! Called by `tracing`. Every span has one number for the program. If the inner subscriber wants
//! the span, this is the inner subscriber's number, and `InnerSpans` finds the recorded span.
//! Otherwise it is a number of `span_id`, and the inner subscriber never sees it.
//!
//! Invariants: the inner subscriber gets exactly the calls that it would get without the profiler,
//! apart from additional questions about its interest in call sites. `InnerInterests` has its
//! answers. An explicit parent of a span that it does not know is replaced by none, as `tracing`
//! does for a disabled parent. That of an event cannot be replaced.

#![allow(unsafe_code)]

use std::any::TypeId;
use std::fmt;

use profiler_core::internal::runtime_site::count_without_site;
use tracing_core::span::{Attributes, Current, Id, Record};
use tracing_core::subscriber::{Interest, NoSubscriber};
use tracing_core::{Dispatch, Event, LevelFilter, Metadata, Subscriber};

use crate::call_site::{CallSite, count_lost, find_site, site_of, site_of_span};
use crate::clone_counts::CloneCounts;
use crate::dispatches::ContainsProfiler;
use crate::inner_interests::{InnerInterests, ask_interest, forget_answer};
use crate::inner_spans::InnerSpans;
use crate::recording::{self, FindSpan};
use crate::rules::RecordingRules;
use crate::span_id::RecordedSpan;
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
    interests: InnerInterests,
}

impl RecordingRules {
    /// A subscriber that records by these rules, and passes everything on to `inner`.
    pub fn around<S>(self, inner: S) -> ProfilerSubscriber<S> {
        dispatches::ask_again_at_switches();
        ProfilerSubscriber {
            inner,
            rules: self,
            spans: InnerSpans::new(),
            interests: InnerInterests::new(),
        }
    }

    /// A subscriber that records by these rules, for a program that has no other one.
    pub fn subscriber(self) -> ProfilerSubscriber<NoSubscriber> {
        self.beyond_filters(true).around(NoSubscriber::new())
    }
}

impl<S> ProfilerSubscriber<S> {
    /// The inner subscriber.
    pub const fn inner(&self) -> &S {
        &self.inner
    }
}

impl<S: Subscriber> ProfilerSubscriber<S> {
    /// Whether the inner subscriber wants a span or an event.
    #[inline]
    fn inner_wants(&self, site: Option<&CallSite>, metadata: &Metadata<'_>) -> bool {
        let site = site.or_else(|| find_site(metadata));
        self.interests
            .wants(site, metadata, || self.inner.enabled(metadata))
    }

    /// The call site of something that the rules let through.
    #[inline]
    fn site_by_rules(&self, metadata: &'static Metadata<'static>) -> Option<&'static CallSite> {
        if self.rules.record(metadata) {
            site_of(metadata)
        } else {
            None
        }
    }

    /// The call site of something that is recorded, now that it is known whether the inner
    /// subscriber wants it. Counts a loss if it has none.
    #[inline]
    fn site_if_recorded<'site>(
        &self,
        site: Option<&'site CallSite>,
        metadata: &Metadata<'_>,
        is_wanted: bool,
    ) -> Option<&'site CallSite> {
        if !is_wanted && !self.rules.beyond_filters {
            return None;
        }
        if site.is_none() && self.rules.record(metadata) {
            count_lost(metadata);
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
        match RecordedSpan::of_id(id) {
            Some(span) => span.is_recorded().then_some(span),
            None => self.spans.find(id),
        }
    }
}

impl<S: Subscriber> Subscriber for ProfilerSubscriber<S> {
    fn on_register_dispatch(&self, dispatch: &Dispatch) {
        dispatches::note(dispatch);
        self.inner.on_register_dispatch(dispatch);
    }

    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        let inner = ask_interest(&self.inner, metadata);
        // A call site that is not recorded takes no place.
        let is_recorded = if inner.is_never() {
            self.rules.record_unwanted(metadata)
        } else {
            self.rules.record(metadata)
        };
        let site = if is_recorded {
            site_of(metadata)
        } else {
            find_site(metadata)
        };
        let Some(site) = site else {
            return inner;
        };
        self.interests.set(site, &inner);
        // A subscriber that wants to be asked is asked by `tracing`, as without the profiler.
        if inner.is_never() && self.rules.record_unwanted(metadata) {
            Interest::always()
        } else {
            inner
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let inner = self.interests.ask(&self.inner, metadata);
        let is_passed = inner || self.rules.record_unwanted(metadata);
        if is_passed {
            self.interests.keep_answer(metadata, inner);
        } else {
            forget_answer();
        }
        is_passed
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let inner = self.inner.max_level_hint()?;
        if self.rules.are_applied() && self.rules.beyond_filters {
            Some(inner.max(self.rules.max_level))
        } else {
            Some(inner)
        }
    }

    #[inline]
    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let metadata = attributes.metadata();
        let site = self.site_by_rules(metadata);
        let is_wanted = self.inner_wants(site, metadata);
        let inner = is_wanted.then(|| self.new_inner_span(attributes));
        let site = self.site_if_recorded(site, metadata, is_wanted);
        let span = site.map_or(RecordedSpan::NOT_RECORDED, recording::draw);
        let id = inner.clone().unwrap_or_else(|| span.id());
        if let Some(site) = site
            && (inner.is_none() || self.spans.insert(&id, span))
        {
            recording::begin(span, site, attributes, self);
        }
        id
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
        let site = self.site_by_rules(metadata);
        let is_wanted = self.inner_wants(site, metadata) && self.inner.event_enabled(event);
        if let Some(site) = self.site_if_recorded(site, metadata, is_wanted) {
            recording::event(site, event, self);
        }
        if is_wanted {
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
        if span.is_recorded() && !CLONES.add(span.number()) {
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
        // The inner subscriber may give the number to another span as soon as this one is closed.
        let span = self.spans.find(&id);
        let is_closed = self.inner.try_close(id.clone());
        if is_closed
            && let Some(span) = span
            && self.spans.remove(&id, span)
        {
            recording::end(span);
        }
        is_closed
    }

    fn current_span(&self) -> Current {
        // Only the inner subscriber's spans are known to what finds it by a downcast.
        let inner = self.inner.current_span();
        if inner.is_known() {
            return inner;
        }
        let span = entered::innermost().and_then(|span| RecordedSpan::from_word(span.id));
        match span.and_then(|span| Some((span, site_of_span(span)?))) {
            Some((span, site)) => Current::new(span.id(), site.metadata),
            None => inner,
        }
    }

    unsafe fn downcast_raw(&self, id: TypeId) -> Option<*const ()> {
        if id == TypeId::of::<Self>() {
            return Some(std::ptr::from_ref(self).cast());
        }
        ContainsProfiler::downcast(id).or_else(|| {
            // SAFETY: the caller's promise about the use of the pointer is passed on.
            unsafe { self.inner.downcast_raw(id) }
        })
    }
}

impl<S: fmt::Debug> fmt::Debug for ProfilerSubscriber<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProfilerSubscriber")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
