//! The message `Span`, and what markers add to it.
//!
//! Used by [`super::span_index`] for what other threads recorded, and by [`super::traces`].
//! Invariants: no attribute of a span occurs twice, the last value counts; a span has at most
//! [`MAX_ITEMS`] attributes, events and links each, and at most the given number of bytes; what is
//! left out is counted in it.

use std::collections::HashMap;

use super::super::payload::Payload;
use super::super::proto::Message;
use super::super::recording::Thread;
use super::attributes::{add_json, add_number, add_text};
use super::clock::UnixClock;
use super::identity::SpanRef;
use super::kinds::MarkerKind;
use super::thread_spans::ThreadInstant;
use profiler_reader::{NodeId, RawMarker, Survey, Tables, TextField, as_index};

/// The largest number of attributes, of events and of links of a span.
const MAX_ITEMS: usize = 128;

/// The attribute with the stack at which a marker was recorded.
const STACK_TRACE: &str = "code.stacktrace";

/// Fields of `Span`.
mod span {
    pub(super) const TRACE_ID: u64 = 1;
    pub(super) const SPAN_ID: u64 = 2;
    pub(super) const ATTRIBUTES: u64 = 9;
    pub(super) const DROPPED_ATTRIBUTES: u64 = 10;
    pub(super) const EVENTS: u64 = 11;
    pub(super) const DROPPED_EVENTS: u64 = 12;
    pub(super) const LINKS: u64 = 13;
    pub(super) const DROPPED_LINKS: u64 = 14;
}

/// Fields of `Span.Event`.
mod event {
    pub(super) const TIME: u64 = 1;
    pub(super) const NAME: u64 = 2;
    pub(super) const ATTRIBUTES: u64 = 3;
}

/// Adds the fields of a span, of a link to it, or of a reference.
pub(super) fn add_span_ref(of: SpanRef, to: &mut Message) {
    to.bytes(span::TRACE_ID, &of.trace.0);
    to.bytes(span::SPAN_ID, &of.span.0);
}

/// Something that a marker adds to a span.
#[derive(Clone, Debug)]
pub(super) enum SpanPart {
    /// An attribute with this key, as a field of the span.
    Attribute(Box<str>, Message),
    /// An event, as a field of the span.
    Event(Message),
    /// A number of attributes and events that are left out.
    Dropped(u64),
}

impl SpanPart {
    /// Its size in bytes.
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Attribute(key, field) => key.len() + field.as_bytes().len(),
            Self::Event(field) => field.as_bytes().len(),
            Self::Dropped(_) => 0,
        }
    }
}

/// What is needed to read the payloads of markers.
#[derive(Debug)]
pub(in super::super) struct Vocabulary {
    texts: HashMap<String, Vec<TextField>>,
    names: HashMap<String, HashMap<String, String>>,
    clock: UnixClock,
}

impl Vocabulary {
    pub(in super::super) fn of(survey: &Survey) -> Self {
        Self {
            texts: survey.meta.text_fields(),
            names: survey.meta.field_names(),
            clock: UnixClock::of(&survey.meta),
        }
    }

    pub(super) fn payload<'m>(&self, marker: &RawMarker<'m>, thread: &Thread<'m>) -> Payload<'m> {
        Payload::of(marker.data, &self.texts, thread.texts)
    }

    /// The fields of a marker as attributes, each with its key, as fields of a message.
    pub(super) fn attributes(
        &self,
        field: u64,
        marker: &RawMarker<'_>,
        thread: &Thread<'_>,
    ) -> Vec<(Box<str>, Message)> {
        let payload = self.payload(marker, thread);
        let is_of_span = MarkerKind::of(marker) != MarkerKind::Other;
        let kind = payload.kind();
        let names = self.names.get(kind.as_ref());
        let mut all = Vec::new();
        for (key, json) in payload.members() {
            if key == "type" || is_of_span && matches!(key, "span" | "parent") {
                continue;
            }
            let name = names
                .and_then(|names| names.get(key))
                .map_or(key, String::as_str);
            let mut attribute = Message::default();
            if add_json(field, name, json, &mut attribute) {
                all.push((name.into(), attribute));
            }
        }
        let stack = payload.stack().filter(|_| !thread.has_own_tables);
        if let Some(trace) = stack.map(|stack| stack_trace(stack, thread.tables)) {
            let mut attribute = Message::default();
            add_text(field, STACK_TRACE, &trace, &mut attribute);
            all.push((STACK_TRACE.into(), attribute));
        }
        all
    }

