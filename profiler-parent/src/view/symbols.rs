//! The viewer's question for symbols, and the answer of somebody who has none.
//!
//! The question is `{jobs: [{memoryMap: [[debugName, breakpadId]], stacks: [[[module, address]]]}]}`, or one
//! job alone; the answer has a frame for every address. Who has names gives the server a function
//! of its own.

use std::collections::BTreeMap;
use std::fs::File;

use serde::{Deserialize, Serialize};

/// Answers the JSON of a `symbolicate/v5` request; `None` if it is no such request. It is given the file that is
/// served as well: [`super::libraries`] says of which libraries may be asked. Several requests may come at once.
pub type Symbolicate = dyn Fn(&File, &str) -> Option<String> + Send + Sync;

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

#[derive(Debug, Serialize)]
struct Answer {
    results: Vec<Found>,
}

#[derive(Debug, Serialize)]
struct Found {
    found_modules: BTreeMap<String, bool>,
    stacks: Vec<Vec<Frame>>,
}

#[derive(Debug, Serialize)]
struct Frame {
    frame: usize,
    module: String,
    module_offset: String,
}

/// Says of every library that it is not known: a viewer shows addresses then.
pub fn no_symbols(_: &File, question: &str) -> Option<String> {
    let jobs = match serde_json::from_str(question).ok()? {
        Question::Many { jobs } => jobs,
        Question::One(job) => vec![job],
    };
    serde_json::to_string(&Answer { results: jobs.into_iter().map(unknown).collect() }).ok()
}

fn unknown(job: Job) -> Found {
    let modules = job.memory_map;
    let name = |module: i64| {
        let module = usize::try_from(module).ok().and_then(|module| modules.get(module));
        module.map_or_else(String::new, |(name, _)| name.clone())
    };
    let frame = |(frame, (module, address)): (usize, (i64, u64))| Frame {
        frame,
        module: name(module),
        module_offset: format!("{address:#x}"),
    };
    let stacks = job.stacks.into_iter().map(|stack| stack.into_iter().enumerate().map(frame).collect());
    let stacks = stacks.collect();
    Found {
        found_modules: modules.iter().map(|(name, id)| (format!("{name}/{id}"), false)).collect(),
        stacks,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn ask(question: &str) -> Option<String> {
        no_symbols(&tempfile::tempfile().unwrap(), question)
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
        for (question, results) in
            [(json!({"jobs": [job, job]}), json!([found, found])), (job.clone(), json!([found]))]
        {
            let answer: Value = serde_json::from_str(&ask(&question.to_string()).unwrap()).unwrap();
            assert_eq!(answer, json!({ "results": results }));
        }
    }

    #[test]
    fn what_is_no_question_gets_no_answer() {
        for wrong in ["", "[]", "{}", r#"{"jobs":[{"memoryMap":[],"stacks":[[[0]]]}]}"#, &"[".repeat(100_000)]
        {
            assert_eq!(ask(wrong), None, "{}", wrong.len());
        }
    }
}
