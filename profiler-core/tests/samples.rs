//! Tests of samples that a program records itself: they are read back exactly, also after
//! evictions.

use std::collections::HashMap;

use crate::support::{self, RunningSession};
use profiler_core::ids::ThreadId;
use profiler_core::internal::entry::Entry;
use profiler_core::internal::entry::sample::Stacks;
use profiler_core::internal::reader::ChunkBuffer;
use profiler_core::marker;
use profiler_core::sampler::{Frame, Sample, SampleWriter};
use profiler_core::time::Timestamp;
use test_support::own_process;
use test_support::patience::until;

type Seen = (u64, Option<u64>, Vec<Frame>);

/// A stack that shares some of its frames with the stack before it.
fn stack(number: u64) -> Vec<Frame> {
    let depth = 3 + number % 7;
    (0..depth)
        .map(|level| {
            Frame::Unknown(0x1000 * level + if level < depth - 2 { 0 } else { number % 5 })
        })
        .collect()
}

/// The samples of every thread, in order, and the number of evicted entries.
fn read() -> (HashMap<u64, Vec<Seen>>, u64) {
    let reader = support::pool();
    let snapshot = reader.snapshot().unwrap();
    let (mut seen, mut stacks, mut buffer) = (
        HashMap::<_, Vec<_>>::new(),
        Stacks::default(),
        ChunkBuffer::default(),
    );
    let mut evicted = snapshot.counts().evicted;
    for chunk in snapshot.chunks() {
        let Some(entries) = reader.read_chunk(chunk, &mut buffer).unwrap() else {
            // Evicted since the snapshot, by a manager that was held up. So the chunks before it
            // are evicted, too.
            evicted += chunk.entries + seen.drain().map(|(_, all)| all.len() as u64).sum::<u64>();
            continue;
        };
        stacks.begin_chunk();
        for entry in entries {
            let Entry::Sample(sample) = entry else {
                continue;
            };
            let frames = stacks.of(&sample).to_vec();
            let thread = sample.foreign.unwrap().get();
            seen.entry(thread)
                .or_default()
                .push((sample.at.raw(), sample.cpu_ns, frames));
        }
    }
    (seen, evicted)
}

/// Records `samples` samples of three threads, every fourth as "same as before", and from time to
/// time `markers` markers. Returns the samples that should be read.
fn record(samples: u64, markers: u64) -> HashMap<u64, Vec<Seen>> {
    let mut writer = SampleWriter::new();
    let mut written = HashMap::<_, Vec<Seen>>::new();
    for number in 0..samples {
        let thread = number % 3;
        let at = Timestamp::from_raw(1 + number);
        if number % 50 == 49 {
            (0..markers).for_each(|_| marker!("between"));
        }
        let all = written.entry(thread).or_default();
        if number % 4 == 3 && writer.same_as_before(ThreadId::new(thread), at) {
            let frames = all.last().expect("one before").2.clone();
            all.push((at.raw(), Some(0), frames));
            continue;
        }
        let frames = stack(number);
        let sample = Sample {
            at,
            cpu_ns: Some(number),
            frames: &frames,
            cut: false,
            failed: false,
        };
        // While the manager is held up, no chunk is ready and samples are dropped. Then all of the
        // last samples could be missing.
        let is_recorded = until(|| writer.sample(ThreadId::new(thread), &sample));
        assert!(is_recorded, "no sample is recorded any more");
        all.push((at.raw(), Some(number), frames));
    }
    written
}

fn assert_tails(
    seen: &HashMap<u64, Vec<Seen>>,
    written: &HashMap<u64, Vec<Seen>>,
    at_least: usize,
) {
    assert_eq!(seen.len(), 3);
    for (thread, samples) in seen {
        let (kept, all) = (samples.len(), &written[thread]);
        assert!(kept > at_least, "thread {thread}: {kept} samples");
        let tail = &all[all.len() - kept..];
        let differs = samples.iter().zip(tail).position(|(seen, is)| seen != is);
        let shown = differs.map(|at| (at, &samples[at], &tail[at]));
        assert!(
            shown.is_none(),
            "thread {thread}, {kept} samples: {shown:?}"
        );
    }
}

#[test]
fn stacks_are_read_back_exactly_after_evictions() {
    own_process!();
    let session = RunningSession::with_limit(1 << 20);
    let written = record(60_000, 0);
    let (seen, evicted) = read();
    drop(session);
    assert!(evicted > 1000, "nothing was evicted");
    assert_tails(&seen, &written, 1000);
    let kept: usize = seen.values().map(Vec::len).sum();
    assert_eq!(
        kept as u64 + evicted,
        written.values().map(|all| all.len() as u64).sum::<u64>()
    );
}

#[test]
fn a_sample_never_refers_to_another_chunk_also_if_markers_are_recorded_in_between() {
    own_process!();
    let session = RunningSession::with_limit(1 << 20);
    let written = record(20_000, 4_000);
    let (seen, evicted) = read();
    drop(session);
    assert!(evicted > 1000, "nothing was evicted");
    assert_tails(&seen, &written, 10);
}
