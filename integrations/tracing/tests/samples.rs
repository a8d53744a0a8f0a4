//! Samples of a thread that is inside a span show the span.

use std::hint::black_box;
use std::path::Path;

use profiler_parent::Session;
use profiler_tracing::subscriber;
use serde::Deserialize;
use test_support::own_process;
use test_support::patience::until;
use tracing::info_span;

/// A profile in the processed format, as far as this test needs it.
#[derive(Deserialize)]
struct Profile {
    shared: SharedTables,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SharedTables {
    string_array: Vec<String>,
    func_table: Functions,
}

#[derive(Deserialize)]
struct Functions {
    name: Vec<usize>,
}

/// Whether a function or a label of this name is in a stack of the profile.
fn is_in_a_stack(profile: &Path, name: &str) -> bool {
    let text = std::fs::read_to_string(profile).unwrap();
    let Profile { shared } = serde_json::from_str(&text).unwrap();
    let mut names = shared.func_table.name.iter();
    names.any(|text| shared.string_array[*text] == name)
}

/// Uses the processor.
fn work() {
    black_box((0..20_000_000_u64).fold(0, |sum, number| black_box(sum ^ number)));
}

#[test]
fn samples_of_a_thread_inside_a_span_show_the_span() {
    own_process!();
    tracing::subscriber::set_global_default(subscriber()).unwrap();
    let session = Session::builder().start().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let profile = directory.path().join("profile.json");
    let never_entered = info_span!("never entered");
    assert!(until(|| {
        info_span!("busy span").in_scope(work);
        session.capture().save(&profile).unwrap();
        is_in_a_stack(&profile, "busy span")
    }));
    assert!(!is_in_a_stack(&profile, "never entered"));
    drop(never_entered);
}
