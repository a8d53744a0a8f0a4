//! Tests of the viewer's requests for names.

use std::sync::Mutex;

use profiler_symbols::server_api;
use profiler_symbols::server_api::{Library, RequestError};
use profiler_symbols::{Symbols, Wanted};
use serde_json::{Value, json};

use super::build::{self, C, line, line_of};

fn library(built: &build::Built) -> Library {
    Library {
        debug_name: "program".to_owned(),
        breakpad_id: "ABC0".to_owned(),
        path: built.path().to_owned(),
        build_id: built.build_id(),
    }
}

fn answer(
    request: &str,
    libraries: &[Library],
    symbols: &mut Symbols,
) -> Result<String, RequestError> {
    server_api::answer(request, libraries, |wanted| {
        symbols.resolve_all(wanted, &mut |_| {})
    })
}

fn ask(request: &Value, libraries: &[Library], symbols: &mut Symbols) -> Value {
    serde_json::from_str(&answer(&request.to_string(), libraries, symbols).unwrap()).unwrap()
}

#[test]
fn an_answer_is_written_after_the_symbols_are_unlocked() {
    let built = build::c(&["-g"]);
    let symbols = Mutex::new(built.symbols());
    let request = json!({"memoryMap": [["program", "ABC0"]], "stacks": [[[0, built.marks()[&4]]]]});
    let libraries = [library(&built)];
    // `resolve` takes the only lock with it, so the answer is written without one.
    let resolve = |wanted: &[Wanted<'_>]| {
        let places = symbols.lock().unwrap().resolve_all(wanted, &mut |_| {});
        drop(symbols);
        places
    };
    let answer = server_api::answer(&request.to_string(), &libraries, resolve).unwrap();
    assert!(answer.contains(r#""function":"plain""#), "{answer}");
}

#[test]
fn an_answer_has_function_file_line_and_inlined_functions() {
    let built = build::c(&["-g"]);
    let marks = built.marks();
    let request = json!({"jobs": [{
        "memoryMap": [["other", "0"], ["program", "ABC0"]],
        "stacks": [[[1, marks[&1]], [0, 5], [-1, 7]], [[1, marks[&4]]]],
    }]});
    let answer = ask(&request, &[library(&built)], &mut built.symbols());
    let result = &answer["results"][0];
    assert_eq!(
        result["found_modules"],
        json!({"other/0": false, "program/ABC0": true})
    );
    let frame = &result["stacks"][0][0];
    assert_eq!(
        (&frame["frame"], &frame["module"]),
        (&json!(0), &json!("program"))
    );
    assert_eq!(frame["module_offset"], json!(format!("{:#x}", marks[&1])));
    assert_eq!(
        (&frame["function"], &frame["line"]),
        (&json!("outer"), &json!(line_of(C, "middle();")))
    );
    assert!(frame["file"].as_str().unwrap().ends_with("/program.c"));
    let inlined: Vec<_> = frame["inlines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|frame| (&frame["function"], &frame["line"]))
        .collect();
    assert_eq!(
        inlined,
        [
            (&json!("inner"), &json!(line(C, 1))),
            (&json!("middle"), &json!(line_of(C, "inner();")))
        ]
    );
    let offset = frame["function_offset"]
        .as_str()
        .unwrap()
        .strip_prefix("0x")
        .unwrap();
    assert!(u64::from_str_radix(offset, 16).unwrap() < 64 && frame["function_size"].is_string());
    assert_eq!(
        result["stacks"][0][1],
        json!({"frame": 1, "module": "other", "module_offset": "0x5"})
    );
    assert_eq!(
        result["stacks"][0][2],
        json!({"frame": 2, "module": "", "module_offset": "0x7"})
    );
    assert_eq!(result["stacks"][1][0]["function"], "plain");
}

#[test]
fn a_request_may_be_a_single_job_and_files_that_the_profile_does_not_name_are_not_read() {
    let built = build::c(&["-g"]);
    let request = json!({"memoryMap": [["program", "DEF0"]], "stacks": [[[0, built.marks()[&1]]]]});
    let mut symbols = built.symbols();
    let answer = ask(&request, &[library(&built)], &mut symbols);
    assert_eq!(
        answer["results"][0]["found_modules"],
        json!({"program/DEF0": false})
    );
    assert_eq!(answer["results"][0]["stacks"][0][0].get("function"), None);
    assert_eq!(symbols.reports(), []);
}

#[test]
fn names_and_answers_are_bounded() {
    let ask = |name: String, count: usize| {
        let request = json!({"memoryMap": [[name, "0"]], "stacks": [vec![[0, 1]; count]]});
        answer(&request.to_string(), &[], &mut Symbols::default())
    };
    assert!(ask("x".repeat(4096), 1000).is_ok());
    assert!(matches!(
        ask("x".repeat(4097), 1),
        Err(RequestError::LongName(4097))
    ));
    assert!(matches!(
        ask("x".repeat(4096), 40_000),
        Err(RequestError::LongAnswer)
    ));
}

#[test]
fn a_malformed_request_is_refused() {
    for request in [
        "",
        "[]",
        "{}",
        "{\"jobs\":1}",
        "{\"memoryMap\":[],\"stacks\":[[[0,1]]]}",
        "{\"memoryMap\":[[\"a\",\"b\"]],\"stacks\":[[[-2,1]]]}",
    ] {
        assert!(
            answer(request, &[], &mut Symbols::default()).is_err(),
            "{request}"
        );
    }
}
