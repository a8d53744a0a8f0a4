//! Tests of the data of the page, and of its text.

use std::path::PathBuf;

use profiler_files::WorkListener;
use serde_json::{Value, json};

use super::super::compare::{ComparisonParams, compare};
use super::super::run::RunParams;
use super::*;

const PARAMS: RunParams = RunParams {
    blocks: 1,
    names: false,
    merge_numbered: false,
    with_trees: true,
};

/// A profile whose functions have these names, and whose stacks are the numbers of functions, the
/// innermost last; each sample takes 1 ms.
fn profile(process: &str, names: &[&str], stacks: &[Vec<usize>]) -> Value {
    let (mut frames, mut callers, mut leaves) = (Vec::new(), Vec::new(), Vec::new());
    for stack in stacks {
        for (depth, function) in stack.iter().enumerate() {
            callers.push((depth > 0).then(|| frames.len() - 1));
            frames.push(*function);
        }
        leaves.push(frames.len() - 1);
    }
    let functions: Vec<usize> = (0..names.len()).collect();
    json!({
        "meta": {"preprocessedProfileVersion": 66, "interval": 1, "sampleUnits": {"threadCPUDelta": "ns"}},
        "threads": [{
            "name": "t", "processName": process, "pid": "7", "tid": 1,
            "samples": {
                "length": leaves.len(), "stack": leaves, "timeDeltas": vec![1; leaves.len()],
                "threadCPUDelta": vec![500_000; leaves.len()],
            },
        }],
        "shared": {
            "stackTable": {"length": frames.len(), "frame": frames, "prefix": callers},
            "frameTable": {"length": names.len(), "func": functions},
            "funcTable": {"length": names.len(), "name": functions},
            "stringArray": names,
        },
    })
}

fn read(profile: &Value) -> Run {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), profile.to_string()).unwrap();
    let run = Run::read(file.path(), PARAMS, WorkListener::default()).unwrap();
    Run {
        file: PathBuf::from("run.json"),
        ..run
    }
}

fn with_data<T>(before: &[Run], after: &[Run], use_it: impl FnOnce(&PageData<'_>) -> T) -> T {
    let params = ComparisonParams {
        smallest: 0.5,
        by: None,
        blocks: 1,
    };
    let comparison = compare(before, after, params);
    use_it(&PageData::of(&comparison, Sides { before, after }))
}

fn json_of(before: &[Run], after: &[Run]) -> Value {
    with_data(before, after, |data| serde_json::to_value(data).unwrap())
}

#[test]
fn the_page_has_the_merged_tree_of_all_runs() {
    let names = ["main", "old", "new"];
    let before = profile("p", &names, &[vec![0], vec![0, 1], vec![0, 1], vec![0]]);
    let after = profile("p", &names, &[vec![0], vec![0, 1], vec![0, 2], vec![0, 2]]);
    let share = |before: f64, after: f64| json!({"before": before as i64, "after": after as i64, "mark": false});
    let change = |function: usize, own: (f64, f64), total: (f64, f64)| {
        let shares = json!({"self": share(own.0, own.1), "total": share(total.0, total.1)});
        (function, shares)
    };
    let data = json_of(&[read(&before), read(&before)], &[read(&after)]);
    // The processor time of the first sample of a thread is unknown.
    let expected = json!({
        "files": {"before": ["run.json", "run.json"], "after": ["run.json"]},
        "by": "cpu", "hasCpu": true,
        "marks": data["marks"],
        "leftOut": {"nodes": 0, "of": 3},
        "names": ["(smaller calls)", "main", "old", "new"],
        "processes": [{
            "name": "p",
            "all": {"cpu": [1.5, 1.5], "wall": [4, 4]},
            "callers": [-1, 0, 0],
            "functions": [1, 2, 3],
            "own": {"cpu": [[0.5, 1, 0], [0, 0.5, 1]], "wall": [[2, 2, 0], [1, 1, 2]]},
            "changes": data["processes"][0]["changes"],
        }],
    });
    assert_eq!(data, expected);
    let changes = data["processes"][0]["changes"].as_array().unwrap();
    let of = |(function, shares): (usize, Value)| {
        let found = changes.iter().find(|change| change["function"] == function);
        assert_eq!(found.unwrap()["wall"], shares);
    };
    of(change(2, (50.0, 25.0), (50.0, 25.0)));
    of(change(3, (0.0, 50.0), (0.0, 50.0)));
    of(change(1, (50.0, 25.0), (100.0, 100.0)));
}

#[test]
fn small_parts_are_left_out_and_counted_and_all_times_add_up() {
    // More paths than fit, each with one sample, and one with many.
    let count = tree::MAX_NODES + 1000;
    let names: Vec<String> = (0..count).map(|number| format!("f{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let few = (1..count).map(|function| vec![0, function]);
    let stacks: Vec<Vec<usize>> = few.chain((0..3000).map(|_| vec![0, 1])).collect();
    let run = read(&profile("p", &names, &stacks));
    let data = json_of(&[run], &[read(&profile("p", &names[..2], &[vec![0, 1]]))]);
    let process = &data["processes"][0];
    let functions = process["functions"].as_array().unwrap();
    assert_eq!(functions.len(), 3, "main, f1, and one for all others");
    assert_eq!(data["leftOut"], json!({"nodes": count - 2, "of": count}));
    let own = process["own"]["wall"][0].as_array().unwrap();
    let sum: f64 = own.iter().map(|ms| ms.as_f64().unwrap()).sum();
    assert_eq!(sum, process["all"]["wall"][0].as_f64().unwrap());
    assert_eq!(data["names"].as_array().unwrap().len(), 3);
}

#[test]
fn deep_stacks_end_at_the_deepest_row() {
    let deep = profile("p", &["f"], &[vec![0; 2000]]);
    let data = json_of(&[read(&deep)], &[read(&deep)]);
    assert_eq!(data["leftOut"], json!({"nodes": 1500, "of": 2000}));
    assert_eq!(
        data["processes"][0]["functions"].as_array().unwrap().len(),
        501
    );
}

#[test]
fn foreign_names_are_only_data() {
    let evil = "</script><!--<script>alert(1)</script>\u{202e}\u{1b}[31m";
    let run = || read(&profile(evil, &["main", evil], &[vec![0, 1]]));
    let mut page = Vec::new();
    with_data(&[run()], &[run()], |data| write_page(data, &mut page)).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert_eq!(page.matches("</script>").count(), 2, "those of the page");
    assert_eq!(page.matches("<!--").count(), 0);
    assert!(!page.contains('\u{202e}') && !page.contains('\u{1b}'));
    let (_, rest) = page.split_once(r#"id="data">"#).unwrap();
    let (json, _) = rest.split_once("</script>").unwrap();
    let data: Value = serde_json::from_str(json).unwrap();
    let names = data["names"].as_array().unwrap();
    let shown = |name: &Value| {
        let name = name.as_str().unwrap();
        name.starts_with("</script><!--<script>alert(1)</script>")
    };
    assert!(names.iter().any(shown), "{names:?}");
}

#[test]
fn the_page_loads_nothing() {
    let run = || read(&profile("p", &["main"], &[vec![0]]));
    let mut page = Vec::new();
    with_data(&[run()], &[run()], |data| write_page(data, &mut page)).unwrap();
    let page = String::from_utf8(page).unwrap();
    for part in [
        "<!doctype html>",
        "class FlameGraph",
        "function chosenTree",
        "--shrank",
        "default-src 'none'",
        "</html>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for address in ["http:", "https:", "//www", " src=", "@import", "url("] {
        assert!(!page.contains(address), "{address}");
    }
}
