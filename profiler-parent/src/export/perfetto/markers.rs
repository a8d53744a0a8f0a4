//! The markers of a thread.
//!
//! Called by [`super`] for each thread. Intervals that nest are slices of the thread's track. The
//! others are slices of further tracks with their name below it, as are spans that have not ended:
//! these stay open to the end of the trace. Starts and ends that were recorded separately are one
//! slice; they are paired by their span number, or by name, the latest start first. An end without
//! a start is an instant. Memory: the markers of one thread.

use std::collections::HashMap;
use std::io::{self, Write};

use super::super::ExportError;
use super::super::nesting::{Span, in_order, nesting};
use super::super::payload::Payload;
use super::super::proto::Message;
use super::super::recording::Thread;
use super::super::slices::bounded_ns;
use super::Trace;
use super::annotations::{add_payload, add_text};
use super::interned::NameKind;
use super::lanes::Lanes;
use super::packets::Content;
use super::tracks::{ThreadTrack, TrackId, described, descriptor};
use crate::reading::{Flow, RawMarker, Survey, as_index};

/// Fields and types of a `TrackEvent`.
pub(super) mod event {
    use super::super::super::proto::Message;
    use super::TrackId;

    pub(in super::super) const CATEGORY_IID: u64 = 3;
    pub(in super::super) const TYPE: u64 = 9;
    pub(in super::super) const NAME_IID: u64 = 10;
    pub(in super::super) const TRACK: u64 = 11;
    pub(in super::super) const CATEGORY: u64 = 22;
    pub(in super::super) const NAME: u64 = 23;
    pub(in super::super) const VALUE: u64 = 30;
    pub(in super::super) const VALUE_WITH_FRACTION: u64 = 44;
    pub(in super::super) const FLOWS: u64 = 47;
    pub(in super::super) const ENDING_FLOWS: u64 = 48;
    pub(in super::super) const CALLSTACK: u64 = 56;

    pub(in super::super) const BEGIN: u64 = 1;
    pub(in super::super) const END: u64 = 2;
    pub(in super::super) const INSTANT: u64 = 3;
    pub(in super::super) const COUNTER: u64 = 4;

    /// An event of this type on a track.
    pub(in super::super) fn new(kind: u64, track: TrackId) -> Message {
        let mut event = Message::default();
        event.number(TYPE, kind);
        event.number(TRACK, track.0);
        event
    }
}

/// A slice or an instant of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shown {
    start: i64,
    /// The end of an interval.
    end: End,
    /// The marker with its name.
    marker: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// A point in time.
    Instant,
    /// An end whose start is missing.
    WithoutStart,
    /// An interval of one marker.
    At(i64),
    /// An interval whose end is another marker.
    Marker(i64, usize),
    /// An interval that has not ended.
    Open,
}

impl End {
    const fn time(self) -> Option<i64> {
        match self {
            Self::At(end) | Self::Marker(end, _) => Some(end),
            Self::Instant | Self::WithoutStart | Self::Open => None,
        }
    }
}

/// Writes the markers of a thread.
pub(super) fn write<W: Write>(
    trace: &mut Trace<W>,
    track: ThreadTrack,
    thread: &Thread<'_>,
    survey: &Survey,
) -> Result<(), ExportError> {
    let markers: Vec<RawMarker<'_>> = thread.markers.iter().collect();
    let shown = shown(&markers, thread.shift_ns);
    let mut writer = Writer {
        trace,
        track,
        thread,
        survey,
        markers: &markers,
    };
    let is_instant = |end: End| matches!(end, End::Instant | End::WithoutStart);
    for one in shown.iter().filter(|one| is_instant(one.end)) {
        writer.begin(one, event::INSTANT, track.track)?;
    }
    let spans = shown.iter().zip(0..).filter(|(one, _)| !is_instant(one.end));
    // An interval that has not ended never nests: the ends of others would end it.
    let order = in_order(spans.map(|(one, at)| (one.start, one.end.time().unwrap_or(i64::MAX), at)));
    let is_closed = |(_, _, at): &&Span| shown.get(*at).is_some_and(|one| one.end != End::Open);
    let closed: Vec<Span> = order.iter().filter(is_closed).copied().collect();
    let nests = nesting(&closed);
    let mut others: Vec<Span> = order.iter().filter(|one| !is_closed(one)).copied().collect();
    let flat = closed.iter().zip(&nests).filter(|(_, nests)| !**nests);
    others.extend(flat.map(|(span, _)| *span));
    let nested = closed.iter().zip(&nests).filter(|(_, nests)| **nests);
    writer.nested(nested.filter_map(|((_, _, at), _)| shown.get(*at)))?;
    let others = in_order(others);
    writer.others(others.iter().filter_map(|(_, _, at)| shown.get(*at)))?;
    Ok(())
}

