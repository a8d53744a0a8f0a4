//! What is recorded is in the Gecko profile, exactly. One test function per rule; the session is
//! global to the process, so a lock keeps them apart.

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::support::{self, RunningSession};
use profiler_core::counter::Counter;
use profiler_core::ids::{ProcessId, ThreadId};
use profiler_core::internal::entry_counts::DropReason;
use profiler_core::internal::profile::gecko::{ProcessPart, merge_categories};
use profiler_core::internal::profile::{
    CancelFlag, Failure, FailureLatch, JsonWriter, ProcessRole, ProcessSummary, ProfileSpec, ProgressCell,
    Proportion,
};
use profiler_core::internal::reader::{ByteSource, ModuleDefinition, PoolReader, Snapshot};
use profiler_core::marker::schema::{FieldFormat, Format, MarkerSchema, TableColumn};
use profiler_core::marker::{MarkerOptions, ProfilerMarker, add_untyped_marker, category};
use profiler_core::sampler::{self, Frame, Sample, SampleWriter};
use profiler_core::session::{self};
use profiler_core::time::{Anchor, Timestamp};
use profiler_core::{marker, text_marker, thread};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;
use test_support::own_process;

fn spec(snapshot: &Snapshot) -> ProfileSpec {
    let mut categories = Vec::new();
    merge_categories(&mut categories, &snapshot.definitions);
    ProfileSpec { later: Anchor::take(), since: None, categories }
}

fn role() -> ProcessRole {
    ProcessRole { pid: ProcessId::new(4321), name: "Test process".to_owned(), is_root: true }
}

fn write<S: ByteSource>(
    reader: &PoolReader<S>,
    snapshot: &Snapshot,
    spec: &ProfileSpec,
    latch: &FailureLatch,
) -> Result<(ProcessSummary, Vec<u8>), Failure> {
    let progress = ProgressCell::new("asked");
    let (role, clock) = (role(), reader.header().clock);
    let part = ProcessPart { reader, snapshot, clock, spec, role: &role, ended: None, late: None, latch };
    let mut out = JsonWriter::new(Vec::new());
    let summary = part.write(&mut out, progress.logger())?;
    assert_eq!(progress.read().proportion, Proportion::ONE);
    Ok((summary, out.finish().unwrap()))
}

/// The profile of the running session.
fn profile() -> (ProcessSummary, Value) {
    let reader = support::pool();
    let snapshot = reader.snapshot().unwrap();
    let (summary, json) = write(&reader, &snapshot, &spec(&snapshot), &FailureLatch::default()).unwrap();
    (summary, serde_json::from_slice(&json).unwrap())
}

fn thread_of<'v>(profile: &'v Value, name: &str) -> &'v Value {
    let threads = profile["threads"].as_array().unwrap();
    threads.iter().find(|thread| thread["name"] == name).unwrap_or_else(|| panic!("no thread {name}"))
}

/// The names of a thread's markers, in order.
fn names(thread: &Value) -> Vec<&str> {
    let rows = thread["markers"]["data"].as_array().unwrap();
    let text = |row: &Value| thread["stringTable"][row[0].as_u64().unwrap() as usize].as_str().unwrap();
    rows.iter().map(text).collect()
}

#[derive(serde::Serialize)]
struct Job<'a> {
    title: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<u8>,
    flow: u64,
    single: u8,
    steps: [&'a str; 2],
    rows: Vec<(&'a str, u64)>,
    stack: &'a str,
    ratio: f64,
}

impl ProfilerMarker for Job<'_> {
    const TYPE_NAME: &'static str = "Job";
    fn schema() -> MarkerSchema {
        let columns =
            [TableColumn::new("Name", Format::UniqueString), TableColumn::new("Size", Format::Bytes)];
        MarkerSchema::in_chart_and_table("Job")
            .key_format("title", Format::UniqueString)
            .key_format("missing", Format::Integer)
            .key_format("flow", Format::FlowId)
            .key_format("single", Format::List)
            .key_format("steps", Format::List)
            .key_format("rows", FieldFormat::table(columns))
            .key_format("stack", Format::String)
            .key_format("ratio", Format::Percentage)
    }
}

