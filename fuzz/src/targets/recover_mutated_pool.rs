//! Fuzzes the recovery of a dead process: the input mutates a valid pool, which is opened as a dead
//! pool and written as a profile. For any bytes, the profile must be well-formed and its counts
//! must add up.
//!
//! The input is a list of (how, place, word), eleven bytes each. Half of the places address the
//! tables, which are few and small. The other places address any used page.

use std::fs::File;
use std::os::unix::fs::FileExt;

use profiler_core::ids::ProcessId;
use profiler_core::internal::dead_pool::DeadPool;
use profiler_core::internal::reader::PoolReader;
use profiler_core::time::{Anchor, SessionClock, Timestamp};
use profiler_gecko::gecko::{ProcessPart, merge_categories};
use profiler_gecko::{FailureLatch, ProcessRole, ProfileSpec, ProgressCell};
use profiler_json::JsonWriter;
use profiler_parent::internal::gather::json_check::check;
use profiler_sys::OwnFile;
use serde_json::Value;

use crate::hostile::recorded;

const PAGE: usize = 4096;
/// Approximate number of used pages that hold tables.
const TABLES: usize = 8;

/// The valid pool, and the file in which copies of it are mutated.
struct Base {
    bytes: Vec<u8>,
    clock: SessionClock,
    /// Offsets of the pages that are not all zeros.
    used: Vec<usize>,
    file: File,
}

thread_local! {
    static BASE: Base = base();
}

fn base() -> Base {
    let recorded = recorded::recorded();
    let is_used = |at: &usize| {
        recorded.bytes[*at..*at + PAGE]
            .iter()
            .any(|byte| *byte != 0)
    };
    let used = (0..recorded.bytes.len())
        .step_by(PAGE)
        .filter(is_used)
        .collect();
    let clock = recorded.header.clock;
    // The file is in memory, because disk writes would dominate the run time.
    let file =
        rustix::fs::memfd_create("mutated pool", rustix::fs::MemfdFlags::CLOEXEC).expect("memory");
    Base {
        bytes: recorded.bytes,
        clock,
        used,
        file: file.into(),
    }
}

impl Base {
    /// Restores the valid pool in the file.
    fn restore(&self) {
        self.file.set_len(0).expect("a shorter file");
        self.file
            .set_len(self.bytes.len() as u64)
            .expect("a longer file");
        for at in &self.used {
            self.file
                .write_all_at(&self.bytes[*at..*at + PAGE], *at as u64)
                .expect("room");
        }
    }

    fn mutate(&self, mutation: &[u8]) {
        let [how, low, high, word @ ..] = mutation else {
            return;
        };
        let place = usize::from(u16::from_le_bytes([*low, *high]));
        let word = u64_of(word);
        let pages = if how & 1 == 0 {
            TABLES.min(self.used.len())
        } else {
            self.used.len()
        };
        let at = self.used[(place >> 9) % pages] + (place & 0x1ff) * 8;
        let word = if how & 2 == 0 {
            word
        } else {
            word ^ u64_of(&self.bytes[at..at + 8])
        };
        self.file
            .write_all_at(&word.to_ne_bytes(), at as u64)
            .expect("room");
    }
}

fn u64_of(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
}

/// Writes the pool's part of a profile, as the parent does for a dead child.
fn write(file: &File, clock: SessionClock) -> Option<(u64, Vec<u8>)> {
    let reader = PoolReader::open(file).ok()?;
    let snapshot = reader.snapshot().ok()?;
    let mut categories = Vec::new();
    merge_categories(&mut categories, &snapshot.definitions);
    let spec = ProfileSpec {
        later: Anchor::take(),
        since: None,
        categories,
    };
    let role = ProcessRole {
        pid: ProcessId::new(1),
        name: snapshot.header.name.clone(),
        is_root: false,
    };
    let latch = FailureLatch::default();
    let progress = ProgressCell::new("recovering");
    let reader = &reader;
    let snapshot = &snapshot;
    let spec = &spec;
    let role = &role;
    let latch = &latch;
    let ended = Some(snapshot.last_seen());
    let part = ProcessPart {
        reader,
        snapshot,
        clock,
        spec,
        role,
        ended,
        late: None,
        latch,
    };
    let mut out = JsonWriter::new(Vec::new());
    let summary = part
        .write(&mut out, progress.logger())
        .expect("any pool can be written");
    Some((summary.counts.delivered, out.finish().expect("room")))
}

/// Reads the counts of a thread or a process: recorded, delivered, outside, evicted, dropped,
/// unfinished.
fn counts_of(counts: &Value) -> [u64; 6] {
    let sum_of = |key: &str| match &counts[key] {
        Value::Object(reasons) => reasons
            .values()
            .filter_map(Value::as_u64)
            .fold(0, u64::saturating_add),
        number => number.as_u64().unwrap_or(0),
    };
    [
        "recorded",
        "delivered",
        "outside",
        "evicted",
        "dropped",
        "unfinished",
    ]
    .map(sum_of)
}

fn check_counts(profile: &Value, delivered: u64) {
    let log = profile["profilingLog"]["1"]
        .as_object()
        .expect("a log of the process");
    let threads = log["threads"].as_array().expect("counts of threads");
    for counts in threads.iter().chain([&log["total"]]) {
        let [recorded, parts @ ..] = counts_of(counts);
        assert_eq!(
            recorded,
            parts.into_iter().fold(0, u64::saturating_add),
            "{counts}"
        );
    }
    let shown = profile["threads"].as_array().expect("threads");
    let rows_of =
        |thread: &Value, table: &str| thread[table]["data"].as_array().map_or(0, Vec::len) as u64;
    let rows = |thread: &Value| rows_of(thread, "markers") + rows_of(thread, "samples");
    let all: u64 = shown.iter().map(rows).sum();
    // Besides its entries, a thread has at most one marker, which reports its lost entries.
    // Counters and overhead have no rows in these tables.
    assert!(
        all <= delivered + shown.len() as u64,
        "{all} rows, {delivered} delivered"
    );
}

/// Checks one input.
pub(crate) fn check_input(data: &[u8]) {
    BASE.with(|base| {
        base.restore();
        data.chunks_exact(11)
            .take(500)
            .for_each(|mutation| base.mutate(mutation));
        let Ok(mut dead_pool) = DeadPool::open(
            OwnFile::from(base.file.try_clone().expect("a handle")),
            Timestamp::now(),
        ) else {
            return;
        };
        if let (Some(oldest), true) = (
            dead_pool.chunks().first(),
            data.first().is_some_and(|how| how & 4 != 0),
        ) {
            let _ = dead_pool.destroy_at_or_before(oldest.done);
        }
        let Some((delivered, json)) = write(dead_pool.file().unchecked(), base.clock) else {
            return;
        };
        check(&json[..], json.len() as u64).expect("a part that the parent accepts");
        check_counts(&serde_json::from_slice(&json).expect("JSON"), delivered);
    });
}
