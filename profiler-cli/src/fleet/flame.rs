//! `profiler fleet flame`: the flame graph of a fleet, as text or as a file for a viewer.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use profiler_parent::fleet::{FleetFlame, FleetStack, StackTime};

use super::asked::{RowsArgs, print_json};
use super::table::{ms, percent};
use crate::plain::plain;
use crate::report::{say, tell};

/// The most stacks that are asked for.
const MOST_STACKS: usize = 200_000;
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
    rows: RowsArgs,
    /// Only this version of the services
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
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
    let filter = options.rows.filter(options.version.as_deref())?;
    let flame = FleetFlame::ask(&options.rows.store()?, &filter, MOST_STACKS)?;
    if flame.is_cut {
        tell(&format!(
            "profiler: the answer has only the {MOST_STACKS} largest stacks"
        ));
    }
    if let Some(output) = &options.output {
        let name = filter.service.as_deref().unwrap_or("fleet");
        let bytes = flame.write(output, name, options.by.time())?;
        say(&format!("{} stacks", flame.stacks.len()));
        say(&format!("wrote {} ({bytes} bytes)", output.display()));
    } else if options.rows.json {
        print_json("stacks", &flame.stacks)?;
    } else {
        tree(&flame.stacks, options.by.time())
            .iter()
            .for_each(|line| say(line));
    }
    Ok(())
}

/// A function that was called by the same callers.
#[derive(Debug, Default)]
struct Callee<'s> {
    us: u64,
    callees: BTreeMap<&'s str, Callee<'s>>,
}

/// The lines of the call tree: the largest callees first.
fn tree(stacks: &[FleetStack], time: StackTime) -> Vec<String> {
    let mut root = Callee::default();
    for stack in stacks {
        let us = stack.us(time);
        let mut at = &mut root;
        at.us = at.us.saturating_add(us);
        for name in stack.path.iter().take(DEEPEST) {
            at = at.callees.entry(name).or_default();
            at.us = at.us.saturating_add(us);
        }
    }
    let mut lines = vec![format!("{:>12}  {:>5}  function", "ms", "%")];
    add_lines(&root, root.us, 0, &mut lines);
    lines
}

fn add_lines(of: &Callee<'_>, all: u64, depth: usize, lines: &mut Vec<String>) {
    let smallest = u128::from(all) * u128::from(SMALLEST);
    let is_shown = |callee: &&Callee<'_>| u128::from(callee.us) * 1000 >= smallest;
    let mut callees: Vec<_> = of
        .callees
        .iter()
        .filter(|(_, callee)| is_shown(callee))
        .collect();
    callees.sort_by_key(|(name, callee)| (std::cmp::Reverse(callee.us), **name));
    for (name, callee) in callees.into_iter().filter(|(_, callee)| callee.us > 0) {
        let (time, share) = (ms(callee.us), percent(callee.us, all));
        lines.push(format!(
            "{time:>12}  {share:>5}  {:depth$}{}",
            "",
            plain(name)
        ));
        add_lines(callee, all, depth + 1, lines);
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