fn at(ns: u64) -> Timestamp {
    let reader = support::pool();
    let clock = reader.header().clock;
    let ticks = clock.converter(Anchor::take()).ticks_in(ns);
    Timestamp::from_raw(clock.start.ticks.raw() + ticks)
}

static QUEUED: Counter = Counter::new("Queued", "Jobs", "Jobs in the queue");

/// Times to whole milliseconds and numbers that differ from run to run replaced.
fn steady(mut profile: Value) -> Value {
    fn round(value: &mut Value) {
        match value {
            Value::Array(values) => values.iter_mut().for_each(round),
            Value::Object(map) => map.iter_mut().for_each(|(key, value)| match key.as_str() {
                "startTime"
                | "startTimeAsClockMonotonicNanosecondsSinceBoot"
                | "registerTime"
                | "unregisterTime"
                | "profilingStartTime"
                | "profilingEndTime"
                | "tid"
                | "profilingLogBegin_TSms"
                | "profilingLogEnd_TSms"
                | "platform"
                | "oscpu"
                | "abi"
                    if !value.is_null() && value != 0 && value != 1 =>
                {
                    *value = "varies".into();
                }
                _ => round(value),
            }),
            Value::Number(number) if number.is_f64() => {
                let rounded = number.as_f64().unwrap();
                if rounded > 1.0 {
                    *value = (rounded.round() as u64).into();
                }
            }
            _ => {}
        }
    }
    round(&mut profile);
    let meta = profile["meta"].as_object_mut().unwrap();
    for machine in ["CPUName", "physicalCPUs", "logicalCPUs"] {
        meta.remove(machine);
    }
    let counter = &mut profile["counters"][0]["samples"]["data"];
    counter[0][0] = "start".into();
    counter[1][0] = "capture".into();
    profile
}

#[test]
fn a_whole_process_is_written_with_everything_a_viewer_reads() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    QUEUED.add(7);
    QUEUED.add(-2);
    add_untyped_marker("instant", &category::TEST, MarkerOptions::instant_at(at(5_000_000)));
    add_untyped_marker("interval", &category::IO, MarkerOptions::interval(at(5_000_000), at(8_000_000)));
    marker!("again", &category::IO, MarkerOptions::instant_at(at(9_000_000)));
    marker!("again", &category::IO, MarkerOptions::instant_at(at(10_000_000)));
    text_marker!("text", &category::OTHER, MarkerOptions::instant_at(at(11_000_000)), "a \"text\"");
    let rows = vec![("a", 1), ("b", 2)];
    let (steps, stack) = (["one", "two"], "not a stack");
    let job = Job { title: "text", missing: None, flow: 0xff, single: 1, steps, rows, stack, ratio: 0.25 };
    marker!("typed", &category::IPC, MarkerOptions::interval(at(12_000_000), at(13_000_000)), &job);
    let (_, profile) = profile();
    insta::assert_json_snapshot!(steady(profile));
}

