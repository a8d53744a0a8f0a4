//! Tests with forged pools: the cost of a profile depends on the data in a pool, not on the numbers
//! that it claims.

use std::cell::Cell;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use profiler_core::ids::{ByteLimit, ProcessId};
use profiler_core::internal::entry::stack::{Frame, MAX_FRAMES};
use profiler_core::internal::pool::layout::{Extent, Layout, Region, SLOT_BYTES, THREAD_BYTES};
use profiler_core::internal::pool::{self, PoolSpec};
#[cfg(all(target_os = "linux", not(profiler_portable)))]
use profiler_core::internal::reader::ModuleDefinition;
use profiler_core::internal::reader::{ByteSource, PoolReader, ThreadInfo};
use profiler_core::session::SessionParams;
use profiler_core::time::{Anchor, SessionClock};
use profiler_gecko::model::ProcessModel;
use profiler_gecko::{ProcessRole, ProfileSpec};
use profiler_generated_code::ProcessFiles;
use profiler_json::JsonWriter;
use profiler_sys::OwnFile;
use serde_json::Value;

use super::first_pass::{FirstPassTerms, ProfileTables, SortedProcess, sort_process};
use super::names::NoSymbols;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
use super::names::{CodeNames, Symbols};
use super::process::WrittenProcess;
use super::slow_runs::PlacedRuns;
use super::sorted_thread::SortedThread;
use super::symbolicated::SymbolicatedFrames;
use super::window::Window;
use super::{
    EarlierEntries, MAX_MEMORY, ProcessedProfile, frames, sort, stacks, store, strings,
    symbolicated, thread_cap,
};
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod series;

const MARKER: u64 = 1 << 28;
const SAMPLE: u64 = 3 << 28;
const COUNTERS: u64 = 5 << 28;
const TAIL: u64 = 1 << 26;
const FOREIGN: u64 = 1 << 27;
const MAIN_THREAD: u64 = 1;
const MIB: u64 = 1 << 20;

/// A forged pool with one chunk, of the thread in row 1.
struct Forged {
    file: Arc<OwnFile>,
    layout: Layout,
    clock: SessionClock,
}

impl Forged {
    fn new() -> Self {
        let limit = ByteLimit::new(4 * MIB);
        let clock = SessionClock::start_now();
        let params = SessionParams {
            limit,
            ..SessionParams::default()
        };
        let id = pool::new_id().unwrap();
        let spec = PoolSpec {
            id,
            limit,
            allowance: limit,
            clock,
            params,
            name: "liar".into(),
        };
        let file = spec.create_pool().unwrap();
        let layout = PoolReader::open(&file).unwrap().header().layout;
        Self {
            file: Arc::new(file.into()),
            layout,
            clock,
        }
    }

    fn put(&self, at: u64, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.file.get().unwrap().write_all_at(&bytes, at).unwrap();
    }

    /// Writes threads with these ids to the rows 1, 2, ….
    fn threads(self, tids: impl IntoIterator<Item = u64>, flags: u64) -> Self {
        for (row, tid) in (1..).zip(tids) {
            let at = self.layout.region(Region::Threads).offset + row * THREAD_BYTES;
            self.put(at, &[tid, 1, 0, flags]);
            self.put(at + 15 * 8, &[1]);
        }
        self
    }

    /// Writes the chunk of the thread in row 1.
    fn chunk(self, entries: &[Vec<u64>]) -> Self {
        let words: Vec<u64> = entries.iter().flatten().copied().collect();
        let chunks = self.layout.region(Region::Chunks);
        let bytes = words.len() as u64 * 8;
        self.put(chunks.offset, &words);
        let commit = bytes | ((entries.len() as u64) << 32);
        let slot = [
            1,
            chunks.offset,
            MIB | (1 << 32),
            1,
            0,
            0,
            1,
            0,
            commit,
            entries.len() as u64,
        ];
        assert!(bytes <= MIB && SLOT_BYTES >= size_of_val(&slot) as u64);
        self.put(self.layout.region(Region::Directory).offset, &slot);
        self
    }

    fn spec(&self) -> ProfileSpec {
        ProfileSpec {
            later: Anchor::take(),
            since: None,
            categories: Vec::new(),
        }
    }

    fn sorted(&self, shared: &mut ProfileTables) -> SortedProcess {
        let reader = PoolReader::open(&*self.file).unwrap();
        let snapshot = reader.snapshot().unwrap();
        sort_process(
            &reader,
            snapshot,
            EarlierEntries::default(),
            FirstPassTerms {
                window: Window::default(),
                categories: &[],
                tick: 0,
                interval_ns: 0,
                end: profiler_core::time::Timestamp::ZERO,
                downsampling: None,
            },
            shared,
        )
        .unwrap()
    }

