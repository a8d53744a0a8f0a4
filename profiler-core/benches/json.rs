//! What does one marker row of a profile cost, and what would serde_json take for the same bytes?
//!
//! Rows are written into a sink that counts them, so that memory growth is not measured.

use std::hint::black_box;
use std::io::{self, Write};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use profiler_core::internal::profile::{JsonWriter, PreparedKey};
use serde::Serialize;

const ROWS: u64 = 10_000;

/// Throws away what it gets.
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

#[derive(Serialize)]
struct Payload<'a> {
    r#type: &'a str,
    bytes: u64,
    queue: u32,
    url: &'a str,
}

#[derive(Serialize)]
struct Row<'a>(u32, f64, f64, u8, u32, Payload<'a>);

fn times(row: u64) -> (i64, i64) {
    let start = 1_000_000_000 + row.cast_signed() * 1_234_567;
    (start, start + 345_678)
}

fn by_hand(out: &mut JsonWriter<Sink>, [ty, bytes, queue, url]: &[PreparedKey; 4], row: u64) {
    let (start, end) = times(row);
    out.begin_array();
    out.u64(row % 100);
    out.millis_ns(start);
    out.millis_ns(end);
    out.u64(1);
    out.u64(3);
    out.begin_object();
    out.prepared_key(ty);
    out.string("Request");
    out.prepared_key(bytes);
    out.u64(row * 17);
    out.prepared_key(queue);
    out.u64(12);
    out.prepared_key(url);
    out.string("https://example.org/item/42");
    out.end_object();
    out.end_array();
}

fn by_serde(row: u64) -> Row<'static> {
    let (start, end) = times(row);
    let payload =
        Payload { r#type: "Request", bytes: row * 17, queue: 12, url: "https://example.org/item/42" };
    Row((row % 100) as u32, start as f64 / 1e6, end as f64 / 1e6, 1, 3, payload)
}

fn marker_rows(c: &mut Criterion) {
    let keys = ["type", "bytes", "queue", "url"].map(PreparedKey::new);
    let mut group = c.benchmark_group("marker_row");
    group.throughput(Throughput::Elements(ROWS));
    group.bench_function("json_writer", |b| {
        b.iter(|| {
            let mut out = JsonWriter::new(Sink(0));
            out.begin_array();
            (0..ROWS).for_each(|row| by_hand(&mut out, &keys, black_box(row)));
            out.end_array();
            out.finish().map(|sink| sink.0)
        });
    });
    group.bench_function("serde_json", |b| {
        b.iter(|| {
            let mut out = io::BufWriter::with_capacity(64 * 1024, Sink(0));
            for row in 0..ROWS {
                serde_json::to_writer(&mut out, &by_serde(black_box(row))).expect("a sink takes all");
                out.write_all(b",").expect("a sink takes all");
            }
        });
    });
    group.finish();
}

criterion_group!(benches, marker_rows);
criterion_main!(benches);
