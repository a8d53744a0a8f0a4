//! Group `json`: how fast the marker rows of a profile are written as text.
//!
//! The profiler's writer and serde_json write the same rows with the same values in turn, into a
//! sink that counts bytes, so that memory growth is not measured. Invariant: both texts have the
//! same meaning, which is checked before the measurement.

use std::hint::black_box;
use std::io::{self, BufWriter, Write};

use anyhow::{Context, Result, ensure};
use profiler_json::{JsonWriter, PreparedKey};
use serde::Serialize;

use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::measure::{cores, median, median_ratio, ns_of, pin_to};

/// Rows per round: few enough that most rounds are not interrupted.
const ROWS: u64 = 5_000;
const ROUNDS: usize = 401;

/// Discards its input and counts the bytes.
#[derive(Default)]
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

/// A marker row: name, start, end, phase, category, payload.
#[derive(Serialize)]
struct Row<'a>(u64, f64, f64, u8, u32, Payload<'a>);

pub(crate) fn measure(report: &mut Report) -> Result<()> {
    check_that_both_mean_the_same()?;
    let _pinned = cores().first().map(|core| pin_to(*core));
    let mut writer_times = Vec::new();
    let mut serde_times = Vec::new();
    let mut bytes = 0_u64;
    for _ in 0..ROUNDS {
        writer_times.push(timed(|| {
            rows_by_writer(Sink::default(), ROWS).map(|sink| bytes = sink.0)
        })?);
        serde_times.push(timed(|| rows_by_serde(Sink::default(), ROWS).map(drop))?);
    }
    // One byte per nanosecond is 1,000 megabytes per second.
    report.put(Figure::new(
        "json.write.mb_s",
        bytes as f64 / median(&writer_times) * 1000.0,
        "MB/s",
    ));
    let ratio = Figure::new(
        "json.vs_serde_json.ratio",
        median_ratio(&writer_times, &serde_times),
        "x serde_json",
    );
    report.put(ratio.promised(Promise::AtMost(0.5)));
    Ok(())
}

/// A row as it is parsed.
type Read = (u64, f64, f64, u8, u32, serde_json::Value);

fn check_that_both_mean_the_same() -> Result<()> {
    let writer_text = rows_by_writer(Vec::new(), 1000)?;
    let serde_text = rows_by_serde(Vec::new(), 1000)?;
    let read = |text: &[u8]| serde_json::from_slice::<Vec<Read>>(text).context("not the rows");
    ensure!(
        read(&writer_text)? == read(&serde_text)?,
        "the two texts differ in meaning"
    );
    Ok(())
}

/// Returns the nanoseconds of `body`.
fn timed(body: impl FnOnce() -> Result<()>) -> Result<f64> {
    let mut result = Ok(());
    let ns = ns_of(|| result = body());
    result.map(|()| ns)
}

/// Returns start and end of a row, in nanoseconds.
fn times(row: u64) -> (i64, i64) {
    let start = 1_000_000_000 + row.cast_signed() * 1_234_567;
    (start, start + 345_678)
}

fn rows_by_writer<W: Write>(out: W, rows: u64) -> Result<W> {
    let keys = ["type", "bytes", "queue", "url"].map(PreparedKey::new);
    let mut out = JsonWriter::new(out);
    out.begin_array();
    (0..rows).for_each(|row| row_by_writer(&mut out, &keys, black_box(row)));
    out.end_array();
    Ok(out.finish()?)
}

fn row_by_writer<W: Write>(
    out: &mut JsonWriter<W>,
    [ty, bytes, queue, url]: &[PreparedKey; 4],
    row: u64,
) {
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

fn rows_by_serde<W: Write>(out: W, rows: u64) -> Result<W> {
    let mut out = BufWriter::with_capacity(64 * 1024, out);
    let mut serializer = serde_json::Serializer::new(&mut out);
    serde::Serializer::collect_seq(
        &mut serializer,
        (0..rows).map(|row| row_by_serde(black_box(row))),
    )?;
    out.into_inner().map_err(|error| error.into_error().into())
}

fn row_by_serde(row: u64) -> Row<'static> {
    let (start, end) = times(row);
    let payload = Payload {
        r#type: "Request",
        bytes: row * 17,
        queue: 12,
        url: "https://example.org/item/42",
    };
    Row(
        row % 100,
        start as f64 / 1e6,
        end as f64 / 1e6,
        1,
        3,
        payload,
    )
}
