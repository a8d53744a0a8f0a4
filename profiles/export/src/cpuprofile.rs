//! `.cpuprofile`: V8's `Profiler.Profile`, one file for each thread with samples, and an index.
//!
//! Called by [`super::export`]. In viewers a sample lasts until the next one, so each sample is
//! written with the start time of its slice. All times are whole microseconds on the system's
//! monotonic clock; each time is rounded separately, so differences add up exactly.

use std::io::Write;
use std::path::{Path, PathBuf};

use profiler_json::JsonWriter;

use super::call_frame::Scripts;
use super::call_tree::CallId;
use super::file_name::FileNames;
use super::index::{self, Listed};
use super::recording::{Recording, Sink, Thread, Totals};
use super::tree::{ThreadTree, Ticks};
use super::{ExportError, TimeKind};
use profiler_files::output::{BoundedWriter, CommitBehind, ProfileFile};
use profiler_reader::Survey;

/// Name of the index.
const INDEX: &str = "index.json";

/// Writes the files of all threads, then the index.
pub(super) fn write(
    recording: &Recording,
    to: &Path,
    time: TimeKind,
) -> Result<(Totals, Vec<PathBuf>), ExportError> {
    std::fs::create_dir_all(to)?;
    let mut files = Files {
        directory: to,
        names: FileNames::default(),
        scripts: Scripts::default(),
        tree: ThreadTree::default(),
        commits: CommitBehind::start(),
        all: Vec::new(),
        left: recording.most_bytes(),
    };
    let totals = recording.threads(&mut files)?;
    files.commits.finish()?;
    let path = to.join(INDEX);
    let mut file = ProfileFile::create(&path)?;
    let mut out = JsonWriter::new(&mut file);
    index::write(&files.all, recording.survey(), time, &mut out);
    out.finish()?;
    file.commit()?;
    let all = files.all.iter().map(|listed| to.join(&listed.file));
    Ok((totals, std::iter::once(path).chain(all).collect()))
}

struct Files<'d> {
    directory: &'d Path,
    names: FileNames,
    scripts: Scripts,
    tree: ThreadTree,
    commits: CommitBehind,
    all: Vec<Listed>,
    /// Remaining bytes for all files.
    left: u64,
}

impl Sink for Files<'_> {
    fn thread(&mut self, thread: &Thread<'_>, survey: &Survey) -> Result<(), ExportError> {
        if thread.slices.is_empty() {
            return Ok(());
        }
        let name = self.names.name(thread);
        let mut file = ProfileFile::create(self.directory.join(&name))?;
        let mut out = JsonWriter::new(BoundedWriter::new(&mut file, self.left));
        let clock = Clock::of(survey);
        self.scripts.begin(thread);
        self.tree.begin(thread.tables);
        let times = write_thread(thread, clock, &mut self.tree, &mut self.scripts, &mut out);
        self.left = out.finish()?.left();
        self.commits.commit(file)?;
        self.all.push(Listed::new(thread, name, times));
        Ok(())
    }
}

/// Limit on the time between the system's start and the session's start, in nanoseconds (146
/// years), so that adding session times does not overflow.
const MAX_NS: i64 = 1 << 62;

/// The clock of V8's formats: microseconds since the system's start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start_ns: i64,
}

impl Clock {
    pub(super) fn of(survey: &Survey) -> Self {
        let start_ns = survey.meta.start_monotonic_ns.map_or(0, |ns| ns as i64);
        Self {
            start_ns: start_ns.clamp(-MAX_NS, MAX_NS),
        }
    }

    /// Converts nanoseconds since the session's start to whole microseconds of this clock.
    pub(super) const fn us(self, ns: i64) -> i64 {
        self.start_ns.saturating_add(ns).div_euclid(1000)
    }

    /// Converts like [`Self::us`], to microseconds with a fraction.
    pub(super) fn us_exact(self, ns: i64) -> f64 {
        let ns = self.start_ns.saturating_add(ns);
        ns.div_euclid(1000) as f64 + ns.rem_euclid(1000) as f64 / 1000.0
    }
}

/// Writes a thread. Returns its start and end, in microseconds.
fn write_thread<W: Write>(
    thread: &Thread<'_>,
    clock: Clock,
    tree: &mut ThreadTree,
    scripts: &mut Scripts,
    out: &mut JsonWriter<W>,
) -> (i64, i64) {
    let places: Vec<CallId> = thread
        .slices
        .iter()
        .map(|slice| tree.count(thread.tables, slice))
        .collect();
    let ticks = tree.take_ticks();
    let mut ticks = ticks.as_slice();
    let start = thread
        .slices
        .first()
        .map_or(0, |slice| clock.us(slice.start));
    let end = thread
        .slices
        .last()
        .map_or(start, |slice| clock.us(slice.end));
    out.begin_object();
    out.key("nodes");
    out.begin_array();
    for (id, node) in tree.calls.nodes() {
        if out.is_failed() {
            break;
        }
        out.begin_object();
        out.entry_u64("id", u64::from(id.number()));
        scripts.write(thread.tables, node.func, out);
        out.entry_u64("hitCount", node.own);
        out.entry_list("children", tree.calls.callees(node), |child, out| {
            out.u64(u64::from(child.number()));
        });
        let of_others = ticks.iter().position(|ticks| ticks.node != id);
        let (of_node, later) = ticks.split_at(of_others.unwrap_or(ticks.len()));
        ticks = later;
        write_ticks(of_node, out);
        out.end_object();
    }
    out.end_array();
    for (key, at) in [("startTime", start), ("endTime", end)] {
        out.key(key);
        out.i64(at);
    }
    out.key("samples");
    out.begin_array();
    places.iter().for_each(|id| out.u64(u64::from(id.number())));
    out.end_array();
    out.key("timeDeltas");
    out.begin_array();
    let mut before = start;
    for slice in thread.slices {
        let at = clock.us(slice.start);
        out.i64(at - before);
        before = at;
    }
    out.end_array();
    out.end_object();
    (start, end)
}

/// Writes the lines of a node, if there are any.
fn write_ticks<W: Write>(ticks: &[Ticks], out: &mut JsonWriter<W>) {
    if ticks.is_empty() {
        return;
    }
    out.entry_list("positionTicks", ticks, |ticks, out| {
        out.begin_object();
        out.entry_u64("line", u64::from(ticks.line));
        out.entry_u64("ticks", ticks.ticks);
        out.end_object();
    });
}
