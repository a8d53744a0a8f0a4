//! Writes stacks with their times as a profile, or as folded stacks.
//!
//! Called for the flame graph of a fleet, which has no order in time. The profile has one thread,
//! and the stacks follow one after the other. Invariant: the times in the files are those of the
//! stacks.

use std::io::Write;
use std::path::Path;

use super::ExportError;
use super::call_tree::{CallId, CallNode, CallTree};
use super::folded::push_plain;
use super::import::{self, CallFrame, Node, Origin, TimedSample, Timing};
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

/// The name for a stack without functions.
const UNKNOWN: &str = "(unknown stack)";
/// The number of the root, which calls the outermost functions.
const ROOT: u64 = 1;

/// Writes a profile in the processed format, compressed if the name ends in `.gz`. Returns its size
/// in bytes.
pub fn write_profile<'s>(
    stacks: impl Iterator<Item = WeightedStack<'s>>,
    name: &str,
    to: &Path,
) -> Result<u64, ExportError> {
    let mut tree: CallTree<&str, u64> = CallTree::default();
    let mut timing = Timing::default();
    for stack in stacks.filter(|stack| stack.us > 0) {
        let path = stack.path.iter().map(String::as_str);
        let unknown = stack.path.is_empty().then_some(UNKNOWN);
        let place = tree.add(path.chain(unknown), 0); // the samples have the times
        timing.samples.push(TimedSample {
            node: number(place),
            at_us: timing.length_us,
            us: stack.us as f64,
        });
        timing.length_us += stack.us as f64;
    }
    let nodes: Vec<Node> = tree.nodes().map(node).collect();
    Ok(import::write(&nodes, &timing, (name, STACKS), to)?.bytes)
}

/// The number of a node in the profile.
fn number(id: Option<CallId>) -> u64 {
    ROOT + id.map_or(0, |id| u64::from(id.number()))
}

/// A node of the profile. Only the name of its function is known.
fn node((id, node): (CallId, &CallNode<&str, u64>)) -> Node {
    Node {
        id: number(Some(id)),
        call_frame: CallFrame {
            function_name: node.func.to_owned(),
            url: String::new(),
            line_number: -1,
            column_number: -1,
        },
        children: Vec::new(),
        parent: Some(number(node.caller)),
        hits: 0,
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
            line.push_str(UNKNOWN);
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