    /// What a marker at a point in time adds to its span: values, or an event.
    pub(super) fn parts(&self, instant: &ThreadInstant<'_>, thread: &Thread<'_>) -> Vec<SpanPart> {
        let marker = &instant.marker;
        match instant.kind {
            MarkerKind::Relation { .. } | MarkerKind::Flow { .. } => Vec::new(),
            MarkerKind::Plain { .. } | MarkerKind::Traced { .. } => {
                let values = self.attributes(span::ATTRIBUTES, marker, thread);
                values
                    .into_iter()
                    .map(|(key, field)| SpanPart::Attribute(key, field))
                    .collect()
            }
            MarkerKind::Detail { .. } => self.detail(marker, thread).into_iter().collect(),
            _ => vec![SpanPart::Event(self.event(instant, thread))],
        }
    }

    /// The attribute of a detail, whose name is that of the marker.
    fn detail(&self, marker: &RawMarker<'_>, thread: &Thread<'_>) -> Option<SpanPart> {
        let name = marker_name(marker, thread);
        let payload = self.payload(marker, thread);
        let (_, value) = payload.members().find(|(key, _)| *key == "value")?;
        let mut field = Message::default();
        let is_value = add_json(span::ATTRIBUTES, name, value, &mut field);
        is_value.then(|| SpanPart::Attribute(name.into(), field))
    }

    fn event(&self, instant: &ThreadInstant<'_>, thread: &Thread<'_>) -> Message {
        let mut body = Message::default();
        body.fixed(event::TIME, self.clock.at(instant.at));
        body.bytes(event::NAME, marker_name(&instant.marker, thread).as_bytes());
        let attributes = self.attributes(event::ATTRIBUTES, &instant.marker, thread);
        attributes
            .iter()
            .take(MAX_ITEMS)
            .for_each(|(_, field)| body.append(field));
        let mut event = Message::default();
        event.message(span::EVENTS, &body);
        event
    }

    pub(super) const fn clock(&self) -> UnixClock {
        self.clock
    }
}

/// The functions of a stack, the innermost first.
fn stack_trace(stack: NodeId, tables: &Tables) -> String {
    let functions = tables
        .functions(stack)
        .filter_map(|func| tables.function(func));
    let names: Vec<&str> = functions
        .take(MAX_ITEMS)
        .map(|function| function.name)
        .collect();
    names.join("\n")
}

/// The name of a marker; empty if it has none.
pub(super) fn marker_name<'t>(marker: &RawMarker<'_>, thread: &Thread<'t>) -> &'t str {
    let name = as_index(marker.name).and_then(|name| thread.texts.get(name));
    name.map_or("", String::as_str)
}

/// The attributes, events and links of a span that is being written.
#[derive(Debug)]
pub(super) struct SpanParts {
    attributes: Vec<(Box<str>, Message)>,
    places: HashMap<Box<str>, usize>,
    events: Vec<Message>,
    links: Vec<Message>,
    /// Attributes, events and links that are left out.
    dropped: [u64; 3],
    /// The bytes that remain.
    left: usize,
}

impl SpanParts {
    pub(super) fn new(most_bytes: usize) -> Self {
        Self {
            attributes: Vec::new(),
            places: HashMap::new(),
            events: Vec::new(),
            links: Vec::new(),
            dropped: [0; 3],
            left: most_bytes,
        }
    }