/// What is shown for the markers of a thread, in no particular order. A marker without a time is
/// not shown.
fn shown(markers: &[RawMarker<'_>], shift_ns: i64) -> Vec<Shown> {
    let time = |ms: f64| {
        ms.is_finite()
            .then(|| bounded_ns(ms).saturating_add(shift_ns))
    };
    let mut shown = Vec::with_capacity(markers.len());
    let mut halves = Vec::new();
    for (at, marker) in markers.iter().enumerate() {
        let one = |start, end| Shown {
            start,
            end,
            marker: at,
        };
        match (as_index(marker.phase), time(marker.start), time(marker.end)) {
            (Some(1), Some(start), Some(end)) => shown.push(one(start, End::At(end.max(start)))),
            (Some(1 | 2), Some(start), None) | (Some(2), Some(start), Some(_)) => {
                halves.push(one(start, End::Open));
            }
            (Some(3), _, Some(end)) | (Some(1), None, Some(end)) => {
                halves.push(one(end, End::WithoutStart));
            }
            (_, Some(start), _) => shown.push(one(start, End::Instant)),
            (_, None, Some(_) | None) => {}
        }
    }
    pair(halves, markers, &mut shown);
    shown
}

/// Pairs starts with ends, and adds the pairs and what is left over.
fn pair(mut halves: Vec<Shown>, markers: &[RawMarker<'_>], shown: &mut Vec<Shown>) {
    let is_end = |half: &Shown| half.end == End::WithoutStart;
    halves.sort_by_key(|half| (half.start, is_end(half), half.marker));
    let mut open: HashMap<(u64, Option<u64>), Vec<Shown>> = HashMap::new();
    for half in halves {
        let Some(marker) = markers.get(half.marker) else {
            continue;
        };
        let of_name = open.entry((marker.name.to_bits(), marker.span())).or_default();
        if !is_end(&half) {
            of_name.push(half);
            continue;
        }
        shown.push(match of_name.pop() {
            Some(start) => Shown {
                end: End::Marker(half.start, half.marker),
                ..start
            },
            None => half,
        });
    }
    let rest = shown.len();
    shown.extend(open.into_values().flatten());
    // Independent of the order of the table.
    if let Some(rest) = shown.get_mut(rest..) {
        rest.sort_by_key(|half| half.marker);
    }
}

/// Writes the events of one thread.
struct Writer<'w, 't, W: Write> {
    trace: &'w mut Trace<W>,
    track: ThreadTrack,
    thread: &'w Thread<'t>,
    survey: &'w Survey,
    markers: &'w [RawMarker<'t>],
}

impl<W: Write> Writer<'_, '_, W> {
    /// Writes nested intervals, in the order in which they begin: an end comes before everything
    /// that begins at the same time.
    fn nested<'s>(&mut self, intervals: impl Iterator<Item = &'s Shown>) -> io::Result<()> {
        let track = self.track.track;
        let mut open: Vec<&Shown> = Vec::new();
        for interval in intervals {
            let has_ended = |outer: &&Shown| outer.end.time().is_some_and(|it| it <= interval.start);
            while let Some(ended) = open.pop_if(|outer| has_ended(&&**outer)) {
                self.end(ended, track)?;
            }
            self.begin(interval, event::BEGIN, track)?;
            open.push(interval);
        }
        while let Some(ended) = open.pop() {
            self.end(ended, track)?;
        }
        Ok(())
    }

    /// Writes intervals that do not nest, in the order in which they begin: those of a name share
    /// tracks as far as they do not overlap.
    fn others<'s>(&mut self, intervals: impl Iterator<Item = &'s Shown>) -> io::Result<()> {
        let mut lanes: HashMap<u64, Lanes> = HashMap::new();
        for interval in intervals {
            let name = self.markers.get(interval.marker).map_or(f64::NAN, |it| it.name);
            let of_name = lanes.entry(name.to_bits()).or_default();
            let end = interval.end.time();
            let track = of_name.track(interval.start, end, || self.lane(name))?;
            self.begin(interval, event::BEGIN, track)?;
            self.end(interval, track)?;
        }
        Ok(())
    }

    /// A new track below that of the thread.
    fn lane(&mut self, name: f64) -> io::Result<TrackId> {
        let track = self.trace.tracks.next();
        let mut body = described(track, Some(self.track.track));
        let name = as_index(name).and_then(|name| self.thread.texts.get(name));
        body.bytes(descriptor::NAME, name.map_or("", String::as_str).as_bytes());
        self.trace.packets.write(Content::TrackDescriptor, &body)?;
        Ok(track)
    }

    /// Writes the event with which a slice or an instant begins.
    fn begin(&mut self, one: &Shown, kind: u64, track: TrackId) -> io::Result<()> {
        let Some(marker) = self.markers.get(one.marker).copied() else {
            return Ok(());
        };
        let interned = &mut self.trace.interned;
        let mut event = event::new(kind, track);
        let name = as_index(marker.name).and_then(|row| interned.event_name(row, self.thread.texts));
        event.number(event::NAME_IID, name.unwrap_or(0));
        let category = self.survey.meta.category(marker.category);
        match interned.name(NameKind::Category, category) {
            Some(iid) => event.number(event::CATEGORY_IID, iid),
            None => event.bytes(event::CATEGORY, category.as_bytes()),
        }
        if one.end == End::WithoutStart {
            add_text("phase", "end without start", &mut event);
        }
        self.payload(marker, &mut event);
        self.write(one.start, &event)
    }

    /// Writes the event with which a slice ends. An interval that has not ended has none.
    fn end(&mut self, one: &Shown, track: TrackId) -> io::Result<()> {
        let Some(at) = one.end.time() else {
            return Ok(());
        };
        let mut event = event::new(event::END, track);
        if let End::Marker(_, marker) = one.end {
            if let Some(marker) = self.markers.get(marker).copied() {
                self.payload(marker, &mut event);
            }
        }
        self.write(at, &event)
    }

    /// Adds the fields, the flows and the stack of a marker.
    fn payload(&mut self, marker: RawMarker<'_>, event: &mut Message) {
        let payload = Payload::of(marker.data, &self.trace.text_fields, self.thread.texts);
        for (flow, kind) in payload.flows() {
            let field = match kind {
                Flow::Goes => event::FLOWS,
                Flow::Ends => event::ENDING_FLOWS,
            };
            event.fixed(field, flow_number(flow));
        }
        let shared = (!self.thread.has_own_tables).then_some(self.thread.tables);
        if let Some((stack, tables)) = payload.stack().zip(shared) {
            let stack = self.trace.interned.stack(Some(stack), tables);
            event.number(event::CALLSTACK, stack);
        }
        add_payload(&payload, &mut self.trace.interned, event);
    }

    fn write(&mut self, at: i64, event: &Message) -> io::Result<()> {
        let new = &mut self.trace.interned.new;
        self.trace.packets.write_at(at, Content::TrackEvent, event, new)
    }
}

/// The number of a flow: a hexadecimal number as it is, and the hash of another text (FNV-1a).
fn flow_number(flow: &str) -> u64 {
    u64::from_str_radix(flow, 16).unwrap_or_else(|_| {
        flow.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    })
}
