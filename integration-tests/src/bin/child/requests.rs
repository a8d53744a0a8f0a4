//! A command that does the work of a small server, for pictures of the live flame graph.
//!
//! The functions compute numbers of different lengths; their names are what the picture shows.

use std::hint::black_box;
use std::time::Duration;

use crate::{Words, number};

/// `serve-requests PAUSE_MS`: starts a thread that handles requests until the process ends, with a
/// pause after each.
pub(crate) fn obey(name: &str, words: Words<'_>) -> Option<anyhow::Result<String>> {
    (name == "serve-requests").then(|| {
        let pause = Duration::from_millis(number(words, 0)?);
        let body = move || {
            for request in 1_u64.. {
                black_box(handle_request(request));
                wait_for_request(pause);
            }
        };
        std::thread::Builder::new()
            .name("request handler".to_owned())
            .spawn(body)?;
        Ok("ok".to_owned())
    })
}

#[inline(never)]
fn wait_for_request(pause: Duration) {
    std::thread::sleep(pause);
    black_box(());
}

#[inline(never)]
fn handle_request(request: u64) -> u64 {
    let query = parse_query(request);
    let page = render_page(query);
    black_box(page ^ write_log(page))
}

#[inline(never)]
fn parse_query(request: u64) -> u64 {
    black_box(decode_text(request, 200_000) ^ work(request, 100_000))
}

#[inline(never)]
fn render_page(query: u64) -> u64 {
    let rows = load_rows(query);
    let text = layout_text(rows, 5);
    black_box(text ^ compress(rows))
}

#[inline(never)]
fn load_rows(query: u64) -> u64 {
    black_box(hash_key(query) ^ work(query, 300_000) ^ decode_text(query, 300_000))
}

#[inline(never)]
fn layout_text(rows: u64, depth: u32) -> u64 {
    let own = measure_width(rows) ^ work(rows, 50_000);
    if depth == 0 {
        return black_box(own);
    }
    black_box(own ^ layout_text(rows, depth - 1))
}

#[inline(never)]
fn measure_width(rows: u64) -> u64 {
    black_box(work(rows, 150_000))
}

#[inline(never)]
fn compress(rows: u64) -> u64 {
    black_box(find_matches(rows) ^ work(rows, 200_000))
}

#[inline(never)]
fn find_matches(rows: u64) -> u64 {
    black_box(hash_key(rows) ^ work(rows, 700_000))
}

#[inline(never)]
fn decode_text(text: u64, steps: u64) -> u64 {
    black_box(work(text, steps))
}

#[inline(never)]
fn hash_key(key: u64) -> u64 {
    black_box(work(key, 250_000))
}

#[inline(never)]
fn write_log(page: u64) -> u64 {
    black_box(decode_text(page, 100_000) ^ work(page, 50_000))
}

#[inline(always)]
fn work(start: u64, steps: u64) -> u64 {
    let mut x = start | 1;
    for _ in 0..steps {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    x
}
