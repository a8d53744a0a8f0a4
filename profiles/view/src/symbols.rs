//! The viewer's request for symbols, and an answer without symbols.
//!
//! Called by the server on a worker thread. The request is `{jobs: [{memoryMap: [[debugName,
//! breakpadId]], stacks: [[[module, address]]]}]}`, or a single job; the answer has a frame for
//! every address. To answer with symbols, pass a different [`SymbolicationApi`] to the server.

use std::collections::BTreeMap;
use std::fs::File;

use serde::{Deserialize, Serialize, Serializer};

use super::api::{SymbolicationApi, error_answer};
use profiler_symbols::bounded::{LONGEST_ANSWER, LONGEST_NAME, to_json};

/// Answers that every library and every file is unknown.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSymbols;

impl SymbolicationApi for NoSymbols {
    fn symbolicate(&self, _: &File, request: &str) -> Option<String> {
        no_symbols(request)
    }

    fn source(&self, _: &File, _: &str) -> Option<String> {
        error_answer(&"this server has no source files")
    }

    fn assembly(&self, _: &File, _: &str) -> Option<String> {
        error_answer(&"this server has no libraries")
    }
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Question {
    Many { jobs: Vec<Job> },
    One(Job),
}

#[derive(Debug, Deserialize)]
struct Job {
    #[serde(rename = "memoryMap")]
    memory_map: Vec<(String, String)>,
    stacks: Vec<Vec<(i64, u64)>>,
}

#[derive(Serialize)]
struct Answer<'q> {
    results: Vec<Found<'q>>,
}

#[derive(Serialize)]
struct Found<'q> {
    found_modules: BTreeMap<String, bool>,
    stacks: Stacks<'q>,
}

/// All stacks of a job, computed during serialization.
struct Stacks<'q>(&'q Job);

/// One stack.
struct Stack<'q>(&'q Job, &'q [(i64, u64)]);

#[derive(Serialize)]
struct Frame<'q> {
    frame: usize,
    module: &'q str,
    module_offset: String,
}

impl Serialize for Stacks<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.stacks.iter().map(|frames| Stack(self.0, frames)))
    }
}

impl Serialize for Stack<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.1.iter().enumerate().map(|(frame, (module, address))| {
            let module = usize::try_from(*module)
                .ok()
                .and_then(|module| self.0.memory_map.get(module));
            let module = module.map_or("", |(name, _)| name);
            Frame {
                frame,
                module,
                module_offset: format!("{address:#x}"),
            }
        }))
    }
}

/// Answers that every library is unknown, so that the viewer shows addresses. Returns `None` if the
/// answer would exceed its limit, or a library name is too long.
pub(super) fn no_symbols(question: &str) -> Option<String> {
    let jobs = match serde_json::from_str(question).ok()? {
        Question::Many { jobs } => jobs,
        Question::One(job) => vec![job],
    };
    let mut texts = jobs
        .iter()
        .flat_map(|job| &job.memory_map)
        .flat_map(|(name, id)| [name, id]);
    if texts.any(|text| text.len() > LONGEST_NAME) {
        return None;
    }
    to_json(
        &Answer {
            results: jobs.iter().map(unknown).collect(),
        },
        LONGEST_ANSWER,
    )
}

fn unknown(job: &Job) -> Found<'_> {
    let found = job
        .memory_map
        .iter()
        .map(|(name, id)| (format!("{name}/{id}"), false));
    Found {
        found_modules: found.collect(),
        stacks: Stacks(job),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn ask(question: &str) -> Option<String> {
        no_symbols(question)
    }

    #[test]
    fn every_address_gets_a_frame_and_no_library_is_found() {
        let job = json!({"memoryMap": [["libc.so.6", "AB0"]], "stacks": [[[0, 255], [-1, 3]], []]});
        let found = json!({
            "found_modules": {"libc.so.6/AB0": false},
            "stacks": [[
                {"frame": 0, "module": "libc.so.6", "module_offset": "0xff"},
                {"frame": 1, "module": "", "module_offset": "0x3"},
            ], []],
        });
        for (question, results) in [
            (json!({"jobs": [job, job]}), json!([found, found])),
            (job.clone(), json!([found])),
        ] {
            let answer: Value = serde_json::from_str(&ask(&question.to_string()).unwrap()).unwrap();
            assert_eq!(answer, json!({ "results": results }));
        }
    }

    #[test]
    fn an_invalid_request_gets_no_answer() {
        for wrong in [
            "",
            "[]",
            "{}",
            r#"{"jobs":[{"memoryMap":[],"stacks":[[[0]]]}]}"#,
            &"[".repeat(100_000),
        ] {
            assert_eq!(ask(wrong), None, "{}", wrong.len());
        }
    }

    #[test]
    fn requests_with_too_long_names_or_answers_are_refused() {
        let ask_for = |name: &str, count: usize| {
            ask(&json!({"memoryMap": [[name, "AB0"]], "stacks": [vec![[0, 1]; count]]}).to_string())
        };
        assert!(ask_for(&"x".repeat(LONGEST_NAME), 1).is_some());
        assert_eq!(ask_for(&"x".repeat(LONGEST_NAME + 1), 1), None);
        // 4 KiB each: the answer would be far longer than the request.
        assert_eq!(
            ask_for(&"x".repeat(LONGEST_NAME), LONGEST_ANSWER / LONGEST_NAME + 1),
            None
        );
    }
}
