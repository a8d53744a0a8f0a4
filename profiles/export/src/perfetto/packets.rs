//! Writes packets: one sequence with its defaults.
//!
//! Used by all parts of [`super`]. A trace is a list of packets, each behind the number of its
//! field and its length. Invariants: the first packet begins the sequence's state; every later
//! packet depends on it; interned data is in the packet that uses it first, or before.

use std::io::{self, BufWriter, Write};

use super::super::proto::Message;
use super::clock::TraceClock;
use profiler_reader::Meta;

/// Size of the buffer before the file.
const BUFFER: usize = 64 * 1024;
/// The field of `Trace`.
const PACKET: u64 = 1;
/// The number of the sequence.
const SEQUENCE: u64 = 1;
/// Values of `sequence_flags`.
const STATE_CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;

/// Fields of `TracePacket`.
mod field {
    pub(super) const CLOCK_SNAPSHOT: u64 = 6;
    pub(super) const TIMESTAMP: u64 = 8;
    pub(super) const SEQUENCE_ID: u64 = 10;
    pub(super) const INTERNED_DATA: u64 = 12;
    pub(super) const SEQUENCE_FLAGS: u64 = 13;
    pub(super) const DEFAULTS: u64 = 59;
    pub(super) const FIRST_PACKET: u64 = 87;
}

/// The content of a packet, as its field of `TracePacket`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    ProcessTree = 2,
    TrackEvent = 11,
    TrackDescriptor = 60,
    PerfSample = 66,
}

/// Fields of `TracePacketDefaults`, and of the messages in it.
mod default {
    pub(super) const CLOCK_ID: u64 = 58;
    pub(super) const PERF_SAMPLE: u64 = 12;
    pub(super) const TIMEBASE: u64 = 1;
    pub(super) const FREQUENCY: u64 = 2;
    pub(super) const COUNTER: u64 = 4;
    /// `SW_CPU_CLOCK`: samples are taken by a clock.
    pub(super) const CPU_CLOCK: u64 = 1;
}

/// The writer of packets.
pub(super) struct Packets<W: Write> {
    out: BufWriter<W>,
    clock: TraceClock,
    /// The message `TracePacketDefaults`.
    defaults: Message,
    packet: Message,
    framed: Message,
}

impl<W: Write> Packets<W> {
    /// Begins a trace with its clock and its defaults.
    pub(super) fn begin(out: W, meta: &Meta) -> io::Result<Self> {
        let clock = TraceClock::of(meta);
        let mut packets = Self {
            out: BufWriter::with_capacity(BUFFER, out),
            clock,
            defaults: defaults(clock, meta),
            packet: Message::default(),
            framed: Message::default(),
        };
        packets.packet.number(field::FIRST_PACKET, 1);
        packets.clear_state()?;
        packets.start(NEEDS_STATE);
        let snapshot = clock.snapshot();
        packets.packet.message(field::CLOCK_SNAPSHOT, &snapshot);
        packets.end()?;
        Ok(packets)
    }

    /// Clears the sequence's state: its interned data ends here.
    pub(super) fn clear_state(&mut self) -> io::Result<()> {
        self.start(STATE_CLEARED);
        self.packet.message(field::DEFAULTS, &self.defaults);
        self.end()
    }

    /// Writes a packet without a time.
    pub(super) fn write(&mut self, content: Content, body: &Message) -> io::Result<()> {
        self.start(NEEDS_STATE);
        self.packet.message(content as u64, body);
        self.end()
    }

    /// Writes a packet at a time in nanoseconds since the session's start, with the interned data
    /// that it is the first to use. Removes the data from `interned`.
    pub(super) fn write_at(
        &mut self,
        at_ns: i64,
        content: Content,
        body: &Message,
        interned: &mut Message,
    ) -> io::Result<()> {
        self.start(NEEDS_STATE);
        let at = self.clock.at(at_ns);
        self.packet.any_number(field::TIMESTAMP, at);
        if !interned.is_empty() {
            self.packet.message(field::INTERNED_DATA, interned);
            interned.clear();
        }
        self.packet.message(content as u64, body);
        self.end()
    }

    /// The time on the trace's clock of nanoseconds since the session's start.
    pub(super) const fn time(&self, at_ns: i64) -> u64 {
        self.clock.at(at_ns)
    }

    /// Writes what is buffered.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn start(&mut self, flags: u64) {
        self.packet.number(field::SEQUENCE_ID, SEQUENCE);
        self.packet.number(field::SEQUENCE_FLAGS, flags);
    }

    fn end(&mut self) -> io::Result<()> {
        self.framed.clear();
        self.framed.message(PACKET, &self.packet);
        self.packet.clear();
        self.out.write_all(self.framed.as_bytes())
    }
}

/// The message `TracePacketDefaults`.
fn defaults(clock: TraceClock, meta: &Meta) -> Message {
    let mut timebase = Message::default();
    let hertz = 1_000_000_000 / meta.interval_ns().max(1);
    timebase.number(default::FREQUENCY, hertz.unsigned_abs().max(1));
    timebase.number(default::COUNTER, default::CPU_CLOCK);
    let mut perf_sample = Message::default();
    perf_sample.message(default::TIMEBASE, &timebase);
    let mut defaults = Message::default();
    defaults.number(default::CLOCK_ID, clock.id);
    defaults.message(default::PERF_SAMPLE, &perf_sample);
    defaults
}