#[test]
fn every_marker_of_every_thread_is_there_once() {
    own_process!();
    const EACH: u64 = 5_000;
    let _session = RunningSession::with_limit(16 << 20);
    let workers = ["a", "b", "c"].map(|name| {
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            (0..EACH).for_each(|number| match number % 3 {
                0 => marker!("plain"),
                1 => text_marker!("text", &category::OTHER, MarkerOptions::default(), "ü"),
                _ => add_untyped_marker(&number.to_string(), &category::TEST, MarkerOptions::default()),
            });
        })
    });
    workers.into_iter().for_each(|worker| worker.unwrap().join().unwrap());
    let (summary, profile) = profile();
    let mut written = 0;
    for name in ["a", "b", "c"] {
        let thread = thread_of(&profile, name);
        let mut expected = (0..EACH).map(|number| match number % 3 {
            0 => "plain".to_owned(),
            1 => "text".to_owned(),
            _ => number.to_string(),
        });
        // A busy machine may drop some, which the books say; the others are there in order.
        for found in names(thread).into_iter().filter(|name| *name != "Entries lost") {
            assert!(expected.any(|next| next == found), "{found} is there twice or out of order");
            written += 1;
        }
        assert!(thread["unregisterTime"].is_number());
    }
    assert_eq!(summary.counts.recorded(), 3 * EACH);
    assert_eq!(summary.counts.delivered, written);
    assert_eq!(summary.counts.evicted, 0);
    assert_eq!(profile["profilingLog"]["4321"]["total"]["delivered"], written);
    assert!(summary.shown.first_ns == 0 && summary.shown.last_ns > 0, "{:?}", summary.shown);
}

#[test]
fn the_main_thread_comes_first_and_carries_the_process_name() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    marker!("here");
    let (_, profile) = profile();
    let main = &profile["threads"][0];
    assert_eq!(
        (main["name"].as_str(), main["processName"].as_str()),
        (Some("GeckoMain"), Some("Test process"))
    );
    assert_eq!(profile["threads"].as_array().unwrap().iter().filter(|t| t["name"] == "GeckoMain").count(), 1);
}

#[test]
fn markers_for_another_thread_are_in_its_table_and_in_the_recorders_books() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    let (tell, told) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let other = std::thread::Builder::new().name("other".to_owned()).spawn(move || {
        marker!("own");
        let id = std::fs::read_link("/proc/thread-self").unwrap();
        tell.send(id.file_name().unwrap().to_str().unwrap().parse::<u64>().unwrap()).unwrap();
        let _ = ended.recv();
    });
    let tid = ThreadId::new(told.recv().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            thread::register("giver");
            add_untyped_marker("kept", &category::TEST, MarkerOptions::default());
            add_untyped_marker("given", &category::TEST, MarkerOptions::default().on_thread(tid));
            let nobody = MarkerOptions::default().on_thread(ThreadId::new(1 << 40));
            add_untyped_marker("for nobody", &category::TEST, nobody);
        });
    });
    let (summary, profile) = profile();
    assert_eq!(names(thread_of(&profile, "other")), ["own", "given"]);
    assert_eq!(names(thread_of(&profile, "giver")), ["kept", "for nobody"]);
    assert_eq!(summary.counts.recorded(), summary.counts.delivered);
    let log = profile["profilingLog"]["4321"]["threads"].as_array().unwrap();
    let giver = log.iter().find(|thread| thread["name"] == "giver").unwrap();
    assert_eq!((&giver["delivered"], &giver["evicted"]), (&3.into(), &0.into()));
    drop(end);
    other.unwrap().join().unwrap();
}

#[test]
fn what_was_lost_is_in_the_log_and_in_a_marker() {
    own_process!();
    const MANY: u64 = 200_000;
    let _session = RunningSession::with_limit(1 << 20);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            thread::register("busy");
            (0..MANY).for_each(|_| marker!("tick"));
        });
    });
    let (summary, profile) = profile();
    let counts = summary.counts;
    assert_eq!(counts.recorded(), MANY);
    assert!(counts.evicted + counts.dropped.total() > 0);
    let busy = thread_of(&profile, "busy");
    let ticks = names(busy).iter().filter(|name| **name == "tick").count() as u64;
    assert_eq!(ticks, counts.delivered);
    let lost = busy["markers"]["data"].as_array().unwrap().last().unwrap();
    assert_eq!(lost[5]["type"], "ProfilerLosses");
    assert_eq!(lost[5]["evicted"], counts.evicted);
    assert_eq!(lost[5]["dropped"], counts.dropped.total());
    let full = counts.dropped.of(DropReason::Full);
    assert_eq!(lost[5].get("full").map_or(0, |count| count.as_u64().unwrap()), full);
    let log = &profile["profilingLog"]["4321"]["threads"];
    let log = log.as_array().unwrap().iter().find(|thread| thread["name"] == "busy").unwrap();
    assert_eq!(log["recorded"], MANY);
}

