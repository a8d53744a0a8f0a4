//! Chrome's trace events: all processes with the names of their threads, their samples and their
//! markers.
//!
//! Called by [`super::export`]. The samples of a thread are a V8 sampling profile (`Profile`, then
//! `ProfileChunk` events); each chunk contains the new nodes of the call tree. Nodes are numbered
//! over all threads, because the Firefox Profiler merges nodes with the same number. Markers: see
//! [`markers`]. Times are microseconds on the system's monotonic clock.

mod markers;

use std::collections::{HashMap, HashSet};
use std::io::Write;

use profiler_json::JsonWriter;

use super::ExportError;
use super::call_frame::Scripts;
use super::call_tree::CallId;
use super::cpuprofile::Clock;
use super::recording::{Recording, Sink, Thread, Totals};
use super::slices::Slice;
use super::tree::{ThreadTree, line};
use profiler_files::output::too_long;
use profiler_reader::{Survey, TextField};

/// Samples per event.
const CHUNK: usize = 4096;
const PROFILER: &str = "disabled-by-default-v8.cpu_profiler";

/// Writes the file to `out`.
pub(super) fn write(recording: &Recording, out: impl Write) -> Result<Totals, ExportError> {
    let mut out = JsonWriter::new(out);
    out.begin_object();
    out.entry_str("displayTimeUnit", "ms");
    out.key("traceEvents");
    out.begin_array();
    let mut events = Events {
        out,
        clock: Clock::of(recording.survey()),
        scripts: Scripts::default(),
        tree: ThreadTree::default(),
        numbers: Numbers::default(),
        text_fields: recording.survey().meta.text_fields(),
        next_id: 1,
        nodes_before: 0,
    };
    let totals = recording.threads(&mut events);
    let mut out = events.out;
    out.end_array();
    out.end_object();
    out.finish()?; // the first error of the output
    totals
}

/// The process and thread of an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Track {
    pub(super) pid: u64,
    pub(super) tid: u64,
}

/// The writer of all events.
pub(super) struct Events<W: Write> {
    pub(super) out: JsonWriter<W>,
    pub(super) clock: Clock,
    scripts: Scripts,
    tree: ThreadTree,
    numbers: Numbers,
    pub(super) text_fields: HashMap<String, Vec<TextField>>,
    next_id: u64,
    /// Number of nodes of the threads written so far.
    nodes_before: u64,
}

impl<W: Write> Sink for Events<W> {
    const WITH_MARKERS: bool = true;

    fn thread(&mut self, thread: &Thread<'_>, survey: &Survey) -> Result<(), ExportError> {
        let (pid, is_new) = self.numbers.process(thread.pid);
        let tid = self.numbers.thread(pid, thread.tid);
        let track = Track { pid, tid };
        if is_new {
            self.name(track, "process_name", thread.process);
        }
        self.name(track, "thread_name", thread.name);
        if !thread.slices.is_empty() {
            self.samples(track, thread);
        }
        markers::write(self, track, thread, survey);
        // The remaining threads are not read.
        if self.out.is_failed() {
            Err(too_long().into())
        } else {
            Ok(())
        }
    }
}

impl<W: Write> Events<W> {
    fn name(&mut self, track: Track, what: &str, name: &str) {
        self.begin(track, "M", what, "__metadata", None);
        self.out.key("args");
        self.out.begin_object();
        self.out.entry_str("name", name);
        self.out.end_object();
        self.out.end_object();
    }

    /// Begins an event; the caller adds further fields and ends the object.
    pub(super) fn begin(
        &mut self,
        track: Track,
        phase: &str,
        name: &str,
        category: &str,
        us: Option<f64>,
    ) {
        self.out.begin_object();
        self.out.entry_str("name", name);
        self.out.entry_str("cat", category);
        self.out.entry_str("ph", phase);
        self.out.entry_u64("pid", track.pid);
        self.out.entry_u64("tid", track.tid);
        self.out.key("ts");
        self.out.f64(us.unwrap_or(0.0));
    }

    /// Returns an id that no other event has.
    pub(super) fn id(&mut self) -> String {
        self.next_id += 1;
        format!("{:#x}", self.next_id)
    }

