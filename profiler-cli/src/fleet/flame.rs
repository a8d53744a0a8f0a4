//! `profiler fleet flame`: the flame graph of a fleet, as text or as a file for a viewer.

use std::cmp::Reverse;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use profiler_export::call_tree::{CallId, CallTree};
use profiler_fleet::{FleetFlame, FleetStack, StackTime};

use super::asked::{VersionArgs, print_json};
use super::table::{ms, percent};
use crate::console::{say, tell};
use crate::plain::plain;

/// The most stacks that are asked for.
const MAX_STACKS: usize = 200_000;
/// The smallest share of a function that is shown, in thousandths.
const SMALLEST: u64 = 5;
/// The deepest line.
const DEEPEST: usize = 60;

/// Shows where a fleet spent its time, as a call tree, or writes it for a viewer
///
/// With -o, the answer becomes a profile, which `profiler view` opens, or folded stacks if the name
/// ends in .folded. The tree shows functions with at least half a percent of the time.
#[derive(Debug, Args)]
pub(crate) struct FlameArgs {
    #[command(flatten)]
    version: VersionArgs,
    /// The time that counts
    #[arg(long, value_enum, value_name = "TIME", default_value_t = By::Cpu)]
    by: By,
    /// The file to write: a profile, compressed if the name ends in .gz, or folded stacks if it
    /// ends in .folded
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// Processor time
    Cpu,
    /// Time, running or waiting
    Wall,
}

impl By {
    const fn time(self) -> StackTime {
        match self {
            Self::Cpu => StackTime::Cpu,
            Self::Wall => StackTime::Wall,
        }
    }
}

pub(crate) fn run(options: &FlameArgs) -> Result<()> {
    let VersionArgs { rows, .. } = &options.version;
    let filter = options.version.filter()?;
    let flame = FleetFlame::ask(&rows.store()?, &filter, MAX_STACKS)?;
    if flame.is_cut {
        tell(&format!(
            "profiler: the answer has only the {MAX_STACKS} largest stacks"
        ));
    }
    if let Some(output) = &options.output {
        let name = filter.service.as_deref().unwrap_or("fleet");
        let bytes = flame.write(output, name, options.by.time())?;
        say(&format!("{} stacks", flame.stacks.len()));
        say(&format!("wrote {} ({bytes} bytes)", output.display()));
    } else if rows.json {
        print_json("stacks", &flame.stacks)?;
    } else {
        tree(&flame.stacks, options.by.time())
            .iter()
            .for_each(|line| say(line));
    }
    Ok(())
}

/// The lines of the call tree: the largest callees first.
fn tree(stacks: &[FleetStack], time: StackTime) -> Vec<String> {
    let mut all = 0_u128;
    let mut calls = CallTree::default();
    for stack in stacks {
        let us = u128::from(stack.us(time));
        all += us;
        let path = stack.path.iter().take(DEEPEST).map(String::as_str);
        calls.add(path, us);
    }
    let shown = ShownTree {
        totals: calls.totals().into_iter().map(narrow).collect(),
        all: narrow(all),
        calls,
    };
    let mut lines = vec![format!("{:>12}  {:>5}  function", "ms", "%")];
    let outermost = shown
        .calls
        .nodes()
        .filter(|(_, node)| node.caller.is_none());
    shown.add_lines(&mut outermost.map(|(id, _)| id), 0, &mut lines);
    lines
}

fn narrow(us: u128) -> u64 {
    u64::try_from(us).unwrap_or(u64::MAX)
}

/// A call tree, whose times are microseconds.
struct ShownTree<'s> {
    calls: CallTree<&'s str, u128>,
    /// The time of each node with all callees.
    totals: Vec<u64>,
    /// The time of all stacks.
    all: u64,
}

impl ShownTree<'_> {
    /// Adds the lines of callees of one caller.
    fn add_lines(
        &self,
        callees: &mut dyn Iterator<Item = CallId>,
        depth: usize,
        lines: &mut Vec<String>,
    ) {
        let smallest = u128::from(self.all) * u128::from(SMALLEST);
        let is_shown = |us: u64| us > 0 && u128::from(us) * 1000 >= smallest;
        let callee = |id: CallId| {
            let us = self.totals.get(id.index()).copied()?;
            is_shown(us).then_some((us, self.calls.node(id)?))
        };
        let mut callees: Vec<_> = callees.filter_map(callee).collect();
        callees.sort_by_key(|(us, node)| (Reverse(*us), node.func));
        for (us, node) in callees {
            let (time, share) = (ms(us), percent(us, self.all));
            let name = plain(node.func);
            lines.push(format!("{time:>12}  {share:>5}  {:depth$}{name}", ""));
            self.add_lines(&mut self.calls.callees(node), depth + 1, lines);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_has_sums_and_leaves_small_callees_out() {
        let stack = |path: &[&str], cpu_us| FleetStack {
            path: path.iter().map(|name| (*name).to_owned()).collect(),
            samples: 1,
            wall_us: 0,
            cpu_us,
        };
        let stacks = [
            stack(&["main", "a"], 600_000),
            stack(&["main"], 300_000),
            stack(&["main", "b", "c"], 99_000),
            stack(&["main", "small"], 1_000),
        ];
        let expected = [
            "          ms      %  function",
            "      1000.0  100.0  main",
            "       600.0   60.0   a",
            "        99.0    9.9   b",
            "        99.0    9.9    c",
        ];
        assert_eq!(tree(&stacks, StackTime::Cpu), expected);
        assert_eq!(tree(&stacks, StackTime::Wall).len(), 1);
    }

    #[test]
    fn times_of_any_size_have_a_tree() {
        let stack = |name: &str| FleetStack {
            path: vec![name.to_owned()],
            samples: 1,
            wall_us: 0,
            cpu_us: u64::MAX,
        };
        let tree = tree(&[stack("a"), stack("b")], StackTime::Cpu);
        let shares: Vec<_> = tree
            .iter()
            .skip(1)
            .map(|line| line.contains("100.0"))
            .collect();
        assert_eq!(shares, [true, true]);
    }
}
