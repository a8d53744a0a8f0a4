//! Imports `.cpuprofile` files and exports them again.

use serde_json::json;

use super::*;

fn imported(text: &Value) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let from = directory.path().join("cpu.cpuprofile");
    let to = directory.path().join("imported.json.gz");
    std::fs::write(&from, text.to_string()).unwrap();
    import_cpuprofile(&from, &to).unwrap();
    (directory, to)
}

fn frame(name: &str, line: i64) -> Value {
    json!({"functionName": name, "scriptId": "1", "url": "file:///x.js", "lineNumber": line, "columnNumber": 2})
}

#[test]
fn x9_an_imported_profile_is_exported_with_the_same_times() {
    let nodes = json!([
        {"id": 7, "callFrame": frame("(root)", -1), "hitCount": 0, "children": [3, 9]},
        {"id": 3, "callFrame": frame("a", 4), "hitCount": 2, "children": [4]},
        {"id": 4, "callFrame": frame("b", 9), "hitCount": 1},
        {"id": 9, "callFrame": frame("(idle)", -1), "hitCount": 1},
    ]);
    let text = json!({"nodes": nodes, "startTime": 1000, "endTime": 2000, "samples": [3, 4, 9, 3],
                      "timeDeltas": [100, 250, 50, 300]});
    let (directory, profile) = imported(&text);
    let options = ExportOptions::to(Target::CpuProfile);
    let done = export(&profile, &directory.path().join("out"), &options).unwrap();
    let again = json(&done.files[1]);
    assert_eq!(
        (done.samples, &again["timeDeltas"]),
        (4, &json!([0, 250, 50, 300]))
    );
    assert_eq!(
        (again["startTime"].as_i64(), again["endTime"].as_i64()),
        (Some(1100), Some(2000))
    );
    let name = |id: &Value| {
        let node = again["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .find(|node| node["id"] == *id)
            .unwrap();
        node["callFrame"]["functionName"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let names: Vec<String> = again["samples"]
        .as_array()
        .unwrap()
        .iter()
        .map(name)
        .collect();
    assert_eq!(names, ["a", "b", "(idle)", "a"]);
    let b = again["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|node| node["callFrame"]["functionName"] == "b");
    assert_eq!(b.unwrap()["callFrame"]["lineNumber"], 9);
}

#[test]
fn x9_cyclic_nodes_and_samples_of_unknown_nodes_are_imported() {
    let node = |id: u64, children: Value| json!({"id": id, "callFrame": frame("f", 1), "children": children});
    let text = json!({"nodes": [node(1, json!([2])), node(2, json!([1, 2, 77]))], "startTime": 0, "endTime": 50,
                      "samples": [1, 2, 88], "timeDeltas": [10, -5]});
    let (directory, profile) = imported(&text);
    let done = export(
        &profile,
        &directory.path().join("out"),
        &ExportOptions::to(Target::Folded),
    )
    .unwrap();
    assert_eq!(done.samples, 2, "one of the three samples has no time");
}

#[test]
fn importing_a_file_that_is_no_cpuprofile_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let from = directory.path().join("x.cpuprofile");
    let to = directory.path().join("out.json");
    for text in [
        "",
        "{}",
        r#"{"nodes":[{"id":1}],"startTime":1,"endTime":2}"#,
    ] {
        std::fs::write(&from, text).unwrap();
        assert!(
            matches!(
                import_cpuprofile(&from, &to),
                Err(ExportError::NotACpuProfile { .. })
            ),
            "{text}"
        );
        assert!(!to.exists());
    }
}

#[test]
fn an_output_that_is_the_input_under_another_name_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cpu.cpuprofile");
    std::fs::write(&file, "what was there").unwrap();
    let same = directory.path().join(".").join("cpu.cpuprofile");
    assert!(matches!(
        import_cpuprofile(&file, &same),
        Err(ExportError::Onto { .. })
    ));
    let folded = ExportOptions::to(Target::Folded);
    assert!(matches!(
        export(&file, &same, &folded),
        Err(ExportError::Onto { .. })
    ));
    assert_eq!(std::fs::read(&file).unwrap(), b"what was there");
}
