//! The identifiers of the spans of one thread, and their parents.
//!
//! Used by traces, and by profiles, whose samples refer to spans.

use super::identity::SpanRef;
use super::kinds::{MarkerKind, application_span};
use super::span_index::{Parent, ProcessIndex, SpanIndex, numbered};
use super::thread_spans::{ThreadSpan, ThreadSpans};

/// A span with its parent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) span: SpanRef,
    pub(super) parent: Option<Parent>,
}

/// The spans of a thread, in the order of [`ThreadSpans::spans`]. The entry of a poll is that of
/// its span.
pub(super) fn placed(
    spans: &ThreadSpans<'_>,
    index: &SpanIndex,
    process: ProcessIndex,
    tid: u64,
) -> Vec<Option<Placed>> {
    let mut all: Vec<Option<Placed>> = vec![None; spans.spans.len()];
    // A span comes after those that contain it.
    for place in &spans.order {
        let Some(span) = spans.spans.get(*place) else {
            continue;
        };
        let known = match span.kind {
            MarkerKind::Traced { number, .. } | MarkerKind::Poll { number } => Placed {
                span: index.span((process, number)),
                parent: index.parent((process, number)),
            },
            MarkerKind::Context { span: None } => continue,
            MarkerKind::Context { span: Some(of) } => Placed {
                span: of,
                parent: None,
            },
            _ => {
                let above = span.within.and_then(|within| *all.get(within)?);
                of_place(span, above.map(|above| above.span), index, process, tid)
            }
        };
        all.iter_mut()
            .skip(*place)
            .take(1)
            .for_each(|entry| *entry = Some(known));
    }
    all
}

/// A span whose parent is what contains it, or else the application's own span.
fn of_place(
    span: &ThreadSpan<'_>,
    above: Option<SpanRef>,
    index: &SpanIndex,
    process: ProcessIndex,
    tid: u64,
) -> Placed {
    let session = index.session();
    let name = index.name(process);
    let (interval, number);
    let place: &[u64] = match span.kind {
        MarkerKind::Plain { number: of_span } => {
            number = numbered(of_span);
            &number
        }
        _ => {
            interval = [1, tid, span.first().cast_unsigned(), span.row as u64];
            &interval
        }
    };
    let above = above.or_else(|| application_span(&span.marker));
    Placed {
        span: SpanRef {
            trace: above.map_or_else(|| session.trace(name, place), |above| above.trace),
            span: session.span(name, place),
        },
        parent: above.map(|span| Parent {
            span,
            is_sender: false,
        }),
    }
}