    fn samples(&mut self, track: Track, thread: &Thread<'_>) {
        let id = self.id();
        let start = thread
            .slices
            .first()
            .map_or(0, |slice| self.clock.us(slice.start));
        self.begin(track, "P", "Profile", PROFILER, Some(start as f64));
        self.out.entry_str("id", &id);
        self.begin_data();
        self.out.key("startTime");
        self.out.i64(start);
        self.end_data();
        self.scripts.begin(thread);
        self.tree.begin(thread.tables);
        let mut written = 0;
        let mut before = start;
        let last = thread.slices.len().div_ceil(CHUNK);
        for (number, slices) in thread.slices.chunks(CHUNK).enumerate() {
            self.begin(track, "P", "ProfileChunk", PROFILER, Some(before as f64));
            self.out.entry_str("id", &id);
            self.begin_data();
            written = self.profile(thread, slices, written);
            before = self.deltas(slices, before);
            if let Some(end) = slices.last().filter(|_| number + 1 == last) {
                let end = self.clock.us(end.end);
                self.out.key("endTime");
                self.out.i64(end);
            }
            self.end_data();
        }
        self.nodes_before += written as u64;
    }

    fn begin_data(&mut self) {
        self.out.key("args");
        self.out.begin_object();
        self.out.key("data");
        self.out.begin_object();
    }

    fn end_data(&mut self) {
        self.out.end_object();
        self.out.end_object();
        self.out.end_object();
    }

    /// Writes samples and their new nodes. Returns the number of nodes written so far.
    fn profile(&mut self, thread: &Thread<'_>, slices: &[Slice], written: usize) -> usize {
        let places = slices
            .iter()
            .map(|slice| self.tree.place(thread.tables, slice));
        let places: Vec<CallId> = places.collect();
        self.out.key("cpuProfile");
        self.out.begin_object();
        self.out.key("nodes");
        self.out.begin_array();
        let mut count = written;
        let before = self.nodes_before;
        let number = |id: CallId| before + u64::from(id.number());
        for (id, node) in self.tree.calls.nodes().skip(written) {
            if self.out.is_failed() {
                break;
            }
            self.out.begin_object();
            self.out.entry_u64("id", number(id));
            if let Some(caller) = node.caller {
                self.out.entry_u64("parent", number(caller));
            }
            self.scripts.write(thread.tables, node.func, &mut self.out);
            self.out.end_object();
            count += 1;
        }
        self.out.end_array();
        self.out.key("samples");
        self.out.begin_array();
        places.iter().for_each(|id| self.out.u64(number(*id)));
        self.out.end_array();
        self.out.end_object();
        self.out.key("lines");
        self.out.begin_array();
        for slice in slices {
            let line = line(thread.tables, slice).unwrap_or(0);
            self.out.u64(u64::from(line));
        }
        self.out.end_array();
        count
    }

    fn deltas(&mut self, slices: &[Slice], mut before: i64) -> i64 {
        self.out.key("timeDeltas");
        self.out.begin_array();
        for slice in slices {
            let at = self.clock.us(slice.start);
            self.out.i64(at - before);
            before = at;
        }
        self.out.end_array();
        before
    }
}

/// The ids of processes and threads in the trace: the system's ids, if they are free.
#[derive(Debug, Default)]
struct Numbers {
    processes: HashMap<String, u64>,
    taken: HashSet<u64>,
    threads: HashSet<(u64, u64)>,
    /// The next id to try, by process id, and by process id and thread id of the file. They shorten
    /// the search, because a file may repeat an id thousands of times.
    next_process: HashMap<u64, u64>,
    next_thread: HashMap<(u64, u64), u64>,
}

/// The step to the next id if an id is taken. Larger than every process id of a system.
const ID_STEP: u64 = 1 << 24;

impl Numbers {
    /// The id of a process, and whether it is new.
    fn process(&mut self, pid: &str) -> (u64, bool) {
        if let Some(known) = self.processes.get(pid) {
            return (*known, false);
        }
        let digits = pid.split('.').next().unwrap_or_default();
        let first = digits.parse().unwrap_or(0_u64) % ID_STEP;
        let next = self.next_process.entry(first).or_insert(first);
        while !self.taken.insert(*next) {
            *next += ID_STEP;
        }
        self.processes.insert(pid.to_owned(), *next);
        (*next, true)
    }

    /// The id of a further thread.
    fn thread(&mut self, pid: u64, tid: u64) -> u64 {
        let first = tid % (1 << 48);
        let next = self.next_thread.entry((pid, first)).or_insert(first);
        while !self.threads.insert((pid, *next)) {
            *next += ID_STEP;
        }
        *next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_and_threads_with_equal_ids_get_different_ids() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.process("12"), (12, true));
        assert_eq!(numbers.process("12.1"), (12 + ID_STEP, true));
        assert_eq!(numbers.process("12"), (12, false));
        assert_eq!(
            [
                numbers.thread(12, 5),
                numbers.thread(12, 5),
                numbers.thread(13, 5)
            ],
            [5, 5 + ID_STEP, 5]
        );
    }
}
