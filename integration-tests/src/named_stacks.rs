//! The stacks of a profile in the processed format, as functions with names, files and lines.
//!
//! Used by the tests of generated code.

use std::path::Path;

use anyhow::Context;
use serde_json::Value;

/// A function on a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFunction {
    /// Its name.
    pub name: String,
    /// Its source; empty if it has none.
    pub file: String,
    /// Its first line, if the profile contains it.
    pub line: Option<u64>,
}

/// A sample with a stack in which a thread used processor time.
#[derive(Debug)]
struct BusySample {
    process: String,
    at_ms: f64,
    stack: usize,
}

/// The time that a sample of a thread stands for.
#[derive(Debug)]
struct WeightedSample {
    process: u64,
    thread: u64,
    stack: Option<usize>,
    wall_ms: f64,
}

/// All stacks of a profile, each with the outermost function first, and the busy samples.
#[derive(Debug)]
pub struct NamedStacks {
    stacks: Vec<Vec<NamedFunction>>,
    samples: Vec<BusySample>,
    weighted: Vec<WeightedSample>,
    end_ms: f64,
}

impl NamedStacks {
    /// Reads a profile that is not compressed.
    ///
    /// # Errors
    /// When the file is not a profile in the processed format.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let profile = crate::tools::json(path)?;
        Self::of(&profile).context("a table is missing or damaged")
    }

    fn of(profile: &Value) -> Option<Self> {
        let shared = &profile["shared"];
        let column = |table: &str, name: &str| shared[table][name].as_array();
        let strings = shared["stringArray"].as_array()?;
        let text = |at: &Value| Some(strings.get(index(at)?)?.as_str()?.to_owned());
        let filenames = column("sources", "filename")?;
        let lines = column("funcTable", "lineNumber")?;
        let names = column("funcTable", "name")?;
        let sources = column("funcTable", "source")?;
        let function = |((name, source), line): ((&Value, &Value), &Value)| {
            let file = index(source).and_then(|source| text(filenames.get(source)?));
            Some(NamedFunction {
                name: text(name)?,
                file: file.unwrap_or_default(),
                line: line.as_u64(),
            })
        };
        let functions = names.iter().zip(sources).zip(lines).map(function);
        let functions: Vec<NamedFunction> = functions.collect::<Option<_>>()?;
        let of_frames = column("frameTable", "func")?;
        let frames = column("stackTable", "frame")?;
        let mut stacks: Vec<Vec<NamedFunction>> = Vec::new();
        for (frame, caller) in frames.iter().zip(column("stackTable", "prefix")?) {
            let callers = index(caller).and_then(|caller| stacks.get(caller).cloned());
            let mut stack = callers.unwrap_or_default();
            let function = functions.get(index(of_frames.get(index(frame)?)?)?)?;
            stack.push(function.clone());
            stacks.push(stack);
        }
        let threads = profile["threads"].as_array()?;
        let interval_ms = profile["meta"]["interval"].as_f64().unwrap_or(1.0);
        let weighted = |thread| weighted_samples(thread, interval_ms);
        Some(Self {
            stacks,
            samples: threads.iter().flat_map(busy_samples).collect(),
            weighted: threads.iter().flat_map(weighted).collect(),
            end_ms: profile["meta"]["profilingEndTime"].as_f64()?,
        })
    }

    /// When the profile was captured, in milliseconds since the start of the session, or later.
    pub fn end_ms(&self) -> f64 {
        self.end_ms
    }

    /// The time in the samples of a thread, given by the numbers of its process and its own, that
    /// have a function with this name on their stack; without a name, in all of its samples.
    pub fn wall_ms(&self, (process, thread): (u32, u32), name: Option<&str>) -> f64 {
        let has_name = |stack: usize, name: &str| {
            let stack = self.stacks.get(stack);
            stack.is_some_and(|stack| stack.iter().any(|function| is_named(function, name)))
        };
        let is_of = |sample: &&WeightedSample| {
            sample.process == u64::from(process)
                && sample.thread == u64::from(thread)
                && name.is_none_or(|name| sample.stack.is_some_and(|stack| has_name(stack, name)))
        };
        let own = self.weighted.iter().filter(is_of);
        own.map(|sample| sample.wall_ms).sum()
    }

    /// The number of samples after this time in which a process used processor time in this
    /// function, or in code that is in no file and has no name.
    pub fn samples_in(&self, process: &str, name: &str, after_ms: f64) -> usize {
        let is_wanted =
            |function: &NamedFunction| is_named(function, name) || is_nameless(function);
        let is_in = |sample: &&BusySample| {
            let stack = self.stacks.get(sample.stack);
            let has_it = stack.is_some_and(|stack| stack.iter().any(is_wanted));
            has_it && sample.process == process && sample.at_ms > after_ms
        };
        self.samples.iter().filter(is_in).count()
    }

    /// The first function with this name.
    pub fn function(&self, name: &str) -> Option<&NamedFunction> {
        let mut innermost = self.stacks.iter().filter_map(|stack| stack.last());
        innermost.find(|function| function.name == name)
    }

    /// Whether a stack has functions with these names, in this order, the outermost first. Other
    /// functions may be between them, and the names may have a path of Rust before them.
    pub fn has_in_order(&self, names: &[&str]) -> bool {
        self.stacks.iter().any(|stack| {
            let mut rest = stack.iter();
            names
                .iter()
                .all(|name| rest.any(|function| is_named(function, name)))
        })
    }

    /// Whether a stack has code that is in no file and has no name: it is shown as a number.
    pub fn has_nameless_code(&self) -> bool {
        self.stacks.iter().flatten().any(is_nameless)
    }
}

