//! Traces: the spans of all threads.
//!
//! Called by [`super::encode`]. Intervals are spans, as are starts and ends of numbered spans. A
//! span whose end is not in the profile ends with the profile, one whose start is not in it has
//! only its end; the attribute `profiler.span.state` says so. Points in time are events of the span
//! that they name, or else of the innermost interval that contains them; a point outside of all
//! spans is left out, as are the profiler's statements about itself.

use super::super::ExportError;
use super::super::bodies::{BodyKind, BodyLimit, BodySink};
use super::super::proto::Message;
use super::super::recording::{Recording, Sink, Thread, Totals};
use super::kinds::MarkerKind;
use super::links::{Placed, placed};
use super::requests::Requests;
use super::resource::{ProcessKey, resource};
use super::span_index::{ProcessIndex, SpanIndex};
use super::span_message::{SpanParts, Vocabulary, add_span_ref, marker_name};
use super::thread_spans::{Owner, ThreadSpan, ThreadSpans};
use profiler_reader::Survey;
use profiler_reader::bounded_ns;

/// Fields of `Span`, besides those of its parts.
mod span {
    pub(super) const PARENT_ID: u64 = 4;
    pub(super) const NAME: u64 = 5;
    pub(super) const KIND: u64 = 6;
    pub(super) const START: u64 = 7;
    pub(super) const END: u64 = 8;
    pub(super) const FLAGS: u64 = 16;
}

/// Values of the field `kind`.
mod kind {
    pub(super) const INTERNAL: u64 = 1;
    pub(super) const SERVER: u64 = 2;
    pub(super) const CLIENT: u64 = 3;
}

/// Values of the field `flags`: recorded, known whether the parent is in another process, and that
/// it is.
mod flags {
    pub(super) const SAMPLED: u32 = 1;
    pub(super) const KNOWS_PARENT: u32 = 0x100;
    pub(super) const PARENT_IS_REMOTE: u32 = 0x200;
}

/// The attribute that says which end of a span is missing.
const STATE: &str = "profiler.span.state";

/// Encodes all spans.
pub(super) fn encode(
    recording: &Recording,
    limit: BodyLimit,
    sink: &mut dyn BodySink,
) -> Result<Totals, ExportError> {
    let (index, _) = SpanIndex::of(recording)?;
    let survey = recording.survey();
    let mut traces = Traces {
        requests: Requests::new(BodyKind::OtlpTraces, limit, sink),
        vocabulary: Vocabulary::of(survey),
        end_ns: survey.meta.profiling_end_time.map_or(i64::MIN, bounded_ns),
        index,
        process: None,
    };
    let totals = recording.threads(&mut traces)?;
    traces.requests.finish()?;
    Ok(totals)
}

struct Traces<'s> {
    requests: Requests<'s>,
    vocabulary: Vocabulary,
    index: SpanIndex,
    /// The end of the profile.
    end_ns: i64,
    /// The process whose threads are written.
    process: Option<ProcessKey>,
}

impl Sink for Traces<'_> {
    const WITH_MARKERS: bool = true;

    fn thread(&mut self, thread: &Thread<'_>, survey: &Survey) -> Result<(), ExportError> {
        if self
            .process
            .as_ref()
            .is_none_or(|process| !process.is_of(thread))
        {
            let resource = resource(thread.pid, thread.process, &survey.meta);
            self.requests.begin(resource);
            self.process = Some(ProcessKey::of(thread));
        }
        let process = self.index.process(thread);
        let spans = ThreadSpans::of(thread);
        let placed = placed(&spans, &self.index, process, thread.tid);
        let mut points = points(&spans);
        for ((span, placed), points) in spans.spans.iter().zip(placed).zip(&mut points) {
            let is_span = !matches!(
                span.kind,
                MarkerKind::Poll { .. } | MarkerKind::Context { .. }
            );
            let Some(placed) = placed.filter(|_| is_span) else {
                continue;
            };
            let source = Source {
                thread,
                survey,
                process,
                spans: &spans,
            };
            let points = std::mem::take(points);
            let message = self.span(span, placed, &points, &source);
            self.requests.add(&message)?;
        }
        Ok(())
    }
}

