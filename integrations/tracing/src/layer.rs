//! A layer that records, for programs that have a registry of `tracing-subscriber`.
//!
//! Called by `tracing-subscriber`. The registry's numbers lead to recorded spans through
//! `InnerSpans`; no extensions are used. A layer that is never interested in a call site turns it
//! off for all layers, so the layer comes with a filter of its own, which turns off the layer
//! alone.

#![allow(unsafe_code)]

use std::any::TypeId;

use tracing_core::span::{Attributes, Id, Record};
use tracing_core::subscriber::Interest;
use tracing_core::{Dispatch, Event, LevelFilter, Metadata, Subscriber};
use tracing_subscriber::filter::Filtered;
use tracing_subscriber::layer::{Context, Filter, Layer};

use crate::call_site::{count_lost, site_of};
use crate::dispatches::{self, ContainsProfiler};
use crate::inner_spans::InnerSpans;
use crate::recording::{self, FindSpan};
use crate::rules::RecordingRules;
use crate::span_id::RecordedSpan;

/// The layer with its filter.
pub type ProfilerLayer<S> = Filtered<RecordingLayer, WhileRecording, S>;

/// Records the spans and events of a registry. Made by [`layer`](crate::layer) or
/// [`RecordingRules::layer`].
#[derive(Debug)]
pub struct RecordingLayer {
    rules: RecordingRules,
    spans: InnerSpans,
}

/// Lets spans and events through to the layer while a session records them.
#[derive(Clone, Copy, Debug)]
pub struct WhileRecording(RecordingRules);

impl RecordingRules {
    /// A layer that records by these rules.
    pub fn layer<S>(self) -> ProfilerLayer<S> {
        dispatches::ask_again_at_switches();
        let layer = RecordingLayer {
            rules: self,
            spans: InnerSpans::new(),
        };
        Filtered::new(layer, WhileRecording(self))
    }
}

impl FindSpan for RecordingLayer {
    fn find(&self, id: &Id) -> Option<RecordedSpan> {
        self.spans.find(id)
    }
}

impl<S: Subscriber> Layer<S> for RecordingLayer {
    fn on_register_dispatch(&self, dispatch: &Dispatch) {
        dispatches::note(dispatch);
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        if !self.rules.are_applied() {
            return;
        }
        let Some(site) = site_of(attributes.metadata()) else {
            return count_lost(attributes.metadata());
        };
        let span = recording::draw(site);
        if self.spans.insert(id, span) {
            recording::begin(span, site, attributes, self);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        if let Some(span) = self.find(id) {
            recording::add_values(span, values);
        }
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, _: Context<'_, S>) {
        if let (Some(span), Some(follows)) = (self.find(id), self.find(follows)) {
            recording::follow(span, follows);
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if !self.rules.are_applied() {
            return;
        }
        match site_of(event.metadata()) {
            Some(site) => recording::event(site, event, self),
            None => count_lost(event.metadata()),
        }
    }

    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        recording::enter(id, self.find(id), &self.rules);
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        recording::exit(id, &self.rules);
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        if let Some(span) = self.find(&id)
            && self.spans.remove(&id, span)
        {
            recording::end(span);
        }
    }

    unsafe fn downcast_raw(&self, id: TypeId) -> Option<*const ()> {
        if id == TypeId::of::<Self>() {
            return Some(std::ptr::from_ref(self).cast());
        }
        ContainsProfiler::downcast(id)
    }
}

impl<S> Filter<S> for WhileRecording {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.0.record(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.0.record(metadata) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(if self.0.are_applied() {
            self.0.max_level
        } else {
            LevelFilter::OFF
        })
    }
}

#[cfg(test)]
mod tests {
    use tracing::info_span;
    use tracing::subscriber::with_default;
    use tracing_subscriber::Registry;

    use super::*;

    #[test]
    fn without_a_session_the_layer_is_never_interested() {
        let span = with_default(tracing_subscriber::registry(), || info_span!("span"));
        let metadata = span.metadata().expect("the registry wants all spans");
        let filter = WhileRecording(RecordingRules::default());
        let interest = Filter::<Registry>::callsite_enabled(&filter, metadata);
        assert!(interest.is_never());
    }
}
