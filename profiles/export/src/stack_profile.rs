//! Writes stacks with their times as a profile, or as folded stacks.
//!
//! Called for the flame graph of a fleet, which has no order in time. The profile has one thread,
//! and the stacks follow one after the other. Invariant: the times in the files are those of the
//! stacks.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use super::ExportError;
use super::folded::push_plain;
use super::import::{self, CallFrame, Node, Origin, Profile};
use profiler_files::output::ProfileFile;

/// A stack with its time.
#[derive(Clone, Copy, Debug)]
pub struct WeightedStack<'s> {
    /// The names of the functions, the outermost first.
    pub path: &'s [String],
    /// Microseconds.
    pub us: u64,
}

const STACKS: Origin = Origin {
    name: "clickhouse",
    is_script: false,
};

/// The node of stacks without functions, which callers of all functions have.
const ROOT: u64 = 1;

/// Writes a profile in the processed format, compressed if the name ends in `.gz`. Returns its size
/// in bytes.
pub fn write_profile<'s>(
    stacks: impl Iterator<Item = WeightedStack<'s>>,
    name: &str,
    to: &Path,
) -> Result<u64, ExportError> {
    let mut tree = Tree::default();
    let mut profile = Profile {
        nodes: Vec::new(),
        start_time: 0.0,
        end_time: 0.0,
        samples: Vec::new(),
        time_deltas: Vec::new(),
    };
    let mut before_us = 0;
    for stack in stacks.filter(|stack| stack.us > 0) {
        profile.samples.push(tree.place(stack.path));
        profile.time_deltas.push(before_us as f64);
        profile.end_time += stack.us as f64;
        before_us = stack.us;
    }
    profile.nodes = tree.nodes;
    Ok(import::write(&profile, name, STACKS, to)?.bytes)
}

/// A function of which only the name is known.
fn function(name: &str) -> CallFrame {
    CallFrame {
        function_name: name.to_owned(),
        url: String::new(),
        line_number: -1,
        column_number: -1,
    }
}

/// The call tree of the stacks.
#[derive(Debug, Default)]
struct Tree {
    nodes: Vec<Node>,
    known: HashMap<(u64, String), u64>,
}

impl Tree {
    /// The node of a stack.
    fn place(&mut self, path: &[String]) -> u64 {
        let mut at = ROOT;
        let unknown = ["(unknown stack)".to_owned()];
        let path = if path.is_empty() { &unknown } else { path };
        for name in path {
            let next = ROOT + 1 + self.nodes.len() as u64;
            let id = *self.known.entry((at, name.clone())).or_insert(next);
            if id == next {
                self.nodes.push(Node {
                    id,
                    call_frame: function(name),
                    children: Vec::new(),
                    parent: Some(at),
                });
            }
            at = id;
        }
        at
    }
}

/// Writes folded stacks: `function;… microseconds`. Returns the size in bytes.
pub fn write_folded<'s>(
    stacks: impl Iterator<Item = WeightedStack<'s>>,
    to: &Path,
) -> Result<u64, ExportError> {
    let mut file = ProfileFile::create(to)?;
    let mut line = String::new();
    for WeightedStack { path, us } in stacks.filter(|stack| stack.us > 0) {
        line.clear();
        for (place, name) in path.iter().enumerate() {
            if place > 0 {
                line.push(';');
            }
            push_plain(name, &mut line);
        }
        if path.is_empty() {
            line.push_str("(unknown stack)");
        }
        writeln!(file, "{line} {us}")?;
    }
    Ok(file.commit()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(name: &str) -> String {
        let directory = tempfile::tempdir().unwrap();
        let to = directory.path().join(name);
        let paths: [&[&str]; 4] = [&["main", "a;b"], &["main"], &["main", "c"], &[]];
        let paths = paths.map(|path| {
            path.iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        });
        let stacks = paths.iter().zip([5, 0, 2, 1]);
        let stacks = stacks.map(|(path, us)| WeightedStack { path, us });
        let bytes = match name {
            "f" => write_folded(stacks, &to),
            _ => write_profile(stacks, "fleet", &to),
        };
        let text = std::fs::read_to_string(&to).unwrap();
        assert_eq!(bytes.unwrap(), text.len() as u64);
        text
    }

    #[test]
    fn folded_stacks_have_the_times_of_the_stacks() {
        assert_eq!(written("f"), "main;a:b 5\nmain;c 2\n(unknown stack) 1\n");
    }

    #[test]
    fn a_profile_of_stacks_has_their_times_as_weights() {
        let profile: serde_json::Value = serde_json::from_str(&written("p.json")).unwrap();
        let samples = &profile["threads"][0]["samples"];
        assert_eq!(samples["weight"], serde_json::json!([0.005, 0.002, 0.001]));
        assert_eq!(samples["weightType"], "tracing-ms");
        let shared = &profile["shared"];
        assert_eq!(
            shared["stackTable"]["prefix"],
            serde_json::json!([null, 0, 0, null])
        );
        assert_eq!(
            shared["funcTable"]["isJS"],
            serde_json::json!([false, false, false, false])
        );
    }
}
