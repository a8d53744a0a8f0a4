//! Properties of the live flame graph for any bytes in a pool, which change between two reads:
//! reading does no harm, every answer is JSON of bounded size, and its numbers fit together.
//!
//! Used by `foreign_samples` and the fuzz target `flame_samples`. The input consists of changes of
//! 12 bytes each: the number of reads until the change and the way it is made (1), the region (1),
//! the place (2), the word (8).

use std::fs::File;
use std::os::unix::fs::FileExt;

use profiler_core::internal::pool::layout::{Layout, Region};
use profiler_flame::ForeignSamples;
use serde_json::Value;

use super::recorded::Recorded;

const PAGE: usize = 4096;
/// Number of reads.
const ROUNDS: u64 = 4;
/// Maximum number of changes of one input.
const MAX_CHANGES: usize = 200;
/// Number of words of a region that changes can reach.
const REACH: u64 = 4096;
/// Requests after the last read. The first contains the time of all samples.
const QUERIES: [&str; 4] = [
    "window=start&time=all&nodes=500&rows=all",
    "window=10s&inverted=1&compare=1&nodes=50&sort=change",
    "window=60s&time=off-cpu&find=a&order=asc&sort=name",
    "window=start&process=00000000000000000000000000000001&thread=1&path=0.1",
];
/// Maximum number of nodes in an answer to [`QUERIES`]: the default of a request.
const MAX_NODES: usize = 4000;

/// Reads a pool that changes. Returns the number of samples that were read.
pub(crate) fn check(pool: &Recorded, input: &[u8]) -> u64 {
    let file = copy(&pool.bytes);
    let samples = ForeignSamples::new(file.try_clone().expect("a handle"));
    let mut changes = input.chunks_exact(12).take(MAX_CHANGES).peekable();
    let mut due = 0;
    for round in 0..ROUNDS {
        while let Some(change) = changes.peek() {
            if due + u64::from(change[0] & 3) > round {
                break;
            }
            due += u64::from(change[0] & 3);
            make(change, &pool.header.layout, &file);
            changes.next();
        }
        samples.advance();
        check_answer(&samples.answer(QUERIES[0]), true);
    }
    let answers = QUERIES.map(|query| samples.answer(query));
    let [all, others @ ..] = &answers;
    for answer in others {
        check_answer(answer, false);
    }
    let read = check_answer(all, true)["samples"].as_u64();
    read.expect("a number of samples")
}

/// The bytes of a pool in a file in memory, as long as the pool.
fn copy(bytes: &[u8]) -> File {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let file = File::from(rustix::fs::memfd_create("sampled pool", flags).expect("memory"));
    file.set_len(bytes.len() as u64).expect("a longer file");
    for (page, at) in bytes.chunks(PAGE).zip((0_u64..).step_by(PAGE)) {
        if page.iter().any(|byte| *byte != 0) {
            file.write_all_at(page, at).expect("room");
        }
    }
    file
}

fn make(change: &[u8], layout: &Layout, file: &File) {
    let place = u64::from(u16::from_le_bytes([change[2], change[3]]));
    let word = u64::from_le_bytes(change[4..12].try_into().expect("eight bytes"));
    let at = place_of(layout, change[1], place);
    let mut old = [0; 8];
    if file.read_exact_at(&mut old, at).is_err() {
        return;
    }
    let is_flip = change[0] & 16 != 0;
    let old = if is_flip { u64::from_ne_bytes(old) } else { 0 };
    let new = old ^ word;
    file.write_all_at(&new.to_ne_bytes(), at).expect("room");
}

/// The place of a change: in the header, or at the beginning of a region.
fn place_of(layout: &Layout, how: u8, place: u64) -> u64 {
    let regions = [
        Region::Chunks,
        Region::Directory,
        Region::Threads,
        Region::Definitions,
    ];
    match regions.get(usize::from(how) % (regions.len() + 1)) {
        Some(region) => {
            let extent = layout.region(*region);
            extent.offset + place % REACH.min(extent.len / 8).max(1) * 8
        }
        None => place % 24 * 8,
    }
}

/// Checks an answer. If `is_whole`, it covers all samples and both kinds of time.
fn check_answer(text: &str, is_whole: bool) -> Value {
    let answer: Value = serde_json::from_str(text).expect("JSON");
    let number = |value: &Value| value.as_u64().expect("a number");
    let column = |name: &str| {
        answer["nodes"][name]
            .as_array()
            .expect("a column")
            .as_slice()
    };
    let depths: Vec<u64> = column("depth").iter().map(number).collect();
    assert!(depths.len() <= MAX_NODES, "{} nodes", depths.len());
    for name in ["function", "total_ns", "self_ns", "before_ns", "process"] {
        assert_eq!(column(name).len(), depths.len(), "{name}");
    }
    let is_child = |pair: &[u64]| pair[1] > 0 && pair[1] <= pair[0] + 1;
    assert!(depths.windows(2).all(is_child), "a node has no caller");
    for (own, total) in column("self_ns").iter().zip(column("total_ns")) {
        assert!(number(own) <= number(total));
    }
    let functions = answer["functions"].as_array().expect("functions").len();
    let rows = answer["table"]["rows"].as_array().expect("rows");
    for row in rows {
        assert!(number(&row["self_ns"]) <= number(&row["total_ns"]), "{row}");
        assert!(number(&row["function"]) < functions as u64);
    }
    if is_whole {
        let sum = number(&answer["on_cpu_ns"]).saturating_add(number(&answer["off_cpu_ns"]));
        assert_eq!(number(&answer["total_ns"]), sum);
        assert_eq!(column("total_ns").first().map(number), Some(sum));
    }
    answer
}
