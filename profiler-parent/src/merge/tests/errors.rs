//! Inputs that cannot be merged: the reason is named, and no file is left or changed.

use serde_json::{Value, json};

use super::generated::recording;
use super::*;

fn refused(desk: &Desk, inputs: &[&Path], to: &str) -> MergeError {
    let inputs: Vec<_> = inputs.iter().map(|path| MergeInput::new(*path)).collect();
    let before = desk.files();
    let error = merge(&inputs, &[], &desk.path(to)).unwrap_err();
    assert_eq!(desk.files(), before, "{error}");
    error
}

#[test]
fn damaged_and_cut_files_are_refused_and_the_output_stays() {
    let desk = Desk::new();
    let good = desk.put("good.json", &recording(1, "a", 1e12));
    let old = desk.put("old.json", &json!("old"));
    let text = recording(2, "b", 1e12).to_string();
    let bad = desk.path("bad.json");
    let cuts = (1..40).map(|part| text.get(..text.len() * part / 40).unwrap());
    for cut in cuts.chain([
        "",
        "[]",
        "{}",
        r#"{"meta":{"preprocessedProfileVersion":60}}"#,
    ]) {
        std::fs::write(&bad, cut).unwrap();
        let error = refused(&desk, &[&good, &bad], "old.json");
        assert!(
            matches!(error, MergeError::Read(ReadError::NotAProfile { .. })),
            "{error}"
        );
        assert!(error.to_string().contains("bad.json"), "{error}");
    }
    assert_eq!(json(&old), "old");
}

#[test]
fn numbers_of_rows_that_do_not_exist_are_refused() {
    let desk = Desk::new();
    let good = desk.put("good.json", &recording(1, "a", 1e12));
    let places = [
        "/threads/0/samples/stack",
        "/threads/0/markers/name",
        "/threads/0/markers/category",
        "/shared/stackTable/frame",
        "/shared/stackTable/prefix",
        "/shared/frameTable/func",
        "/shared/funcTable/name",
        "/shared/funcTable/resource",
        "/shared/nativeSymbols/libIndex",
    ];
    for place in places {
        let mut profile = recording(3, "b", 1e12);
        *profile.pointer_mut(place).unwrap() = json!([77]);
        let bad = desk.put("bad.json", &profile);
        let error = refused(&desk, &[&good, &bad], "out.json").to_string();
        assert!(error.contains("77"), "{place}: {error}");
    }
    let mut profile = recording(3, "b", 1e12);
    profile["threads"][0]["markers"] =
        json!({"length": 1, "data": [{"type": "Sent", "flow": 77}], "name": [0]});
    let bad = desk.put("bad.json", &profile);
    let error = refused(&desk, &[&good, &bad], "out.json").to_string();
    assert!(error.contains("77"), "{error}");
}

#[test]
fn a_stack_whose_caller_comes_after_it_is_refused() {
    let desk = Desk::new();
    let mut profile = recording(3, "b", 1e12);
    profile["shared"]["stackTable"] = json!({"length": 2, "frame": [0, 0], "prefix": [1, null]});
    let bad = desk.put("bad.json", &profile);
    let error = refused(&desk, &[&bad], "out.json").to_string();
    assert!(error.contains("refers to stack 1"), "{error}");
}

#[test]
fn columns_that_are_not_known_are_refused_because_they_cannot_be_merged() {
    let desk = Desk::new();
    let mut profile = recording(3, "b", 1e12);
    profile["shared"]["frameTable"]["later"] = json!([1]);
    let bad = desk.put("bad.json", &profile);
    let error = refused(&desk, &[&bad], "out.json").to_string();
    assert!(error.contains("`later`"), "{error}");
}

#[test]
fn other_formats_and_versions_are_refused_with_the_reason() {
    let desk = Desk::new();
    let with = |version: Value| {
        let mut profile = recording(3, "b", 1e12);
        let meta = profile["meta"].as_object_mut().unwrap();
        meta.remove("preprocessedProfileVersion");
        if !version.is_null() {
            meta.insert("preprocessedProfileVersion".to_owned(), version);
        }
        profile
    };
    let gecko = desk.put("gecko.json", &with(Value::Null));
    assert!(matches!(
        refused(&desk, &[&gecko], "out.json"),
        MergeError::GeckoFormat { .. }
    ));
    let later = desk.put("later.json", &with(json!(66)));
    let error = refused(&desk, &[&later], "out.json");
    assert!(error.to_string().contains("version 66"), "{error}");
}

#[test]
fn a_file_is_neither_an_input_twice_nor_input_and_output() {
    let desk = Desk::new();
    let good = desk.put("good.json", &recording(1, "a", 1e12));
    let same = desk.path("./good.json");
    assert!(matches!(
        refused(&desk, &[&good, &same], "out.json"),
        MergeError::Twice { .. }
    ));
    assert!(matches!(
        refused(&desk, &[&good], "good.json"),
        MergeError::Onto { .. }
    ));
    assert!(matches!(
        refused(&desk, &[], "out.json"),
        MergeError::Nothing
    ));
    let missing = desk.path("none.json");
    let error = refused(&desk, &[&good, &missing], "out.json");
    assert!(
        matches!(error, MergeError::Read(ReadError::Read { .. })),
        "{error}"
    );
}

#[test]
fn different_units_are_refused() {
    let desk = Desk::new();
    let good = desk.put("good.json", &recording(1, "a", 1e12));
    let mut profile = recording(2, "b", 1e12);
    profile["meta"]["sampleUnits"]["threadCPUDelta"] = json!("µs");
    let other = desk.put("other.json", &profile);
    let error = refused(&desk, &[&good, &other], "out.json").to_string();
    assert!(error.contains("different units"), "{error}");
}

#[test]
fn a_merged_input_gets_no_new_name_and_an_unknown_host_is_not_moved() {
    let desk = Desk::new();
    let [a, b, c] =
        ["a", "b", "c"].map(|name| desk.put(&format!("{name}.json"), &recording(1, name, 1e12)));
    let (both, _) = desk.merge(&[&a, &b], "both.json");
    let named = MergeInput {
        name: Some("x".to_owned()),
        ..MergeInput::new(&both)
    };
    let to = desk.path("out.json");
    let error = merge(&[named, MergeInput::new(&c)], &[], &to).unwrap_err();
    assert!(error.to_string().contains("hosts a, b"), "{error}");
    let shift = HostShift {
        host: "x".to_owned(),
        ns: 1,
    };
    let error = merge(&[MergeInput::new(&c)], &[shift], &to).unwrap_err();
    assert!(error.to_string().contains("no host x"), "{error}");
}
