//! The call trees of all runs of both sides, merged into one for each process name. Pure.
//!
//! Used by [`super::data`]. A node stands for a path of functions with the same names; its times
//! are the means over the runs of each side. Nodes with small shares are left out: a node
//! [`LEFT_OUT`] below their caller has their time, so all times add up. Invariant: there are at
//! most [`MAX_NODES`] nodes of functions, and as many for left-out ones.

use std::collections::HashMap;

use profiler_export::call_tree::{CallId, CallTree};

use super::super::changes::Sides;
use super::super::run::{ProcessRun, Run, Times};

/// The largest number of nodes of all processes together.
pub(super) const MAX_NODES: usize = 20_000;

/// Nodes with smaller shares of both sides are left out: a twentieth of a pixel.
const SMALLEST_SHARE: f64 = 2e-5;

/// The maximum depth of a node; deeper nodes are left out.
const MAX_DEPTH: usize = 500;

/// The longest name, in characters.
const LONGEST_NAME: usize = 500;

/// The name of the nodes that stand for the nodes that are left out.
const LEFT_OUT: &str = "(smaller calls)";

/// The number of [`LEFT_OUT`].
const LEFT_OUT_NUMBER: usize = 0;

/// The names of functions and their numbers.
#[derive(Debug)]
pub(super) struct FunctionNames {
    pub(super) all: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl FunctionNames {
    pub(super) fn new() -> Self {
        let mut names = Self {
            all: Vec::new(),
            numbers: HashMap::new(),
        };
        names.number(LEFT_OUT);
        names
    }

    pub(super) fn number(&mut self, name: &str) -> usize {
        if let Some(known) = self.numbers.get(name) {
            return *known;
        }
        let next = self.all.len();
        self.all.push(shown(name));
        self.numbers.insert(name.to_owned(), next);
        next
    }
}

/// A foreign text in a form that can be drawn: without control characters and without characters
/// that change the direction of the text around them, and not too long.
pub(super) fn shown(text: &str) -> String {
    let is_invisible = |letter: char| {
        letter.is_control()
            || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let visible = text.chars().map(|letter| {
        if is_invisible(letter) {
            '\u{fffd}'
        } else {
            letter
        }
    });
    let mut shown: String = visible.clone().take(LONGEST_NAME).collect();
    if visible.count() > LONGEST_NAME {
        shown.push('…');
    }
    shown
}

/// The merged call trees of the processes with one name.
#[derive(Debug, Default)]
pub(super) struct DiffTree {
    /// The functions are the numbers of their names.
    pub(super) calls: CallTree<usize, Sides<Times>>,
    /// The time of each node with all callees, before any node is left out.
    totals: Vec<Sides<Times>>,
    /// The time of all threads.
    pub(super) all: Sides<Times>,
}

impl DiffTree {
    /// Merges the trees of the processes with this name in all runs.
    pub(super) fn of(name: &str, runs: Sides<&[Run]>, names: &mut FunctionNames) -> Self {
        let zero = Times::default();
        let before = |before| Sides {
            before,
            after: zero,
        };
        let after = |after| Sides {
            before: zero,
            after,
        };
        let mut tree = Self::default();
        tree.add_runs(name, runs.before, names, before);
        tree.add_runs(name, runs.after, names, after);
        tree.totals = tree.calls.totals();
        tree
    }

    /// Adds the runs of one side; `of_side` makes the times of that side.
    fn add_runs(
        &mut self,
        name: &str,
        runs: &[Run],
        names: &mut FunctionNames,
        of_side: impl Fn(Times) -> Sides<Times>,
    ) {
        let part = 1.0 / runs.len().max(1) as f64;
        let mean = |times: Times| of_side(times * part);
        for process in runs.iter().filter_map(|run| run.processes.get(name)) {
            let ProcessRun { all, tree, .. } = process;
            all.iter().for_each(|times| self.all += mean(*times));
            let functions = tree.functions.iter().map(|name| names.number(name));
            let functions: Vec<usize> = functions.collect();
            let function = |number: usize| functions.get(number).copied();
            let function = |number| function(number).unwrap_or(LEFT_OUT_NUMBER);
            self.calls.merge(&tree.calls, function, mean);
        }
    }

    /// The largest share of a time in that of all threads, of any kind on any side.
    fn share(&self, of: &Sides<Times>) -> f64 {
        let shares = amounts(of).into_iter().zip(amounts(&self.all));
        let shares = shares.map(|(of, all)| if all > 0.0 { of / all } else { 0.0 });
        shares.fold(0.0, f64::max)
    }

    /// Leaves out the nodes with smaller shares than this. Returns their number.
    fn leave_out(&mut self, least: f64) -> usize {
        let mut kept: CallTree<usize, Sides<Times>> = CallTree::default();
        // The place and the depth of each node that is kept.
        let mut places: Vec<Option<(CallId, usize)>> = Vec::with_capacity(self.calls.count());
        let mut left_out = 0;
        for ((_, node), total) in self.calls.nodes().zip(&self.totals) {
            let caller = node
                .caller
                .map(|caller| places.get(caller.index()).copied().flatten());
            let place = match caller {
                // A node whose caller is left out is in the time of its caller.
                Some(None) => None,
                _ => {
                    let caller = caller.flatten();
                    let depth = caller.map_or(0, |(_, depth)| depth + 1);
                    let is_kept = depth < MAX_DEPTH && self.share(total) >= least;
                    let (function, time) = match is_kept {
                        true => (node.func, node.own),
                        false => (LEFT_OUT_NUMBER, *total),
                    };
                    let place = kept.callee(caller.map(|(caller, _)| caller), function);
                    kept.add_own(place, time);
                    is_kept.then_some((place, depth))
                }
            };
            left_out += usize::from(place.is_none());
            places.push(place);
        }
        self.calls = kept;
        left_out
    }
}

/// All times of both sides.
fn amounts(times: &Sides<Times>) -> [f64; 4] {
    let Sides { before, after } = times;
    [before.cpu, after.cpu, before.wall, after.wall]
}

/// Leaves out small nodes of all trees, until few enough are left. Returns their number.
pub(super) fn leave_out_small(trees: &mut [DiffTree]) -> usize {
    let shares = trees.iter().flat_map(|tree| {
        let shares = tree.totals.iter().map(move |total| tree.share(total));
        shares.filter(|share| *share >= SMALLEST_SHARE)
    });
    let mut shares: Vec<f64> = shares.collect();
    shares.sort_unstable_by(|one, other| other.total_cmp(one));
    // Keeps the nodes with larger shares than the first one that does not fit.
    let least = shares.get(MAX_NODES).map(|share| share.next_up());
    let least = least.unwrap_or(SMALLEST_SHARE);
    trees.iter_mut().map(|tree| tree.leave_out(least)).sum()
}