#[test]
fn entries_older_than_the_window_are_left_out_and_counted_as_evicted() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    add_untyped_marker("old", &category::TEST, MarkerOptions::instant_at(at(1_000)));
    add_untyped_marker("new", &category::TEST, MarkerOptions::instant_at(at(50_000_000)));
    let reader = support::pool();
    let snapshot = reader.snapshot().unwrap();
    let spec = ProfileSpec { since: Some(at(40_000_000)), ..spec(&snapshot) };
    let (summary, json) = write(&reader, &snapshot, &spec, &FailureLatch::default()).unwrap();
    let text = String::from_utf8(json).unwrap();
    assert!(text.contains("\"new\"") && !text.contains("\"old\""));
    assert_eq!((summary.counts.delivered, summary.counts.evicted), (1, 1));
}

#[test]
fn a_cancelled_capture_stops_with_its_reason() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    marker!("here");
    let reader = support::pool();
    let snapshot = reader.snapshot().unwrap();
    let flag = CancelFlag::new();
    flag.cancel();
    let latch = FailureLatch::new(flag);
    let result = write(&reader, &snapshot, &spec(&snapshot), &latch);
    assert_eq!(result.map(|_| ()), Err(Failure::Cancelled));
}

#[test]
fn children_stand_under_the_root_on_its_time_line() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    add_untyped_marker("late", &category::TEST, MarkerOptions::instant_at(at(30_000_000_000)));
    let reader = support::pool();
    let snapshot = reader.snapshot().unwrap();
    let (spec, latch, progress) = (spec(&snapshot), FailureLatch::default(), ProgressCell::new(""));
    let child = ProcessRole { pid: ProcessId::new(7), name: "Child".to_owned(), is_root: false };
    let part = |role| {
        let (reader, snapshot, spec, latch) = (&reader, &snapshot, &spec, &latch);
        ProcessPart {
            reader,
            snapshot,
            clock: reader.header().clock,
            spec,
            role,
            ended: Some(at(1)),
            late: None,
            latch,
        }
    };
    let mut out = JsonWriter::new(Vec::new());
    let root = role();
    let mut shown = part(&root).write_open(&mut out, progress.logger()).unwrap().shown;
    out.key("processes");
    out.begin_array();
    shown += part(&child).write(&mut out, progress.logger()).unwrap().shown;
    out.end_array();
    part(&root).close(&mut out, shown);
    let profile: Value = serde_json::from_slice(&out.finish().unwrap()).unwrap();
    let child = &profile["processes"][0];
    assert_eq!(child["meta"]["startTime"], profile["meta"]["startTime"]);
    assert_eq!(child["meta"]["categories"], profile["meta"]["categories"]);
    assert_eq!(
        (&child["threads"][0]["pid"], &child["threads"][0]["processName"]),
        (&7.into(), &"Child".into())
    );
    assert!(child["threads"][0]["unregisterTime"].is_number() && child["meta"]["shutdownTime"].is_number());
    assert!(profile["meta"]["profilingEndTime"].as_f64().unwrap() > 30_000.0 - 1.0);
    assert!(child["meta"]["profilingEndTime"].is_null());
}

#[test]
fn a_process_without_its_main_thread_still_has_one_to_be_named_by() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    marker!("here");
    let reader = support::pool();
    let mut snapshot = reader.snapshot().unwrap();
    snapshot.threads.retain(|thread| !thread.is_main);
    let (_, json) = write(&reader, &snapshot, &spec(&snapshot), &FailureLatch::default()).unwrap();
    let profile: Value = serde_json::from_slice(&json).unwrap();
    assert_loadable(&profile);
    assert_eq!(profile["threads"].as_array().unwrap().len(), snapshot.threads.len() + 1);
}