/// The samples of a thread with the times that they stand for.
fn weighted_samples(thread: &Value, interval_ms: f64) -> Vec<WeightedSample> {
    let samples = &thread["samples"];
    let number = |value: &Value| match value {
        Value::String(text) => text.parse().unwrap_or(0),
        value => value.as_u64().unwrap_or(0),
    };
    let (process, thread) = (number(&thread["pid"]), number(&thread["tid"]));
    let stacks = samples["stack"].as_array().into_iter().flatten();
    let unit_ms = if samples["weightType"] == "tracing-ms" {
        1.0
    } else {
        interval_ms
    };
    let weight = |row: usize| samples["weight"][row].as_f64().unwrap_or(1.0);
    let sample = |(row, stack): (usize, &Value)| WeightedSample {
        process,
        thread,
        stack: index(stack),
        wall_ms: weight(row) * unit_ms,
    };
    stacks.enumerate().map(sample).collect()
}

/// The busy samples of a thread.
fn busy_samples(thread: &Value) -> Vec<BusySample> {
    let samples = &thread["samples"];
    let column = |name: &str| samples[name].as_array().into_iter().flatten();
    let process = thread["processName"].as_str().unwrap_or_default();
    let times = column("timeDeltas").scan(0.0, |at_ms, delta| {
        *at_ms += delta.as_f64()?;
        Some(*at_ms)
    });
    let rows = times.zip(column("stack")).zip(column("threadCPUDelta"));
    let busy = rows.filter(|(_, used)| used.as_u64().is_some_and(|used| used > 0));
    busy.filter_map(|((at_ms, stack), _)| {
        Some(BusySample {
            process: process.to_owned(),
            at_ms,
            stack: index(stack)?,
        })
    })
    .collect()
}

fn is_named(function: &NamedFunction, name: &str) -> bool {
    let path = function.name.strip_suffix(name);
    path.is_some_and(|path| path.is_empty() || path.ends_with("::"))
}

fn is_nameless(function: &NamedFunction) -> bool {
    function.name.starts_with("0x")
}

fn index(value: &Value) -> Option<usize> {
    usize::try_from(value.as_u64()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn stacks_have_the_functions_of_their_frames() {
        let stacks = NamedStacks::of(&profile()).unwrap();
        let f = stacks.function("f").unwrap();
        assert_eq!((f.file.as_str(), f.line), ("/a.js", Some(7)));
        assert!(stacks.has_in_order(&["main", "f"]) && stacks.has_in_order(&["f"]));
        assert!(!stacks.has_in_order(&["f", "main"]) && !stacks.has_in_order(&["ain"]));
        assert!(stacks.has_nameless_code());
    }

    #[test]
    fn samples_are_counted_by_process_time_and_function_if_they_used_processor_time() {
        let stacks = NamedStacks::of(&profile()).unwrap();
        assert_eq!(stacks.samples_in("p", "f", 0.0), 3);
        assert_eq!(stacks.samples_in("p", "f", 2.0), 2, "not the one at 2 ms");
        assert_eq!(stacks.samples_in("p", "g", 0.0), 1, "the nameless one");
        assert_eq!(stacks.samples_in("p", "main", 0.0), 4);
        assert_eq!(stacks.samples_in("q", "f", 0.0), 0);
        assert!((stacks.end_ms() - 9.0).abs() < 0.1);
    }

    /// The stacks are `main`, `main` that calls `f`, and code without a name.
    fn profile() -> Value {
        json!({
            "meta": {"profilingEndTime": 9.0},
            "threads": [
                {"processName": "p", "samples": {
                    "timeDeltas": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
                    "stack": [0, 1, 1, 1, 2, null],
                    "threadCPUDelta": [5, 5, 5, 0, 5, 5],
                }},
                {"processName": "q", "samples": {
                    "timeDeltas": [1.0], "stack": [1], "threadCPUDelta": [null],
                }},
            ],
            "shared": {
                "stringArray": ["a::main", "f", "/a.js", "0x1000"],
                "sources": {"filename": [2]},
                "funcTable": {
                    "name": [0, 1, 3], "source": [null, 0, null], "lineNumber": [null, 7, null],
                },
                "frameTable": {"func": [1, 0, 2]},
                "stackTable": {"frame": [1, 0, 2], "prefix": [null, 0, null]},
            },
        })
    }
}
