//! Inputs that cannot be merged: the reason is named, and no file is left or changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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
        MergeError::DuplicateInput { .. }
    ));
    assert!(matches!(
        refused(&desk, &[&good], "good.json"),
        MergeError::OutputIsInput { .. }
    ));
    assert!(matches!(
        refused(&desk, &[], "out.json"),
        MergeError::NoInput
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

#[test]
fn a_merge_has_at_most_a_thousand_hosts() {
    let desk = Desk::new();
    let with = |count: usize| {
        let mut profile = recording(1, "a", 1e12);
        profile["meta"]["hosts"] = vec![json!({"name": "a"}); count].into();
        desk.put(&format!("{count}.json"), &profile)
    };
    let [many, more, one] = [600, 400, 1].map(with);
    let (_, merged) = desk.merge(&[&many, &more], "merged.json");
    assert_eq!(merged.hosts.len(), 1_000);
    assert_eq!(merged.hosts[999].name, "a (1000)");
    let error = refused(&desk, &[&many, &more, &one], "out.json");
    assert!(matches!(error, MergeError::TooManyHosts { most: 1_000 }));
    // No file is read before the inputs are counted.
    let missing = desk.path("none.json");
    let error = refused(&desk, &vec![missing.as_path(); 1_001], "out.json");
    assert!(matches!(error, MergeError::TooManyHosts { .. }), "{error}");
}

#[test]
fn a_host_gets_no_name_that_cannot_be_one() {
    let desk = Desk::new();
    let good = desk.put("good.json", &recording(1, "a", 1e12));
    for (name, why) in [
        (String::new(), "empty"),
        ("a\tb".to_owned(), "control characters"),
        ("a".repeat(256), "255 bytes"),
    ] {
        let named = MergeInput {
            name: Some(name),
            ..MergeInput::new(&good)
        };
        let error = merge(&[named], &[], &desk.path("out.json")).unwrap_err();
        assert!(matches!(error, MergeError::InvalidHostName { .. }));
        assert!(error.to_string().contains(why), "{error}");
    }
    let bad = desk.put("bad.json", &recording(1, "a\nb", 1e12));
    let error = refused(&desk, &[&bad], "out.json").to_string();
    assert!(error.contains("control characters"), "{error}");
    let named = MergeInput {
        name: Some("a".to_owned()),
        ..MergeInput::new(&bad)
    };
    merge(&[named], &[], &desk.path("out.json")).unwrap();
}

#[test]
fn properties_that_many_hosts_would_repeat_are_refused() {
    let desk = Desk::new();
    let other = desk.put("other.json", &recording(1, "b", 1e12));
    let mut profile = recording(1, "a", 1e12);
    profile["meta"]["hosts"] = vec![json!({}); 100].into();
    profile["meta"]["own"] = "x".repeat(200_000).into();
    let many = desk.put("many.json", &profile);
    let error = refused(&desk, &[&other, &many], "out.json").to_string();
    assert!(error.contains("too many properties"), "{error}");
    // They are written once if all inputs have them.
    desk.merge(&[&many], "merged.json");
}

#[test]
fn without_room_for_temporary_files_the_reason_is_named_and_no_input() {
    let desk = Desk::new();
    let old = desk.put("old.json", &json!("old"));
    let mut profile = recording(1, "a", 1e12);
    profile["later"] = vec![json!("0123456789"); 100_000].into();
    let inputs = ["a", "b"].map(|name| desk.put(&format!("{name}.json"), &profile));
    let inputs = inputs.map(MergeInput::new);
    let before = desk.files();
    let nowhere = desk.path("none");
    let last_pass = Arc::new(AtomicU64::new(0));
    let last = Arc::clone(&last_pass);
    let listener = on_pass(2, move |pass| {
        last.fetch_max(pass, Relaxed);
    });
    let error = merge_in(&nowhere, &inputs, &[], &old, &listener).unwrap_err();
    assert!(matches!(error, MergeError::Temporary { .. }), "{error}");
    assert!(error.to_string().contains("none"), "{error}");
    assert_eq!((desk.files(), json(&old)), (before, json!("old")));
    // The second input is not read again.
    assert_eq!(last_pass.load(Relaxed), 2);
}

#[test]
fn an_input_that_changes_between_the_passes_is_refused() {
    let desk = Desk::new();
    let inputs =
        ["a", "b"].map(|host| desk.put(&format!("{host}.json"), &recording(1, host, 1e12)));
    let changed = inputs[0].clone();
    let listener = on_pass(2, move |pass| {
        if pass == 1 {
            std::fs::write(&changed, "{}").unwrap();
        }
    });
    let inputs = inputs.map(MergeInput::new);
    let error = merge_with(&inputs, &[], &desk.path("out.json"), &listener).unwrap_err();
    assert!(matches!(error, MergeError::InputChanged { .. }), "{error}");
    assert!(error.to_string().contains("a.json"), "{error}");
}