/// The places of the instants of each span.
fn points(spans: &ThreadSpans<'_>) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new(); spans.spans.len()];
    for (place, instant) in spans.instants.iter().enumerate() {
        let owner = match instant.owner {
            Owner::Number(number) => spans.by_number.get(&number).copied(),
            Owner::Span(span) => Some(span),
            Owner::Nothing => None,
        };
        if let Some(points) = owner.and_then(|owner| all.get_mut(owner)) {
            points.push(place);
        }
    }
    all
}

/// The thread that is written.
struct Source<'t, 'm> {
    thread: &'t Thread<'m>,
    survey: &'t Survey,
    process: ProcessIndex,
    spans: &'t ThreadSpans<'m>,
}

impl Traces<'_> {
    /// The message `Span`.
    fn span(
        &self,
        of: &ThreadSpan<'_>,
        placed: Placed,
        points: &[usize],
        source: &Source<'_, '_>,
    ) -> Message {
        let key = of.kind.number().map(|number| (source.process, number));
        let traced = key.filter(|_| matches!(of.kind, MarkerKind::Traced { .. }));
        let (is_remote, is_sender) = (
            placed.parent.is_some_and(|parent| parent.is_sender),
            traced.is_some_and(|key| self.index.is_sender(key)),
        );
        let mut message = Message::default();
        add_span_ref(placed.span, &mut message);
        if let Some(parent) = placed.parent {
            message.bytes(span::PARENT_ID, &parent.span.span.0);
        }
        message.bytes(
            span::NAME,
            marker_name(&of.marker, source.thread).as_bytes(),
        );
        message.number(
            span::KIND,
            match (is_remote, is_sender) {
                (true, _) => kind::SERVER,
                (false, true) => kind::CLIENT,
                (false, false) => kind::INTERNAL,
            },
        );
        let start = of.first();
        let end = of.end.unwrap_or(self.end_ns.max(start));
        message.fixed(span::START, self.vocabulary.clock().at(start));
        message.fixed(span::END, self.vocabulary.clock().at(end));
        let remote = if is_remote {
            flags::PARENT_IS_REMOTE
        } else {
            0
        };
        message.fixed_short(span::FLAGS, flags::SAMPLED | flags::KNOWS_PARENT | remote);
        self.parts(of, traced.is_some(), points, source)
            .write(&mut message);
        message
    }

    fn parts(
        &self,
        of: &ThreadSpan<'_>,
        is_traced: bool,
        points: &[usize],
        source: &Source<'_, '_>,
    ) -> SpanParts {
        let Source {
            thread,
            survey,
            process,
            spans,
        } = source;
        let mut parts = SpanParts::new(self.requests.most_of_item());
        parts.number("thread.id", thread.tid);
        parts.text("thread.name", thread.name);
        parts.text(
            "profiler.category",
            survey.meta.category(of.marker.category),
        );
        if let Some(state) = state(of) {
            parts.text(STATE, state);
        }
        parts.add_fields(&self.vocabulary, &of.marker, thread);
        if let Some(end) = &of.end_marker {
            parts.add_fields(&self.vocabulary, end, thread);
        }
        if let Some(number) = of.kind.number() {
            parts.number("profiler.span.number", number);
            self.index
                .parts((*process, number))
                .for_each(|part| parts.add(part.clone()));
        }
        for instant in points.iter().filter_map(|place| spans.instants.get(*place)) {
            let all = self.vocabulary.parts(instant, thread);
            all.into_iter().for_each(|part| parts.add(part));
        }
        if let Some(number) = of.kind.number().filter(|_| is_traced) {
            self.index
                .links((*process, number))
                .for_each(|link| parts.link(link));
        }
        parts
    }
}

/// Which end of a span is missing.
const fn state(of: &ThreadSpan<'_>) -> Option<&'static str> {
    match (of.start, of.end) {
        (Some(_), None) => Some("open"),
        (None, _) => Some("start unknown"),
        _ => None,
    }
}
