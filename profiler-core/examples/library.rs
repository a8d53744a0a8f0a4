//! Example: a library that records, in a program that starts no session. Run it with
//! `cargo run -p profiler-core --example library`, also with `--no-default-features`.

use profiler_core::counter::Counter;
use profiler_core::groups::{Group, GroupKind};
use profiler_core::marker::{MarkerOptions, category};
use profiler_core::time::Timestamp;
use profiler_core::{label, marker, scope};

static BYTES: Counter = Counter::new(
    "Bytes counted",
    "Bandwidth",
    "Bytes in which words were counted",
);

/// The work of the library. Without a session, each macro costs one load; without the feature
/// `enabled`, it costs nothing.
#[label::function]
fn count_words(tenant: &Group, text: &str) -> usize {
    let _work = tenant.enter();
    let _scope = scope!("count words", &category::OTHER);
    let start = Timestamp::now();
    let words = text.split_whitespace().count();
    BYTES.add(i64::try_from(text.len()).unwrap_or(i64::MAX));
    marker!(
        "counted",
        &category::OTHER,
        MarkerOptions::interval_until_now_from(start)
    );
    words
}

fn main() {
    let tenant = Group::register(GroupKind::Tenant, "acme");
    println!("{} words", count_words(&tenant, "two words"));
}
