//! Benchmark: the cost of encoding a marker's payload, and of reading it.
//!
//! `bincode` encodes the same struct without the tags that make the payload self-describing.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use profiler_core::internal::codec;
use profiler_core::internal::payload::{PayloadReader, encode};
use serde::Serialize;

#[derive(Serialize)]
struct Payload<'a> {
    bytes: u64,
    queue: u32,
    name: &'a str,
}

fn payload(c: &mut Criterion) {
    let sample = Payload {
        bytes: 1 << 33,
        queue: 70_000,
        name: "sixteen letters!",
    };
    let mut room = [0_u8; 128];
    let mut group = c.benchmark_group("payload");
    group.bench_function("encode", |b| {
        b.iter(|| encode(black_box(&sample), black_box(&mut room)))
    });
    let used = encode(&sample, &mut room).expect("the room suffices");
    group.bench_function("read", |b| {
        b.iter(|| PayloadReader::new(black_box(&room[..used])).count())
    });
    let mut room = [0_u8; 128];
    group.bench_function("bincode", |b| {
        b.iter(|| codec::encode_into(black_box(&sample), black_box(&mut room)));
    });
    group.finish();
}

criterion_group!(benches, payload);
criterion_main!(benches);
