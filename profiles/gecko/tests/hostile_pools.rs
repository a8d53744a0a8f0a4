//! Tests of pools with wrong contents: for any bytes, reading ends, does not panic, and takes no
//! more memory than the length of the pool. The inputs are single wrong words, mutations of a
//! recorded pool, and the regression corpus.

#[path = "hostile/reading.rs"]
mod reading;
#[path = "hostile/recorded.rs"]
mod recorded;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use profiler_core::internal::pool::layout::{self, Region, header as at};
use profiler_core::internal::reader::PoolReader;
use reading::read_everything;
use recorded::{Recorded, recorded};

/// Reads a pool in which some words are overwritten. Returns whether it is still a pool.
fn read_with(pool: &Recorded, overwrites: &[(u64, u64)]) -> bool {
    let mut bytes = pool.scratch.borrow_mut();
    for (offset, value) in overwrites {
        let offset = usize::try_from(*offset).unwrap();
        bytes[offset..offset + 8].copy_from_slice(&value.to_ne_bytes());
    }
    let is_pool = read_everything(&bytes);
    for (offset, _) in overwrites {
        let offset = usize::try_from(*offset).unwrap();
        bytes[offset..offset + 8].copy_from_slice(&pool.bytes[offset..offset + 8]);
    }
    is_pool
}

fn region(pool: &Recorded, region: Region) -> u64 {
    pool.header.layout.region(region).offset
}

const WRONG_WORDS: [u64; 13] = [
    0,
    1,
    7,
    8,
    4095,
    4096,
    1 << 20,
    u32::MAX as u64,
    1 << 32,
    (1 << 32) | 0xffff_ffff,
    1 << 63,
    u64::MAX - 7,
    u64::MAX,
];

#[test]
fn the_unchanged_pool_is_read_completely() {
    let pool = recorded();
    assert!(read_everything(&pool.bytes));
    let snapshot = PoolReader::open(&pool.bytes[..])
        .unwrap()
        .snapshot()
        .unwrap();
    assert!(
        snapshot.threads.len() >= 4 && snapshot.entries() > 500,
        "{}",
        snapshot.entries()
    );
    assert!(
        snapshot.chunks().any(|chunk| chunk.done.is_none()),
        "no open chunk"
    );
    assert!(
        snapshot.chunks().any(|chunk| chunk.done.is_some()),
        "no released chunk"
    );
    assert!(snapshot.chunks().any(|chunk| chunk.has_foreign));
    assert!(!snapshot.counters.is_empty() && !snapshot.pauses.is_empty());
    let panics = PoolReader::open(&pool.bytes[..]).unwrap().panics().unwrap();
    assert_eq!(panics.len(), 1);
    let panic = &panics[0];
    assert_eq!(
        (panic.file.as_str(), panic.line, panic.column),
        ("src/hostile.rs", 7, 9)
    );
    assert!(panic.hook_returned.is_some() && panic.message.starts_with("no "));
}

#[test]
fn every_word_of_the_header_may_be_wrong() {
    let pool = recorded();
    for offset in (0..1024).step_by(8) {
        for value in WRONG_WORDS {
            read_with(&pool, &[(offset, value)]);
        }
    }
    assert!(!read_with(&pool, &[(at::MAGIC, 0)]), "another magic number");
    assert!(!read_with(&pool, &[(at::ABI, 0)]), "another version");
    assert!(
        !read_with(&pool, &[(at::REGIONS + 8 * 10, u64::MAX)]),
        "chunks outside the file"
    );
}

#[test]
fn every_word_of_a_slot_may_be_wrong() {
    let pool = recorded();
    let directory = region(&pool, Region::Directory);
    for slot in 0..6 {
        for word in 0..10 {
            for value in WRONG_WORDS.into_iter().chain((0..8).map(|step| step * 8)) {
                assert!(read_with(
                    &pool,
                    &[(directory + slot * layout::SLOT_BYTES + word * 8, value)]
                ));
            }
        }
    }
}

#[test]
fn every_word_of_rows_counters_pauses_panics_and_names_may_be_wrong() {
    let pool = recorded();
    let tables = [
        (Region::Threads, 6 * layout::THREAD_BYTES),
        (Region::Counters, 2 * layout::COUNTER_BYTES),
        (Region::Pauses, 128),
        (Region::Panics, 1100),
        (Region::Definitions, 512),
    ];
    for (table, bytes) in tables {
        for offset in (0..bytes).step_by(8) {
            for value in WRONG_WORDS {
                assert!(read_with(&pool, &[(region(&pool, table) + offset, value)]));
            }
        }
    }
}

