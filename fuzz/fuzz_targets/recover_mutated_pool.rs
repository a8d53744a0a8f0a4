//! The recovery of a dead process: a true pool, mutated by the input, taken over as a grave and
//! written as a profile. Whatever the bytes say, the profile is well-formed and its books add up.
//!
//! The input is a list of (how, place, word), eleven bytes each. Half of all places lie in the tables,
//! which are few and small; the rest anywhere in the pages that are used.

#![no_main]

#[path = "../../profiler-core/tests/hostile/recorded.rs"]
mod recorded;

use std::fs::File;
use std::os::unix::fs::FileExt;

use libfuzzer_sys::fuzz_target;
use profiler_core::internal::dead_pool::DeadPool;
use profiler_core::ids::ProcessId;
use profiler_core::internal::profile::gecko::{ProcessPart, merge_categories};
use profiler_core::internal::profile::{FailureLatch, JsonWriter, ProcessRole, ProfileSpec, ProgressCell};
use profiler_core::internal::reader::PoolReader;
use profiler_core::internal::sys::OwnFile;
use profiler_core::time::{Anchor, SessionClock, Timestamp};
use profiler_parent::internal::gather::json_check::check;
use serde_json::Value;

const PAGE: usize = 4096;
/// Pages of tables that are in use, or about that many.
const TABLES: usize = 8;

/// The true pool, and the file in which copies of it are mutated.
struct Base {
    bytes: Vec<u8>,
    clock: SessionClock,
    /// Offsets of the pages that hold anything.
    used: Vec<usize>,
    file: File,
}

thread_local! {
    static BASE: Base = base();
}

fn base() -> Base {
    let recorded = recorded::recorded();
    let is_used = |at: &usize| recorded.bytes[*at..*at + PAGE].iter().any(|byte| *byte != 0);
    let used = (0..recorded.bytes.len()).step_by(PAGE).filter(is_used).collect();
    let clock = recorded.header.clock;
    // In memory: a disk would cost more than all the rest.
    let file = rustix::fs::memfd_create("mutated pool", rustix::fs::MemfdFlags::CLOEXEC).expect("memory");
    Base { bytes: recorded.bytes, clock, used, file: file.into() }
}

impl Base {
    /// Makes the file the true pool again.
    fn restore(&self) {
        self.file.set_len(0).expect("a shorter file");
        self.file.set_len(self.bytes.len() as u64).expect("a longer file");
        for at in &self.used {
            self.file.write_all_at(&self.bytes[*at..*at + PAGE], *at as u64).expect("room");
        }
    }

    fn mutate(&self, mutation: &[u8]) {
        let [how, low, high, word @ ..] = mutation else { return };
        let (place, word) = (usize::from(u16::from_le_bytes([*low, *high])), u64_of(word));
        let pages = if how & 1 == 0 { TABLES.min(self.used.len()) } else { self.used.len() };
        let at = self.used[(place >> 9) % pages] + (place & 0x1ff) * 8;
        let word = if how & 2 == 0 { word } else { word ^ u64_of(&self.bytes[at..at + 8]) };
        self.file.write_all_at(&word.to_ne_bytes(), at as u64).expect("room");
    }
}

fn u64_of(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
}

/// Writes the pool's part of a profile, as the parent does for a child that is dead.
fn write(file: &File, clock: SessionClock) -> Option<(u64, Vec<u8>)> {
    let reader = PoolReader::open(file).ok()?;
    let snapshot = reader.snapshot().ok()?;
    let mut categories = Vec::new();
    merge_categories(&mut categories, &snapshot.definitions);
    let spec = ProfileSpec { later: Anchor::take(), since: None, categories };
    let role = ProcessRole { pid: ProcessId::new(1), name: snapshot.header.name.clone(), is_root: false };
    let (latch, progress) = (FailureLatch::default(), ProgressCell::new("recovering"));
    let (reader, snapshot, spec, role, latch) = (&reader, &snapshot, &spec, &role, &latch);
    let ended = Some(PoolReader::<&File>::last_seen(snapshot));
    let part = ProcessPart { reader, snapshot, clock, spec, role, ended, late: None, latch };
    let mut out = JsonWriter::new(Vec::new());
    let summary = part.write(&mut out, progress.logger()).expect("any pool can be written");
    Some((summary.counts.delivered, out.finish().expect("room")))
}

/// What the books say of a thread or a process: recorded, and its four parts.
fn books(counts: &Value) -> [u64; 5] {
    let of = |key: &str| match &counts[key] {
        Value::Object(reasons) => reasons.values().filter_map(Value::as_u64).fold(0, u64::saturating_add),
        number => number.as_u64().unwrap_or(0),
    };
    ["recorded", "delivered", "evicted", "dropped", "unfinished"].map(of)
}

fn check_books(profile: &Value, delivered: u64) {
    let log = profile["profilingLog"]["1"].as_object().expect("a log of the process");
    let threads = log["threads"].as_array().expect("books of threads");
    for counts in threads.iter().chain([&log["total"]]) {
        let [recorded, parts @ ..] = books(counts);
        assert_eq!(recorded, parts.into_iter().fold(0, u64::saturating_add), "{counts}");
    }
    let shown = profile["threads"].as_array().expect("threads");
    let rows_of = |thread: &Value, table: &str| thread[table]["data"].as_array().map_or(0, Vec::len) as u64;
    let rows = |thread: &Value| rows_of(thread, "markers") + rows_of(thread, "samples");
    let all: u64 = shown.iter().map(rows).sum();
    // Beside its entries a thread has at most one marker about those it lost; counters and overhead have no rows there.
    assert!(all <= delivered + shown.len() as u64, "{all} rows, {delivered} delivered");
}

fuzz_target!(|data: &[u8]| {
    BASE.with(|base| {
        base.restore();
        data.chunks_exact(11).take(500).for_each(|mutation| base.mutate(mutation));
        let Ok(mut grave) = DeadPool::open(OwnFile::from(base.file.try_clone().expect("a handle")), Timestamp::now()) else { return };
        if let (Some(oldest), true) = (grave.chunks().first(), data.first().is_some_and(|how| how & 4 != 0)) {
            let _ = grave.destroy_at_or_before(oldest.done);
        }
        let Some((delivered, json)) = write(grave.file().unchecked(), base.clock) else { return };
        check(&json[..], json.len() as u64).expect("a part that the parent would take");
        check_books(&serde_json::from_slice(&json).expect("JSON"), delivered);
    });
});