    fn profile(&self) -> Value {
        let spec = self.spec();
        let mut profile = ProcessedProfile::new(self.clock, &spec, 1);
        assert!(matches!(
            profile.add(
                role(),
                None,
                &EarlierEntries::default(),
                Box::new(|| Ok(Arc::clone(&self.file)))
            ),
            Ok(Some(_))
        ));
        let mut out = Vec::new();
        profile
            .write(&mut NoSymbols, &[], |_, _, _| {}, &mut out)
            .unwrap();
        serde_json::from_slice(&out).unwrap()
    }
}

fn role() -> ProcessRole {
    ProcessRole {
        pid: ProcessId::new(7),
        name: "liar".into(),
        is_root: true,
    }
}

fn marker_for(tid: u64, at: u64) -> Vec<u64> {
    vec![3 | FOREIGN | MARKER, at, tid]
}

#[test]
fn values_of_undefined_counters_take_no_memory() {
    let values = |cell: u64| [cell, 5, 1];
    let entry = |at: u64| {
        let cells: Vec<u64> = (0..300).flat_map(|cell| values(at * 1000 + cell)).collect();
        let head = (3 + cells.len() as u64) | TAIL | COUNTERS;
        [vec![head, at, (cells.len() as u64 * 8) << 32], cells].concat()
    };
    let forged = Forged::new()
        .threads([100], MAIN_THREAD)
        .chunk(&(1..=100).map(entry).collect::<Vec<_>>());
    let sorted = forged.sorted(&mut ProfileTables::new(1));
    assert_eq!(
        sorted.threads[0].delivery.delivered, 100,
        "the entries are read"
    );
    assert!(sorted.counters.is_empty());
    assert!(forged.profile()["counters"].as_array().unwrap().len() <= 1);
}

/// Counts the bytes that are read from chunks.
struct Counted<'f>(&'f OwnFile, Extent, Cell<u64>);

impl ByteSource for Counted<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        if self.1.contains(Extent { offset, len: 0 }) {
            self.2.set(self.2.get() + buffer.len() as u64);
        }
        ByteSource::read_at(self.0, buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        ByteSource::len(self.0)
    }
}

#[test]
fn a_chunk_with_markers_of_many_threads_is_read_at_most_twice() {
    const THREADS: u64 = 2000;
    let markers: Vec<_> = (0..THREADS * 4)
        .map(|number| marker_for(100 + number % THREADS, 9 + number))
        .collect();
    let forged = Forged::new().threads(100..100 + THREADS, 0).chunk(&markers);
    let source = Counted(
        &forged.file,
        forged.layout.region(Region::Chunks),
        Cell::new(0),
    );
    let reader = PoolReader::open(&source).unwrap();
    let snapshot = reader.snapshot().unwrap();
    let mut shared = ProfileTables::new(1);
    let terms = FirstPassTerms {
        window: Window::default(),
        categories: &[],
        tick: 0,
        interval_ns: 0,
        end: profiler_core::time::Timestamp::ZERO,
        downsampling: None,
    };
    let sorted = sort_process(
        &reader,
        snapshot,
        EarlierEntries::default(),
        terms,
        &mut shared,
    )
    .unwrap();
    let spec = forged.spec();
    let role = role();
    let model = ProcessModel::new(&sorted.snapshot, &spec, &role, forged.clock, None);
    let process = WrittenProcess {
        model,
        sorted: &sorted,
        pid: "7",
        window: Window::default(),
        slow_runs: &PlacedRuns::default(),
    };
    let numbers = SymbolicatedFrames::default().nodes(&shared.stacks, |_, _| {});
    let mut out = JsonWriter::new(io::sink());
    process
        .write_threads(&reader, 0, &[], &mut shared, &numbers, &mut out)
        .unwrap();
    let chunk = markers.len() as u64 * 24;
    assert!(
        source.2.get() <= 2 * chunk,
        "{} bytes of {chunk}",
        source.2.get()
    );
    let profile = forged.profile();
    let threads = profile["threads"].as_array().unwrap();
    let with_four = threads
        .iter()
        .filter(|thread| thread["markers"]["length"] == 4)
        .count() as u64;
    assert_eq!(with_four, THREADS, "each thread has its own markers");
    let log = &profile["profilingLog"]["7"]["total"];
    assert_eq!(
        (&log["recorded"], &log["delivered"]),
        (&8000.into(), &8000.into())
    );
}

fn sample(at: u64, addresses: impl Iterator<Item = u64>) -> Vec<u64> {
    sample_of(at, addresses.map(Frame::Unknown))
}

