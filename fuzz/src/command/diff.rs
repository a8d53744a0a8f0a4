//! `profiler diff`: reads two runs and compares them.

use std::path::Path;

use profiler_files::WorkListener;

#[path = "../../../profiler-cli/src/diff/changes.rs"]
mod changes;
#[path = "../../../profiler-cli/src/diff/compare.rs"]
mod compare;
#[path = "../../../profiler-cli/src/diff/many_tests.rs"]
mod many_tests;
#[path = "../../../profiler-cli/src/diff/markers.rs"]
mod markers;
#[path = "../../../profiler-cli/src/diff/noise.rs"]
mod noise;
#[path = "../../../profiler-cli/src/diff/numbered.rs"]
mod numbered;
#[path = "../../../profiler-cli/src/diff/run.rs"]
mod run;

/// The number of blocks of a run that is compared without other runs of its side.
const BLOCKS: usize = 24;

/// Compares a profile with another one. Returns the length of the result as JSON.
pub(crate) fn compared(before: &Path, after: &Path) -> usize {
    let params = run::RunParams {
        blocks: BLOCKS,
        names: false,
        merge_numbered: false,
        with_trees: true,
    };
    let [before, after] = [before, after].map(|path| {
        run::Run::read(path, params, WorkListener::default()).expect("a readable profile")
    });
    let params = compare::ComparisonParams {
        smallest: 0.5,
        by: None,
        blocks: BLOCKS,
    };
    let comparison = compare::compare(&[before], &[after], params);
    serde_json::to_string(&comparison)
        .expect("the result as JSON")
        .len()
}
