//! The markers of a thread.
//!
//! Called by [`super`] for each thread. Intervals that nest are slices of the thread's track. The
//! others are slices of further tracks with their name below it, as are spans that have not ended:
//! these stay open to the end of the trace. An end without a start is an instant. Memory: the
//! markers of one thread.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};

use super::super::ExportError;
use super::super::payload::Payload;
use super::super::proto::Message;
use super::super::recording::Thread;
use super::Trace;
use super::annotations::{add_payload, add_text};
use super::descriptor;
use super::event;
use super::interned::NameKind;
use super::lanes::Lanes;
use super::packets::Content;
use super::spans::{End, Shown, shown, split};
use super::tracks::{ThreadTrack, TrackId};
use profiler_reader::{Flow, RawMarker, Survey, as_index};

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
    let (spans, points): (Vec<Shown>, Vec<Shown>) =
        shown.into_iter().partition(|one| one.end.is_span());
    for point in &points {
        writer.begin(point, event::INSTANT, track.track)?;
    }
    let [nested, others] = split(&spans);
    writer.nested(&nested)?;
    writer.others(&others)?;
    Ok(())
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
    fn nested(&mut self, intervals: &[Shown]) -> io::Result<()> {
        let track = self.track.track;
        let mut open: Vec<&Shown> = Vec::new();
        for interval in intervals {
            let has_ended = |outer: &mut &Shown| outer.end.time() <= Some(interval.start);
            while let Some(ended) = open.pop_if(has_ended) {
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
    fn others(&mut self, intervals: &[Shown]) -> io::Result<()> {
        let mut lanes: HashMap<u64, Lanes> = HashMap::new();
        for interval in intervals {
            let name = self
                .markers
                .get(interval.marker)
                .map_or(f64::NAN, |it| it.name);
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
        let name = as_index(name).and_then(|name| self.thread.texts.get(name));
        let name = name.map_or("", String::as_str);
        let body = descriptor::named(track, self.track.track, name);
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
        let name =
            as_index(marker.name).and_then(|row| interned.event_name(row, self.thread.texts));
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
        if let End::Marker(_, marker) = one.end
            && let Some(marker) = self.markers.get(marker).copied()
        {
            self.payload(marker, &mut event);
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
        self.trace
            .packets
            .write_at(at, Content::TrackEvent, event, new)
    }
}

/// The number of a flow: a hexadecimal number as it is, and the hash of another text.
fn flow_number(flow: &str) -> u64 {
    u64::from_str_radix(flow, 16).unwrap_or_else(|_| {
        let mut hasher = DefaultHasher::new();
        flow.hash(&mut hasher);
        hasher.finish()
    })
}