/// A sample with these frames, the innermost last.
fn sample_of(at: u64, frames: impl Iterator<Item = Frame>) -> Vec<u64> {
    let frames: Vec<u64> = frames.map(Frame::encode).collect();
    let body = [0, u64::MAX, frames.len() as u64];
    let head = [
        (6 + frames.len() as u64) | TAIL | SAMPLE,
        at,
        (8 * (3 + frames.len() as u64)) << 32,
    ];
    head.into_iter().chain(body).chain(frames).collect()
}

#[test]
fn a_process_with_invented_addresses_leaves_room_for_the_stacks_of_others() {
    const DEEPEST: u64 = MAX_FRAMES as u64;
    let deep = |number: u64| {
        sample(
            9 + number,
            (0..DEEPEST).map(move |level| (number * DEEPEST + level) << 8),
        )
    };
    let liar = || {
        Forged::new()
            .threads([100], 0)
            .chunk(&(0..127).map(deep).collect::<Vec<_>>())
    };
    let of_child = |child: u64, at: u64| {
        (0..30).map(move |level| child << 40 | (at * 7 % (3 * level + 2)) << 4)
    };
    let mut shared = ProfileTables::new(9);
    let mut add = |forged: &Forged| {
        shared.begin_process(false);
        let sorted = forged.sorted(&mut shared);
        (
            sorted.threads[0].busy_samples,
            shared.frames.lost(),
            shared.stacks.lost(),
        )
    };
    for _ in 0..2 {
        let (samples, lost, _) = add(&liar());
        assert!(samples == 127 && lost > 0, "{samples} {lost}");
    }
    let before = add(&Forged::new().threads([100], 0).chunk(&[]));
    for child in 1..7 {
        let samples: Vec<_> = (1..3000)
            .map(|at| sample(at, of_child(child, at)))
            .collect();
        let (samples, ..) = add(&Forged::new().threads([100], 0).chunk(&samples));
        assert_eq!(samples, 2999, "of {child}");
    }
    let after = (shared.frames.lost(), shared.stacks.lost());
    assert_eq!(after, (before.1, before.2), "later processes lose nothing");
}

#[cfg(all(target_os = "linux", not(profiler_portable)))]
#[test]
fn generated_code_has_the_names_of_its_own_process_only() {
    test_support::own_process!(); // the perf map has the number of the process
    let mut other = std::process::Command::new("sleep")
        .arg("600")
        .spawn()
        .unwrap();
    let pids = [
        profiler_core::internal::sys::process_id(),
        ProcessId::new(other.id()),
    ];
    let maps = pids.map(|pid| format!("/tmp/perf-{pid}.map"));
    std::fs::write(&maps[0], "1000 10 py::f:/srv/a.py\n3000 10 g\n").unwrap();
    std::fs::write(&maps[1], "1000 10 h\n").unwrap();
    let forged = [1, 2].map(|_| {
        let samples = [sample(9, [0x2000, 0x1008].into_iter())];
        Forged::new().threads([100], MAIN_THREAD).chunk(&samples)
    });
    let spec = forged[0].spec();
    let mut profile = ProcessedProfile::new(forged[0].clock, &spec, 2);
    for (forged, pid) in forged.iter().zip(pids) {
        add_process(&mut profile, forged, pid);
        profile.name_generated_code(None, ProcessFiles::note(pid, true), true);
    }
    let mut out = Vec::new();
    let written = profile.write(&mut SourceOfNothing, &[], |_, _, _| {}, &mut out);
    other.kill().unwrap();
    other.wait().unwrap();
    maps.iter()
        .for_each(|map| std::fs::remove_file(map).unwrap());
    written.unwrap();
    let profile: Value = serde_json::from_slice(&out).unwrap();
    let shared = &profile["shared"];
    let text = |at: &Value| shared["stringArray"][at.as_u64().unwrap() as usize].clone();
    let names = shared["funcTable"]["name"].as_array().unwrap();
    let mut names: Vec<_> = names.iter().map(|name| text(name).to_string()).collect();
    names.sort();
    // The outer address is a return address, so the call is one byte before it.
    assert_eq!(names, ["\"0x1fff\"", "\"f\"", "\"h\""]);
    assert_eq!(shared["frameTable"]["length"], 4);
}

