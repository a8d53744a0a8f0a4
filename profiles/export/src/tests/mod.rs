//! Exports a small recording, in both forms, to every format.

pub(super) mod fixture;
mod formats;
mod imports;
mod otlp;
mod perfetto;
mod perfetto_text;
mod pprof_bodies;
mod v8;

use std::path::Path;

use serde_json::Value;

use super::*;

/// Exports a profile that is given as JSON. Returns the directory and the result.
fn exported(text: &Value, target: Target, time: TimeKind) -> (tempfile::TempDir, Exported) {
    let directory = tempfile::tempdir().unwrap();
    let from = directory.path().join("profile.json");
    std::fs::write(&from, text.to_string()).unwrap();
    let options = ExportOptions {
        time,
        names: false,
        ..ExportOptions::to(target)
    };
    let done = export(&from, &directory.path().join("out"), &options).unwrap();
    (directory, done)
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn exporting_a_file_that_is_no_profile_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let from = directory.path().join("in.json");
    let to = directory.path().join("out");
    for text in [
        "",
        "[]",
        "{}",
        r#"{"meta":{},"threads":[{"samples":7}]}"#,
        r#"{"meta":{},"threads":["#,
    ] {
        std::fs::write(&from, text).unwrap();
        for target in [
            Target::Speedscope,
            Target::ChromeTrace,
            Target::Folded,
            Target::Pprof,
            Target::Perfetto,
        ] {
            let error = export(&from, &to, &ExportOptions::to(target)).unwrap_err();
            assert!(
                matches!(error, ExportError::NotAProfile { .. }),
                "{text}: {error}"
            );
            assert!(
                !to.exists() && std::fs::read_dir(directory.path()).unwrap().count() == 1,
                "{text}"
            );
        }
    }
    let missing = export(
        &directory.path().join("none"),
        &to,
        &ExportOptions::to(Target::Folded),
    );
    assert!(matches!(missing, Err(ExportError::Read { .. })));
}

#[test]
fn tables_with_invalid_references_are_exported() {
    let mut text = fixture::processed();
    text["shared"]["stackTable"]["prefix"] = serde_json::json!([4, 7, 1, 9e9, null, 2]);
    text["shared"]["stackTable"]["frame"] = serde_json::json!([99, -1, 1e300, null, 0, 1]);
    text["shared"]["funcTable"]["name"] = serde_json::json!([0, 77]);
    text["threads"][0]["samples"]["stack"] =
        serde_json::json!([5, 4_294_967_295_u64, -3, 1e300, null]);
    for target in [
        Target::CpuProfile,
        Target::Speedscope,
        Target::ChromeTrace,
        Target::Folded,
        Target::Pprof,
        Target::Perfetto,
    ] {
        let (_directory, done) = exported(&text, target, TimeKind::Cpu);
        assert!(done.files.iter().all(|file| file.exists()), "{target:?}");
    }
}
