//! A library that records, and a program that does not care: `cargo run -p profiler-core --example
//! library`, also with `--no-default-features`.

use profiler_core::counter::Counter;
use profiler_core::groups::{Group, GroupKind};
use profiler_core::marker::{MarkerOptions, category};
use profiler_core::time::Timestamp;
use profiler_core::{label, marker, scope};

static BYTES: Counter = Counter::new("Bytes counted", "Bandwidth", "Bytes in which words were counted");

/// What the library does. Without a session each macro costs one load, or nothing without the
/// feature `enabled`.
#[label::function]
fn count_words(tenant: &Group, text: &str) -> usize {
    let _work = tenant.enter();
    let _scope = scope!("count words", &category::OTHER);
    let start = Timestamp::now();
    let words = text.split_whitespace().count();
    BYTES.add(i64::try_from(text.len()).unwrap_or(i64::MAX));
    marker!("counted", &category::OTHER, MarkerOptions::interval_until_now_from(start));
    words
}

fn main() {
    let tenant = Group::register(GroupKind::Tenant, "acme");
    println!("{} words", count_words(&tenant, "two words"));
}
