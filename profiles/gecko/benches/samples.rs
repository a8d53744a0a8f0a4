//! Benchmark: the cost of writing a sample into a profile, for several stack depths.
//!
//! Writes a pool full of samples as a Gecko profile to a sink that counts the bytes. A stack shares
//! two thirds of its frames with the stack before it, and every fourth stack repeats the one
//! before.

use std::hint::black_box;
use std::io::{self, Write};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use profiler_core::ids::{ByteLimit, ProcessId, ThreadId};
use profiler_core::internal::reader::{ModuleDefinition, PoolReader};
use profiler_core::sampler::{self, Frame, Sample, SampleWriter};
use profiler_core::session::{self, SessionParams, StartOptions};
use profiler_core::time::{Anchor, Timestamp};
use profiler_gecko::gecko::{ProcessPart, merge_categories};
use profiler_gecko::{FailureLatch, ProcessRole, ProfileSpec, ProgressCell};
use profiler_json::JsonWriter;

const SAMPLES: u64 = 50_000;

/// Counts the bytes that are written to it, and discards them.
struct Sink(u64);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += black_box(bytes).len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Records samples of four threads.
fn record(depth: u64) {
    let base = 0x7f00_0000_0000;
    let path = "/usr/lib/libwork.so".to_owned();
    let module = ModuleDefinition {
        path,
        build_id: vec![1; 20],
        base,
        start: base,
        end: base + 0x100_0000,
    };
    let module = sampler::define_module(&module).expect("room for a name");
    let mut writer = SampleWriter::new();
    for number in 0..SAMPLES {
        let thread = ThreadId::new(1 + number % 4);
        let at = Timestamp::now();
        if number % 16 >= 12 && writer.same_as_before(thread, at) {
            continue;
        }
        let own = |level: u64| {
            if level * 3 < depth * 2 {
                0
            } else {
                number % 37
            }
        };
        let frames: Vec<_> = (0..depth)
            .map(|level| Frame::Code(module, level * 0x1000 + own(level) * 8))
            .collect();
        writer.sample(
            thread,
            &Sample {
                at,
                cpu_ns: Some(number),
                frames: &frames,
                cut: false,
                failed: false,
            },
        );
        if number % 1_000 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(1)); // the manager prepares chunks
        }
    }
}

/// Writes the profile of the running session. Returns its number of bytes and of samples.
fn write_profile() -> (u64, u64) {
    let reader = PoolReader::open(session::pool_file().expect("a session")).expect("a pool");
    let snapshot = reader.snapshot().expect("a pool");
    let mut categories = Vec::new();
    merge_categories(&mut categories, &snapshot.definitions);
    let spec = ProfileSpec {
        later: Anchor::take(),
        since: None,
        categories,
    };
    let role = ProcessRole {
        pid: ProcessId::new(1),
        name: "bench".to_owned(),
        is_root: true,
    };
    let latch = FailureLatch::default();
    let part = ProcessPart::new(&reader, &snapshot, &spec, &role, &latch);
    let mut out = JsonWriter::new(Sink(0));
    let summary = part
        .write(&mut out, ProgressCell::new("").logger())
        .expect("a sink takes all");
    (
        out.finish().expect("a sink takes all").0,
        summary.counts.delivered,
    )
}

fn sample_rows(c: &mut Criterion) {
    let mut group = c.benchmark_group("sample_row");
    for depth in [10, 30, 100] {
        let params = SessionParams {
            limit: ByteLimit::new(256 << 20),
            ..SessionParams::default()
        };
        session::start(params, StartOptions::default()).expect("memory");
        record(depth);
        let (_, samples) = write_profile();
        group.throughput(Throughput::Elements(samples));
        group.bench_function(BenchmarkId::from_parameter(depth), |b| {
            b.iter(write_profile)
        });
        session::stop();
    }
    group.finish();
}

criterion_group!(benches, sample_rows);
criterion_main!(benches);