#[test]
fn merging_the_same_categories_again_adds_nothing() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    marker!("a", &category::IO, MarkerOptions::default());
    let snapshot = support::snapshot();
    let once = spec(&snapshot).categories;
    let mut twice = once.clone();
    merge_categories(&mut twice, &snapshot.definitions);
    assert_eq!(twice, once);
    assert_eq!((once[0].name.as_str(), once[0].color.as_str()), ("Other", "grey"));
    let io = once.iter().find(|row| row.name == "I/O").unwrap();
    assert_eq!(io.subcategories, ["Other", "Read", "Write"]);
}

const PAGE: usize = 4096;

/// A copy of a pool, of which only the pages that are not empty are kept.
struct PoolCopy {
    pages: BTreeMap<u64, Vec<u8>>,
    len: u64,
}

impl PoolCopy {
    fn take() -> Self {
        let file = session::pool_file().unwrap();
        let len = file.len().unwrap();
        let mut pages = BTreeMap::new();
        for offset in (0..len).step_by(PAGE) {
            let mut page = vec![0; PAGE];
            file.read_at(&mut page, offset).unwrap();
            if page.iter().any(|byte| *byte != 0) {
                pages.insert(offset, page);
            }
        }
        Self { pages, len }
    }

    fn byte_mut(&mut self, number: usize) -> &mut u8 {
        let page = self.pages.values_mut().nth(number / PAGE).unwrap();
        &mut page[number % PAGE]
    }
}

impl ByteSource for PoolCopy {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        if offset.checked_add(buffer.len() as u64).is_none_or(|end| end > self.len) {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        buffer.fill(0);
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let within = (at % PAGE as u64) as usize;
            let count = (PAGE - within).min(buffer.len() - done);
            if let Some(page) = self.pages.get(&(at - within as u64)) {
                buffer[done..done + count].copy_from_slice(&page[within..within + count]);
            }
            done += count;
        }
        Ok(())
    }

    fn len(&self) -> std::io::Result<u64> {
        Ok(self.len)
    }
}

fn record_samples() {
    let file = |path: &str, start: u64| ModuleDefinition {
        path: path.to_owned(),
        build_id: vec![1; 20],
        base: start,
        start,
        end: start + 0x9000,
    };
    let modules = [file("/lib/a.so", 0x7f00_0000_0000), file("/lib/b.so", 0x7f00_0000_8000)]
        .map(|module| sampler::define_module(&module).unwrap());
    let label = sampler::define_label("label", category::IO.sub(1), "src/a.rs", 7).unwrap();
    let mut writer = SampleWriter::new();
    for number in 0..60 {
        let thread = ThreadId::new(u64::from(std::process::id()) + number % 2);
        let code = |level: u64| Frame::Code(modules[level as usize % 2], level * 0x100 + number % 3);
        let mut frames: Vec<_> = (0..number % 6).map(code).collect();
        frames.extend([Frame::Label(label), Frame::Unknown(number)]);
        let cut = number % 7 == 0;
        writer.sample(
            thread,
            &Sample { at: Timestamp::now(), cpu_ns: Some(1), frames: &frames, cut, failed: false },
        );
        writer.same_as_before(thread, Timestamp::now());
    }
}

fn record_a_little_of_everything() {
    QUEUED.add(1);
    record_samples();
    for number in 0..20 {
        marker!("plain");
        text_marker!("text", &category::IO, MarkerOptions::default(), "some text");
        add_untyped_marker(&number.to_string(), &category::TEST, MarkerOptions::interval_start());
        let rows = vec![("a", number)];
        let (steps, stack) = (["one", "two"], "");
        let job = Job { title: "t", missing: Some(1), flow: 1, single: 1, steps, rows, stack, ratio: 0.5 };
        marker!("typed", &category::IPC, MarkerOptions::default(), &job);
    }
}

