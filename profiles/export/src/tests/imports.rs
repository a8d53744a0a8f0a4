//! Imports `.cpuprofile` files and exports them again.

use std::collections::BTreeMap;

use serde_json::json;
use test_support::protobuf::{Field, fields};

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
    assert_eq!(done.samples, 3);
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

/// Three functions, of which `inner` has 8 of 10 samples of a millisecond.
fn ten_samples() -> Value {
    let nodes = json!([
        {"id": 1, "callFrame": frame("(root)", -1), "hitCount": 0, "children": [2, 3]},
        {"id": 2, "callFrame": frame("outer", 3), "hitCount": 1, "children": [4]},
        {"id": 3, "callFrame": frame("(idle)", -1), "hitCount": 1},
        {"id": 4, "callFrame": frame("inner", 9), "hitCount": 8},
    ]);
    let deltas: Vec<u32> = vec![1000; 10];
    json!({"nodes": nodes, "startTime": 1_000_000, "endTime": 1_011_000,
           "samples": [3, 4, 4, 4, 4, 4, 4, 4, 4, 2], "timeDeltas": deltas})
}

/// The time of each function itself in microseconds, and the remarks.
fn own_times(text: &str) -> (BTreeMap<String, u64>, Vec<String>) {
    let directory = tempfile::tempdir().unwrap();
    let from = directory.path().join("cpu.cpuprofile");
    let to = directory.path().join("imported.json");
    std::fs::write(&from, text).unwrap();
    let imported = import_cpuprofile(&from, &to).unwrap();
    let out = directory.path().join("out");
    let done = export(&to, &out, &ExportOptions::to(Target::Folded)).unwrap();
    let mut times = BTreeMap::new();
    for line in std::fs::read_to_string(&done.files[0]).unwrap().lines() {
        let (stack, time) = line.rsplit_once(' ').unwrap();
        let name = stack.rsplit(';').next().unwrap().to_owned();
        *times.entry(name).or_insert(0) += time.parse::<u64>().unwrap();
    }
    (times, imported.remarks)
}

#[test]
fn samples_without_times_keep_their_shares_and_the_guess_is_said() {
    let without = |members: &[&str]| {
        let mut text = ten_samples();
        for member in members {
            text.as_object_mut().unwrap().remove(*member);
        }
        text
    };
    let mut few = ten_samples();
    few["timeDeltas"] = json!([1000, 1000, 1000, 1000, 1000, 1000, 1000]);
    let mut stamps = without(&["timeDeltas"]);
    stamps["timestamps"] = (1..=10).map(|ms| json!(1_000_000 + ms * 1000)).collect();
    let cases = [
        (ten_samples(), 1000, 0),
        (without(&["timeDeltas"]), 1100, 1),
        (without(&["samples", "timeDeltas"]), 1100, 1),
        (
            without(&["startTime", "endTime", "samples", "timeDeltas"]),
            1000,
            1,
        ),
        (without(&["endTime"]), 1000, 0),
        (without(&["startTime", "endTime"]), 1000, 0),
        (few, 1000, 1),
        (stamps, 1000, 0),
    ];
    for (text, share, remarks) in cases {
        let (times, said) = own_times(&text.to_string());
        assert_eq!(times.get("inner"), Some(&(share * 8)), "{text} {times:?}");
        assert_eq!(times.get("outer"), Some(&share), "{text} {times:?}");
        assert_eq!(said.len(), remarks, "{said:?}");
    }
}

#[test]
fn other_forms_of_the_same_file_have_the_same_times() {
    let text = ten_samples();
    let expected = own_times(&text.to_string()).0;
    let mut floats = text.clone();
    floats["nodes"][1]["callFrame"]["lineNumber"] = json!(3.0);
    let mut nulls = text.clone();
    nulls["nodes"][1]["callFrame"]["url"] = Value::Null;
    nulls["nodes"][1]["callFrame"]["columnNumber"] = Value::Null;
    nulls["nodes"][2]["children"] = Value::Null;
    nulls["nodes"][2]["hitCount"] = Value::Null;
    let forms = [
        format!("\u{feff}{text}"),
        json!({"profile": text}).to_string(),
        json!({"id": 7, "result": {"profile": text}}).to_string(),
        floats.to_string(),
        nulls.to_string(),
    ];
    for form in forms {
        assert_eq!(own_times(&form), (expected.clone(), Vec::new()), "{form}");
    }
}

/// A tree in the older form: a chain of calls, the innermost with all samples.
fn older(depth: u64) -> String {
    let mut text = String::new();
    for id in 1..=depth {
        text += &format!(
            r#"{{"functionName":"f{id}","url":"/a.js","lineNumber":{id},"id":{id},"hitCount":0,"children":["#
        );
    }
    text += &"]}".repeat(usize::try_from(depth).unwrap());
    format!(
        r#"{{"head":{text},"startTime":1,"endTime":2,"samples":[{depth},{depth}],"timestamps":[1000000,1001000]}}"#
    )
}

#[test]
fn the_older_form_is_imported_at_any_depth() {
    for depth in [1, 47, 48, 49, 200, 3000] {
        let (times, remarks) = own_times(&older(depth));
        assert_eq!(times, BTreeMap::from([(format!("f{depth}"), 2000)]));
        assert_eq!(remarks, Vec::<String>::new());
    }
}

#[test]
fn pprof_shows_the_time_of_an_imported_file_by_default() {
    let (directory, profile) = imported(&ten_samples());
    let to = directory.path().join("out.pb");
    let done = export(&profile, &to, &ExportOptions::to(Target::Pprof)).unwrap();
    let mut bytes = Vec::new();
    let file = std::fs::File::open(&done.files[0]).unwrap();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(file), &mut bytes).unwrap();
    let texts = all_texts(&bytes);
    let default = default_sample_type(&bytes);
    assert_eq!(texts[usize::try_from(default).unwrap()], "wall");
}

fn all_texts(bytes: &[u8]) -> Vec<String> {
    let texts = fields(bytes).into_iter().filter_map(|field| match field {
        Field::Bytes(6, text) => Some(String::from_utf8(text.to_vec()).unwrap()),
        _ => None,
    });
    texts.collect()
}

fn default_sample_type(bytes: &[u8]) -> u64 {
    let of_type = |field| match field {
        Field::Number(14, value) => Some(value),
        _ => None,
    };
    fields(bytes).into_iter().find_map(of_type).unwrap()
}
