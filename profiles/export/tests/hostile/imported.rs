//! Properties of the import of any file: no import panics, and an imported file becomes a profile
//! in the processed format that is well-formed. Its columns have equal lengths, its references are
//! valid, its length is bounded by that of the file, and every export reads it.
//!
//! Used by `foreign_files`, `merged` and the fuzz target `cpuprofile_import`.

use profiler_export::{ExportError, import_cpuprofile};
use serde_json::Value;

use super::exported;
use super::room::Room;

/// Imports a text. Returns the number of samples if the text was taken.
pub(crate) fn check(text: &[u8], room: &Room) -> Option<u64> {
    room.clear();
    let from = room.path("in.cpuprofile");
    let to = room.path("imported.json");
    std::fs::write(&from, text).expect("a writable file");
    match import_cpuprofile(&from, &to) {
        Err(error) => {
            assert!(
                matches!(error, ExportError::NotACpuProfile { .. }),
                "{error}"
            );
            assert_eq!(room.count(), 1, "a file is left");
            None
        }
        Ok(done) => {
            let written = std::fs::read(&to).expect("the file");
            assert_eq!(done.bytes, written.len() as u64);
            assert!(
                done.bytes <= 8192 + 64 * text.len() as u64,
                "{} bytes from {}",
                done.bytes,
                text.len()
            );
            let profile: Value = serde_json::from_slice(&written).expect("JSON");
            check_tables(&profile, done.samples);
            assert_eq!(
                exported::check(&written, room),
                Some(done.samples),
                "the imported profile is exported with all samples"
            );
            Some(done.samples)
        }
    }
}

pub(crate) fn column<'p>(table: &'p Value, key: &str) -> &'p [Value] {
    table[key]
        .as_array()
        .unwrap_or_else(|| panic!("no column {key}"))
}

/// Checks that all columns of a table have its length. Returns the length.
pub(crate) fn length(table: &Value) -> usize {
    let length = table["length"].as_u64().expect("a length") as usize;
    for (key, value) in table.as_object().expect("a table") {
        assert!(
            value.as_array().is_none_or(|column| column.len() == length),
            "{key}"
        );
    }
    length
}

pub(crate) fn check_refers(column: &[Value], length: usize) {
    let is_there =
        |value: &Value| value.is_null() || value.as_u64().is_some_and(|at| (at as usize) < length);
    assert!(column.iter().all(is_there), "an invalid reference");
}

fn check_tables(profile: &Value, samples: u64) {
    let stacks = check_shared(&profile["shared"]);
    let thread = &profile["threads"][0];
    assert_eq!(length(&thread["samples"]) as u64, samples);
    check_refers(column(&thread["samples"], "stack"), stacks);
    let times = |key: &str| {
        column(&thread["samples"], key)
            .iter()
            .map(|time| time.as_f64())
    };
    assert!(
        times("weight")
            .chain(times("timeDeltas"))
            .skip(1)
            .all(|ms| ms.is_some_and(|ms| ms >= 0.0))
    );
}

/// Checks the tables that threads share. Returns the number of stacks.
pub(crate) fn check_shared(shared: &Value) -> usize {
    let [stacks, frames, funcs, sources] =
        ["stackTable", "frameTable", "funcTable", "sources"].map(|table| length(&shared[table]));
    let texts = column(shared, "stringArray").len();
    check_refers(column(&shared["stackTable"], "frame"), frames);
    check_refers(column(&shared["frameTable"], "func"), funcs);
    check_refers(column(&shared["funcTable"], "name"), texts);
    check_refers(column(&shared["funcTable"], "source"), sources);
    check_refers(column(&shared["sources"], "filename"), texts);
    for (row, caller) in column(&shared["stackTable"], "prefix").iter().enumerate() {
        check_refers(std::slice::from_ref(caller), row);
    }
    stacks
}