/// What every viewer relies on, whatever the pool says.
fn assert_loadable(profile: &Value) {
    let threads = profile["threads"].as_array().unwrap();
    assert!(threads.iter().any(|thread| thread["name"] == "GeckoMain"));
    let categories = profile["meta"]["categories"].as_array().unwrap().len() as u64;
    for thread in threads {
        let strings = thread["stringTable"].as_array().unwrap().len() as u64;
        for row in thread["markers"]["data"].as_array().unwrap() {
            assert!(row[0].as_u64().unwrap() < strings);
            assert!(row[1].is_number() || row[2].is_number());
            assert!(row[3].as_u64().unwrap() < 4 && row[4].as_u64().unwrap() < categories);
            assert!(
                row.get(5).is_none_or(|data| data["type"].is_string() && is_stack(thread, &data["stack"]))
            );
        }
        assert_stacks_loadable(thread, strings, categories);
    }
    assert_libs_loadable(profile["libs"].as_array().unwrap());
}

/// Whether it is no stack, or one that is there.
fn is_stack(thread: &Value, stack: &Value) -> bool {
    let stacks = thread["stackTable"]["data"].as_array().unwrap().len() as u64;
    stack.is_null() || stack["samples"]["data"][0][0].as_u64().is_some_and(|stack| stack < stacks)
}

fn assert_stacks_loadable(thread: &Value, strings: u64, categories: u64) {
    let table = |key: &str| thread[key]["data"].as_array().unwrap();
    let (stacks, frames) = (table("stackTable"), table("frameTable"));
    let is_below = |index: &Value, end: usize| index.as_u64().is_none_or(|index| index < end as u64);
    for (number, row) in stacks.iter().enumerate() {
        assert!(is_below(&row[0], number) && row[1].is_u64() && is_below(&row[1], frames.len()), "{row}");
    }
    for row in frames {
        assert!(row[0].as_u64().unwrap() < strings && is_below(&row[6], categories as usize), "{row}");
        assert!(row[6].is_null() == row[7].is_null());
    }
    let mut last = -1e20_f64;
    for row in table("samples") {
        // The last digit of what serde_json makes of a long number is not exact.
        let (at, slack) = (row[1].as_f64().unwrap(), last.abs() * 1e-14);
        assert!(is_below(&row[0], stacks.len()) && at >= last - slack, "{row} after {last}");
        last = at;
    }
}

fn assert_libs_loadable(libs: &[Value]) {
    let mut last = 0;
    for lib in libs {
        let [start, end, offset] = ["start", "end", "offset"].map(|key| lib[key].as_u64().unwrap());
        assert!(last <= start && start < end && offset <= start && end < 1 << 53, "{lib}");
        last = end;
    }
}

#[test]
fn a_damaged_pool_gives_an_error_or_a_loadable_profile() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    record_a_little_of_everything();
    let intact = PoolCopy::take();
    let mut runner = TestRunner::new(Config { cases: 1_000, ..Config::default() });
    let bytes = intact.pages.len() * PAGE;
    let patches = prop::collection::vec((0..bytes, any::<u8>()), 1..40);
    let loaded = Cell::new(0);
    let result = runner.run(&patches, |patches| {
        let mut damaged = PoolCopy { pages: intact.pages.clone(), len: intact.len };
        patches.into_iter().for_each(|(number, byte)| *damaged.byte_mut(number) = byte);
        let Ok(reader) = PoolReader::open(damaged) else { return Ok(()) };
        let Ok(snapshot) = reader.snapshot() else { return Ok(()) };
        if let Ok((_, json)) = write(&reader, &snapshot, &spec(&snapshot), &FailureLatch::default()) {
            assert_loadable(&serde_json::from_slice(&json).unwrap());
            loaded.set(loaded.get() + 1);
        }
        Ok(())
    });
    result.unwrap();
    assert!(loaded.get() > 100, "only {} damaged pools could be read at all", loaded.get());
}