#[cfg(all(target_os = "linux", not(profiler_portable)))]
#[test]
fn an_offset_in_an_unknown_module_is_not_the_address_of_generated_code() {
    test_support::own_process!(); // the perf map has the number of the process
    let pid = profiler_core::internal::sys::process_id();
    let map = format!("/tmp/perf-{pid}.map");
    std::fs::write(&map, "1000 10 f\n").unwrap();
    let module = profiler_core::ids::DefinitionId::new(99);
    let frames = [Frame::Code(module, 0x1004), Frame::Unknown(0x1008)];
    let samples = [sample_of(9, frames.into_iter())];
    let forged = Forged::new().threads([100], MAIN_THREAD).chunk(&samples);
    let spec = forged.spec();
    let mut profile = ProcessedProfile::new(forged.clock, &spec, 1);
    add_process(&mut profile, &forged, pid);
    profile.name_generated_code(None, None, true);
    let mut out = Vec::new();
    let written = profile.write(&mut SourceOfNothing, &[], |_, _, _| {}, &mut out);
    std::fs::remove_file(&map).unwrap();
    written.unwrap();
    let profile: Value = serde_json::from_slice(&out).unwrap();
    let strings = profile["shared"]["stringArray"].as_array().unwrap();
    let has = |text: &str| strings.iter().any(|one| one == text);
    assert!(has("f") && has("0x1003"), "{strings:?}");
}

#[cfg(all(target_os = "linux", not(profiler_portable)))]
fn add_process(profile: &mut ProcessedProfile<'_>, forged: &Forged, pid: ProcessId) {
    let file = Arc::clone(&forged.file);
    let role = ProcessRole { pid, ..role() };
    let none = EarlierEntries::default();
    let added = profile.add(role, None, &none, Box::new(move || Ok(Arc::clone(&file))));
    assert!(matches!(added, Ok(Some(_))));
}

/// Has no names for files, and allows those of generated code.
#[cfg(all(target_os = "linux", not(profiler_portable)))]
struct SourceOfNothing;

#[cfg(all(target_os = "linux", not(profiler_portable)))]
impl Symbols for SourceOfNothing {
    fn resolve(&mut self, _: &ModuleDefinition, _: &[u64], _: &mut dyn FnMut(u64, &CodeNames<'_>)) {
    }
}

#[test]
fn threads_with_data_are_kept_and_threads_that_do_not_fit_are_counted() {
    const ROWS: u64 = 3 * thread_cap::MAX_THREADS as u64;
    let forged = Forged::new().threads(100..100 + ROWS, 0);
    // The chunk belongs to row 1; the other rows have no data.
    let forged = forged.chunk(&[marker_for(100, 9)]);
    let mut shared = ProfileTables::new(2);
    shared.begin_process(false);
    let first = forged.sorted(&mut shared);
    assert!(
        first.threads.len() < thread_cap::MAX_THREADS / 2,
        "{}",
        first.threads.len()
    );
    assert_eq!(first.threads[0].markers, 1, "the thread with data is kept");
    shared.begin_process(false);
    let second = forged.sorted(&mut shared);
    assert_eq!(
        first.threads.len() + second.threads.len(),
        thread_cap::MAX_THREADS
    );
    assert_eq!(second.threads[0].markers, 1);
    let all = 2 * first.threads.len().max(1) as u64;
    assert!(
        shared.thread_cap.left_out() > all,
        "{}",
        shared.thread_cap.left_out()
    );
}

#[test]
fn a_profile_has_one_main_thread_although_many_rows_claim_to_be_it() {
    let forged = Forged::new()
        .threads(100..200, MAIN_THREAD)
        .chunk(&[marker_for(100, 9)]);
    let profile = forged.profile();
    let mains = profile["threads"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|thread| thread["isMainThread"] == true);
    assert_eq!(mains.count(), 1);
}

#[test]
fn all_full_tables_together_stay_within_the_documented_limit() {
    let nodes = stacks::MAX_NODES * 12 + (1 << 20) * 4;
    let raw = frames::MAX_FRAMES * (size_of::<frames::RawFrame>() + 8 + 8);
    let shown = frames::MAX_FRAMES + symbolicated::MAX_INLINED;
    // Several frames share a function, so one function and index entry for two frames is a generous
    // estimate.
    let named = shown * size_of::<symbolicated::NamedFrame>()
        + shown / 2 * (size_of::<symbolicated::Func>() + 8);
    let natives = frames::MAX_FRAMES / 2 * (size_of::<symbolicated::NativeSymbol>() + 8);
    let rows = 2 * store::MEMORY + sort::AT_ONCE * 5 * 8;
    let threads = thread_cap::MAX_THREADS * (size_of::<SortedThread>() + size_of::<ThreadInfo>());
    let all = nodes + raw + named + natives + rows + threads + strings::ALL_BYTES;
    assert!(
        all <= MAX_MEMORY,
        "{nodes} {raw} {named} {natives} {rows} {threads}: {all}"
    );
}
