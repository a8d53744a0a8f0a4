//! The samples of a thread, and how much of a processor the thread used.
//!
//! Called by [`super`] for each thread. A sample is a `PerfSample`, which Perfetto counts. A sample
//! of a thread that did not run has the stack `(idle)`, as in the other formats. The processor use
//! is a counter of the thread in percent; a value holds from one sample to the next.

use std::io::{self, Write};

use super::super::proto::Message;
use super::super::recording::Thread;
use super::super::slices::Slice;
use super::Trace;
use super::counters::{Unit, counter_track, counter_value};
use super::packets::Content;
use super::tracks::ThreadTrack;
use profiler_reader::Survey;

/// Fields of `PerfSample`.
mod field {
    pub(super) const PID: u64 = 2;
    pub(super) const TID: u64 = 3;
    pub(super) const CALLSTACK: u64 = 4;
    pub(super) const MODE: u64 = 5;
    /// `MODE_USER`.
    pub(super) const USER: u64 = 2;
}

/// The name of the counter of the processor use.
const CPU: &str = "CPU";

/// Writes the samples of a thread.
pub(super) fn write<W: Write>(
    trace: &mut Trace<W>,
    track: ThreadTrack,
    thread: &Thread<'_>,
    survey: &Survey,
) -> io::Result<()> {
    let Trace {
        packets, interned, ..
    } = trace;
    let mut sample = Message::default();
    for slice in thread.slices.iter().filter(|slice| slice.is_sample) {
        let stack = if slice.is_idle {
            interned.idle()
        } else {
            interned.stack(slice.stack, thread.tables)
        };
        sample.clear();
        sample.number(field::PID, u64::from(track.pid));
        sample.number(field::TID, u64::from(track.tid));
        sample.number(field::CALLSTACK, stack);
        sample.number(field::MODE, field::USER);
        packets.write_at(slice.at, Content::PerfSample, &sample, &mut interned.new)?;
    }
    if survey.meta.cpu_unit_ns().is_some() && !thread.slices.is_empty() {
        write_cpu(trace, track, thread.slices)?;
    }
    Ok(())
}

/// Writes the processor use between samples. A value that is that of the time before is not
/// repeated.
fn write_cpu<W: Write>(
    trace: &mut Trace<W>,
    thread: ThreadTrack,
    slices: &[Slice],
) -> io::Result<()> {
    let track = trace.tracks.next();
    let unit = Unit::named("%");
    counter_track(track, thread.track, CPU, "", unit, &mut trace.packets)?;
    let mut nothing = Message::default();
    let mut before = None;
    let starts = slices.iter().map(|slice| (slice.start, Some(slice)));
    let end = slices.last().map(|slice| (slice.end, None));
    for (at, slice) in starts.chain(end) {
        let percent = slice.map_or(0.0, percent);
        if before.replace(percent) != Some(percent) {
            let event = counter_value(track, percent);
            let packets = &mut trace.packets;
            packets.write_at(at, Content::TrackEvent, &event, &mut nothing)?;
        }
    }
    Ok(())
}

/// The processor time of a slice, in percent of its length.
fn percent(slice: &Slice) -> f64 {
    if slice.length() == 0 {
        return 0.0;
    }
    slice.cpu as f64 * 100.0 / slice.length() as f64
}
