//! Tests of a pool that another process writes: the session, for a process that it observes.

use std::collections::HashMap;
use std::fs::File;

use crate::support;
use profiler_core::ids::{ByteLimit, ProcessId, ProcessStart, ThreadId};
use profiler_core::internal::entry::Entry;
use profiler_core::internal::observed::{ObservedProcess, PoolProcess, PoolWriter};
use profiler_core::internal::pool::PoolSpec;
use profiler_core::internal::pool::layout::Life;
use profiler_core::internal::reader::{ChunkBuffer, PoolReader};
use profiler_core::session::SessionParams;
use profiler_core::time::Timestamp;

const PID: u32 = 4711;
const START: u64 = 99;

fn new_pool(limit: u64) -> File {
    let params = SessionParams {
        limit: ByteLimit::new(limit),
        ..SessionParams::default()
    };
    let spec = PoolSpec {
        limit: params.limit,
        allowance: params.limit,
        ..support::pool_spec(&params)
    };
    spec.create_pool().unwrap()
}

fn writer(file: &File) -> PoolWriter {
    let process = PoolProcess {
        pid: ProcessId::new(PID),
        start: ProcessStart::new(START),
        began: Timestamp::now(),
    };
    PoolWriter::new(file.try_clone().unwrap(), process).unwrap()
}

fn thread(number: u64) -> ThreadId {
    ThreadId::new(u64::from(PID) + number)
}

/// The processor times of the samples of each thread, in order.
fn read(file: &File) -> HashMap<u64, Vec<u64>> {
    let reader = PoolReader::open(file).unwrap();
    let snapshot = reader.snapshot().unwrap();
    let (mut seen, mut buffer) = (HashMap::<_, Vec<_>>::new(), ChunkBuffer::default());
    for chunk in snapshot.chunks() {
        let Some(entries) = reader.read_chunk(chunk, &mut buffer).unwrap() else {
            panic!("nothing else writes");
        };
        for entry in entries {
            let Entry::Sample(sample) = entry else {
                panic!("only samples were written");
            };
            let of_thread: &mut Vec<_> = seen.entry(sample.foreign.unwrap().get()).or_default();
            of_thread.push(sample.cpu_ns.unwrap());
        }
    }
    seen
}

#[test]
fn samples_of_another_process_are_read_with_its_identity_and_threads() {
    let file = new_pool(4 << 20);
    let mut process = ObservedProcess::new(writer(&file));
    let began = Timestamp::now();
    let worker = process
        .pool()
        .add_thread(thread(1), "worker", began)
        .unwrap();
    for number in 0..1000 {
        let thread = thread(number % 2);
        assert!(process.add_time(thread, Timestamp::now(), number, 1));
    }
    let reader = PoolReader::open(&file).unwrap();
    let snapshot = reader.snapshot().unwrap();
    assert_eq!(snapshot.header.pid, ProcessId::new(PID));
    assert_eq!(snapshot.header.start, ProcessStart::new(START));
    let names: Vec<_> = snapshot
        .threads
        .iter()
        .map(|thread| thread.name.as_str())
        .collect();
    assert!(
        names.contains(&"worker") && names.contains(&"GeckoMain"),
        "{names:?}"
    );
    let seen = read(&file);
    for parity in 0..2 {
        let expected: Vec<_> = (0..1000).filter(|number| number % 2 == parity).collect();
        assert_eq!(seen[&thread(parity).get()], expected);
    }
    assert_eq!(snapshot.counts().recorded(), 1000);
    process.pool().end_thread(worker, Timestamp::now());
    process.pool().maintain();
    assert_eq!(
        read(&file)[&thread(1).get()].len(),
        500,
        "an ended thread keeps its samples"
    );
    process.close(true);
    assert_eq!(PoolReader::open(&file).unwrap().header().life, Life::Closed);
}

#[test]
fn a_pool_keeps_its_allowance_and_counts_what_it_destroys() {
    const LIMIT: u64 = 512 << 10;
    const SAMPLES: u64 = 100_000;
    let file = new_pool(LIMIT);
    let mut process = ObservedProcess::new(writer(&file));
    let held = || {
        use std::os::unix::fs::MetadataExt;
        file.metadata().unwrap().blocks() * 512
    };
    for number in 0..SAMPLES {
        process.add_time(thread(0), Timestamp::now(), number, 1);
        if number % 1000 == 0 {
            process.pool().maintain();
            assert!(held() <= LIMIT, "{} of {LIMIT}", held());
        }
    }
    let counts = PoolReader::open(&file)
        .unwrap()
        .snapshot()
        .unwrap()
        .counts();
    assert!(counts.evicted > 0);
    assert_eq!(counts.recorded(), SAMPLES);
    assert_eq!(counts.dropped.total(), 0, "the oldest chunks made room");
    let kept = &read(&file)[&thread(0).get()];
    let newest: Vec<_> = (SAMPLES - kept.len() as u64..SAMPLES).collect();
    assert_eq!(*kept, newest);
    process.pool().set_allowance(ByteLimit::new(LIMIT / 4));
    assert!(held() <= LIMIT / 4);
}

#[test]
fn a_pool_has_one_writer() {
    let file = new_pool(1 << 20);
    let _writer = writer(&file);
    let process = PoolProcess {
        pid: ProcessId::new(1),
        start: ProcessStart::new(1),
        began: Timestamp::now(),
    };
    let second = PoolWriter::new(file.try_clone().unwrap(), process).unwrap_err();
    assert!(second.to_string().contains("4711"), "{second}");
}