#[test]
fn slots_that_share_memory_are_not_read_twice() {
    let pool = recorded();
    let layout = pool.header.layout;
    let chunks = layout.region(Region::Chunks);
    let directory = region(&pool, Region::Directory);
    let mut overwrites = Vec::new();
    for slot in 0..layout.region(Region::Directory).len / layout::SLOT_BYTES {
        let committed = chunks.len | (chunks.len / 16) << 32;
        let start = pool.header.recording_start.raw();
        let words = [
            1,
            chunks.offset,
            chunks.len | (1 << 32),
            start,
            0,
            0,
            0,
            0,
            committed,
            0,
        ];
        let slot = directory + slot * layout::SLOT_BYTES;
        overwrites.extend(
            (0..)
                .zip(words)
                .map(|(word, value)| (slot + word * 8, value)),
        );
    }
    assert!(read_with(&pool, &overwrites)); // checks the number of bytes read
}

#[test]
fn names_that_are_not_utf8_are_read_without_harm() {
    let pool = recorded();
    let name = region(&pool, Region::Threads) + layout::THREAD_BYTES + 128;
    let header_name = at::NAME + 8;
    assert!(read_with(
        &pool,
        &[(name, 0xffc0_ff80_feff_c1c0), (header_name, u64::MAX)]
    ));
}

#[test]
fn a_truncated_pool_is_refused() {
    let pool = recorded();
    for len in [
        0,
        1,
        8,
        4095,
        4096,
        8192,
        pool.bytes.len() / 2,
        pool.bytes.len() - 1,
    ] {
        assert!(
            !read_everything(&pool.bytes[..len]),
            "{len} bytes of a longer pool"
        );
    }
}

#[derive(Clone, Debug)]
enum Mutation {
    Byte(usize, u8),
    Word(usize, u64),
    Bit(usize, u8),
    Copy(usize, usize, usize),
}

/// The offsets of pages that are not empty: the used tables and chunks.
fn used_offsets(pool: &Recorded) -> Vec<usize> {
    let page = |offset: usize| &pool.bytes[offset..offset + 4096];
    let used_pages = (0..pool.bytes.len())
        .step_by(4096)
        .filter(|offset| page(*offset).iter().any(|b| *b != 0));
    used_pages.collect()
}

fn mutations(pages: Vec<usize>) -> impl Strategy<Value = Vec<Mutation>> {
    let offset = move || {
        let pages = pages.clone();
        // The tables are small, so every second mutation changes a table.
        let tables = pages[..pages.len().min(8)].to_vec();
        prop_oneof![prop::sample::select(tables), prop::sample::select(pages)]
            .prop_flat_map(|page| (0..4088_usize).prop_map(move |at| page + at))
    };
    let value = prop_oneof![
        any::<u64>(),
        prop::sample::select(WRONG_WORDS.to_vec()),
        0_u64..5000
    ];
    let mutation = prop_oneof![
        (offset(), any::<u8>()).prop_map(|(at, byte)| Mutation::Byte(at, byte)),
        (offset(), value).prop_map(|(at, word)| Mutation::Word(at & !7, word)),
        (offset(), 0_u8..8).prop_map(|(at, bit)| Mutation::Bit(at, bit)),
        (offset(), offset(), 1_usize..512)
            .prop_map(|(from, to, len)| Mutation::Copy(from, to, len)),
    ];
    prop::collection::vec(mutation, 1..24)
}

fn mutate(bytes: &mut [u8], mutation: &Mutation) {
    match *mutation {
        Mutation::Byte(at, byte) => bytes[at] = byte,
        Mutation::Word(at, word) => bytes[at..at + 8].copy_from_slice(&word.to_ne_bytes()),
        Mutation::Bit(at, bit) => bytes[at] ^= 1 << bit,
        Mutation::Copy(from, to, len) => {
            let len = len.min(bytes.len() - from.max(to));
            bytes.copy_within(from..from + len, to);
        }
    }
}

#[test]
fn any_mutation_of_a_pool_is_read_without_harm() {
    let pool = recorded();
    let config = Config {
        cases: 3000,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let strategy = mutations(used_offsets(&pool));
    let outcome = TestRunner::new_with_rng(config, rng).run(&strategy, |mutations| {
        let mut bytes = pool.scratch.borrow_mut();
        mutations
            .iter()
            .for_each(|mutation| mutate(&mut bytes, mutation));
        read_everything(&bytes);
        let dirty: Vec<usize> = mutations.iter().flat_map(touched).collect();
        for page in dirty {
            let end = (page + 4096).min(bytes.len());
            bytes[page..end].copy_from_slice(&pool.bytes[page..end]);
        }
        Ok(())
    });
    outcome.unwrap();
}

/// The pages that a mutation may have changed.
fn touched(mutation: &Mutation) -> [usize; 2] {
    let at = match *mutation {
        Mutation::Byte(at, _)
        | Mutation::Word(at, _)
        | Mutation::Bit(at, _)
        | Mutation::Copy(_, at, _) => at,
    };
    let page = at / 4096 * 4096;
    [page, page + 4096]
}

#[test]
fn the_corpus_is_read_without_harm() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus");
    let mut files = 0;
    let mut pools = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        pools += usize::from(reading::read_any(
            &path.file_name().unwrap().to_string_lossy(),
            &bytes,
        ));
        files += 1;
    }
    assert!(files >= 20 && pools >= 10, "{pools} pools in {files} files");
}
