//! Perfetto's format: a trace of packets (`TracePacket`), each a small protocol buffer.
//!
//! Called by [`super::export`]. All packets are one sequence, whose interned data ([`interned`])
//! begins anew at each thread with tables of its own. The order of the packets is that of the
//! profile: Perfetto sorts by time, and keeps the order of packets with the same time.
//!
//! | data | packets |
//! |---|---|
//! | session | `ClockSnapshot`: the trace's clock and the time of day |
//! | processes, threads | `ProcessTree`, and a track each ([`tracks`]) |
//! | programs of a process, with verdicts on their data | slices of the process ([`verdicts`]) |
//! | samples | `PerfSample`, with an interned stack; a counter of the processor use ([`samples`]) |
//! | markers | slices, instants, flows ([`markers`], [`spans`]), typed fields ([`annotations`]) |
//! | counters | counter tracks of the process ([`counters`]) |
//!
//! A sample is one `PerfSample` at its time: Perfetto counts samples and does not weigh them, so
//! a sample after a long gap counts once. Its other format for samples,
//! `StreamingProfilePacket`, has times in microseconds, and needs a sequence with its own interned
//! data for each thread. Not exported: the cost of the sampler, pauses.

mod annotations;
mod clock;
mod counters;
mod descriptor;
mod event;
mod interned;
mod lanes;
mod libraries;
mod markers;
mod numbers;
mod packets;
mod samples;
mod spans;
mod tracks;
mod verdicts;

use std::collections::HashMap;
use std::io::Write;

use super::ExportError;
use super::recording::{Recording, Sink, Thread, Totals};
use interned::Interned;
use packets::Packets;
use profiler_reader::{CounterSeries, Survey, TextField};
use tracks::Tracks;

/// Writes the file to `out`.
pub(super) fn write(recording: &Recording, out: impl Write) -> Result<Totals, ExportError> {
    let survey = recording.survey();
    let mut trace = Trace {
        packets: Packets::begin(out, &survey.meta)?,
        tracks: Tracks::default(),
        interned: Interned::default(),
        text_fields: survey.meta.text_fields(),
    };
    verdicts::write(&mut trace, survey)?;
    let totals = recording.threads(&mut trace)?;
    trace.tracks.declare_rest(&mut trace.packets, survey)?;
    trace.packets.finish()?;
    Ok(totals)
}

/// The writer of a trace.
struct Trace<W: Write> {
    packets: Packets<W>,
    tracks: Tracks,
    interned: Interned,
    text_fields: HashMap<String, Vec<TextField>>,
}

impl<W: Write> Sink for Trace<W> {
    const WITH_MARKERS: bool = true;
    const WITH_COUNTERS: bool = true;

    fn thread(&mut self, thread: &Thread<'_>, survey: &Survey) -> Result<(), ExportError> {
        let track = self.tracks.thread(thread, &mut self.packets)?;
        if self.interned.begin(thread, survey) {
            self.packets.clear_state()?;
        }
        samples::write(self, track, thread, survey)?;
        markers::write(self, track, thread, survey)?;
        Ok(())
    }

    fn counter(
        &mut self,
        counter: &CounterSeries,
        shift_ns: i64,
        survey: &Survey,
    ) -> Result<(), ExportError> {
        Ok(counters::write(self, counter, shift_ns, survey)?)
    }
}