    pub(super) fn add(&mut self, part: SpanPart) {
        match part {
            SpanPart::Attribute(key, field) => self.attribute(key, field),
            SpanPart::Event(field) => self.event(field),
            SpanPart::Dropped(count) => self.drop(1, count),
        }
    }

    /// Adds the fields of a marker.
    pub(super) fn add_fields(
        &mut self,
        vocabulary: &Vocabulary,
        marker: &RawMarker<'_>,
        thread: &Thread<'_>,
    ) {
        for (key, field) in vocabulary.attributes(span::ATTRIBUTES, marker, thread) {
            self.attribute(key, field);
        }
    }

    pub(super) fn text(&mut self, key: &str, text: &str) {
        let mut field = Message::default();
        add_text(span::ATTRIBUTES, key, text, &mut field);
        self.attribute(key.into(), field);
    }

    pub(super) fn number(&mut self, key: &str, number: u64) {
        let mut field = Message::default();
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        add_number(span::ATTRIBUTES, key, number, &mut field);
        self.attribute(key.into(), field);
    }

    pub(super) fn link(&mut self, to: SpanRef) {
        let mut link = Message::default();
        add_span_ref(to, &mut link);
        let mut field = Message::default();
        field.message(span::LINKS, &link);
        if self.links.len() < MAX_ITEMS && self.has_room(&field) {
            self.links.push(field);
        } else {
            self.drop_one(2);
        }
    }

    fn attribute(&mut self, key: Box<str>, field: Message) {
        let known = self.places.get(&key).copied();
        if let Some(value) = known.and_then(|place| self.attributes.get_mut(place)) {
            let left = self.left.saturating_add(value.1.as_bytes().len());
            if let Some(left) = left.checked_sub(field.as_bytes().len()) {
                self.left = left;
                value.1 = field;
            } else {
                self.drop_one(0);
            }
        } else if self.attributes.len() < MAX_ITEMS && self.has_room(&field) {
            self.places.insert(key.clone(), self.attributes.len());
            self.attributes.push((key, field));
        } else {
            self.drop_one(0);
        }
    }

    fn event(&mut self, field: Message) {
        if self.events.len() < MAX_ITEMS && self.has_room(&field) {
            self.events.push(field);
        } else {
            self.drop_one(1);
        }
    }

    fn has_room(&mut self, field: &Message) -> bool {
        let left = self.left.checked_sub(field.as_bytes().len());
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }

    fn drop_one(&mut self, kind: usize) {
        self.drop(kind, 1);
    }

    fn drop(&mut self, kind: usize, dropped: u64) {
        self.dropped
            .iter_mut()
            .skip(kind)
            .take(1)
            .for_each(|count| *count = count.saturating_add(dropped));
    }

    /// Adds all to a span.
    pub(super) fn write(self, to: &mut Message) {
        let [attributes, events, links] = self.dropped;
        self.attributes
            .iter()
            .for_each(|(_, field)| to.append(field));
        to.number(span::DROPPED_ATTRIBUTES, attributes);
        self.events.iter().for_each(|field| to.append(field));
        to.number(span::DROPPED_EVENTS, events);
        self.links.iter().for_each(|field| to.append(field));
        to.number(span::DROPPED_LINKS, links);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_value_of_an_attribute_counts_if_it_has_room() {
        let mut parts = SpanParts::new(100);
        parts.text("key", "first");
        parts.text("key", &"x".repeat(100));
        assert_eq!(parts.dropped, [1, 0, 0]);
        parts.text("key", &"y".repeat(70));
        parts.text("key", &"z".repeat(70));
        assert_eq!(parts.dropped, [1, 0, 0], "the value before is not kept");
        let mut span = Message::default();
        parts.write(&mut span);
        let text = String::from_utf8_lossy(span.as_bytes()).into_owned();
        assert!(
            text.contains(&"z".repeat(70)) && !text.contains("yy"),
            "{text}"
        );
    }
}
