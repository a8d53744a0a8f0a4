//! The call trees of all runs of both sides, merged into one for each process name. Pure.
//!
//! Used by [`super::data`]. A node stands for a path of functions with the same names; its times
//! are the means over the runs of each side. Nodes with small shares are left out: a node
//! [`LEFT_OUT`] below their caller has their time, so all times add up. Invariants: a node comes
//! after its caller; there are at most [`MOST_NODES`] nodes of functions, and as many for left-out
//! ones.

use std::collections::HashMap;

use super::super::changes::Sides;
use super::super::run::{ProcessRun, Run, Times};

/// The largest number of nodes of all processes together.
pub(super) const MOST_NODES: usize = 20_000;

/// Nodes with smaller shares of both sides are left out: a twentieth of a pixel.
const SMALLEST_SHARE: f64 = 2e-5;

/// The maximum depth of a node; deeper nodes are left out.
const MOST_DEPTH: usize = 500;

/// The longest name, in characters.
const LONGEST_NAME: usize = 500;

/// The name of the nodes that stand for the nodes that are left out; its number is 0.
pub(super) const LEFT_OUT: &str = "(smaller calls)";

/// Milliseconds: processor time before and after, wall time before and after.
pub(super) type Amounts = [f64; 4];

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

/// A function that was called on a path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct DiffNode {
    pub(super) caller: Option<usize>,
    /// The number of its name.
    pub(super) function: usize,
    pub(super) own: Amounts,
    /// With all callees.
    total: Amounts,
    depth: usize,
}

/// The merged call trees of the processes with one name.
#[derive(Debug, Default)]
pub(super) struct DiffTree {
    pub(super) nodes: Vec<DiffNode>,
    /// The time of all threads.
    pub(super) all: Amounts,
}

impl DiffTree {
    /// Merges the trees of the processes with this name in all runs.
    pub(super) fn of(name: &str, runs: Sides<&[Run]>, names: &mut FunctionNames) -> Self {
        let mut tree = Self::default();
        let mut known = HashMap::new();
        for (side, runs) in [runs.before, runs.after].into_iter().enumerate() {
            let part = 1.0 / runs.len().max(1) as f64;
            for process in runs.iter().filter_map(|run| run.processes.get(name)) {
                tree.add(process, (side, part), names, &mut known);
            }
        }
        for at in (0..tree.nodes.len()).rev() {
            let Some(node) = tree.nodes.get_mut(at) else {
                continue;
            };
            add(&mut node.total, node.own);
            let (caller, total) = (node.caller, node.total);
            if let Some(caller) = caller.and_then(|caller| tree.nodes.get_mut(caller)) {
                add(&mut caller.total, total);
            }
        }
        tree
    }

    fn add(
        &mut self,
        process: &ProcessRun,
        (side, part): (usize, f64),
        names: &mut FunctionNames,
        known: &mut HashMap<(Option<usize>, usize), usize>,
    ) {
        let amounts = |times: Times| {
            let mut amounts = Amounts::default();
            let times = [(side, times.cpu), (side + 2, times.wall)];
            for (place, ms) in times {
                if let Some(amount) = amounts.get_mut(place) {
                    *amount = ms * part;
                }
            }
            amounts
        };
        for times in &process.all {
            add(&mut self.all, amounts(*times));
        }
        let functions: Vec<usize> = process
            .tree
            .functions
            .iter()
            .map(|name| names.number(name))
            .collect();
        let mut places: Vec<usize> = Vec::with_capacity(process.tree.nodes.len());
        for node in &process.tree.nodes {
            let caller = node.caller.and_then(|caller| places.get(caller).copied());
            let function = functions.get(node.function).copied().unwrap_or(0);
            let next = self.nodes.len();
            let place = *known.entry((caller, function)).or_insert(next);
            if place == next {
                let depth = caller.and_then(|caller| self.nodes.get(caller));
                self.nodes.push(DiffNode {
                    caller,
                    function,
                    depth: depth.map_or(0, |caller| caller.depth + 1),
                    ..DiffNode::default()
                });
            }
            if let Some(own) = self.nodes.get_mut(place) {
                add(&mut own.own, amounts(node.own));
            }
            places.push(place);
        }
    }

    /// The largest share of a node's time, of any kind on any side.
    fn share(&self, node: &DiffNode) -> f64 {
        let shares = node.total.iter().zip(&self.all);
        let shares = shares.map(|(of, all)| if *all > 0.0 { of / all } else { 0.0 });
        shares.fold(0.0, f64::max)
    }

    fn is_kept(&self, node: &DiffNode, least: f64) -> bool {
        node.depth < MOST_DEPTH && self.share(node) >= least
    }

    /// Leaves out the nodes with smaller shares than this. Returns their number.
    fn leave_out(&mut self, least: f64) -> usize {
        let mut kept: Vec<DiffNode> = Vec::new();
        let mut places: Vec<Option<usize>> = Vec::with_capacity(self.nodes.len());
        // The node for the left-out callees of a node, by its place; `None` is the outermost level.
        let mut rests: HashMap<Option<usize>, usize> = HashMap::new();
        let mut left_out = 0;
        for node in &self.nodes {
            let caller = match node.caller {
                None => Some(None),
                Some(caller) => places.get(caller).copied().flatten().map(Some),
            };
            // A node whose caller is left out is in the time of its caller.
            let place = caller.and_then(|caller| {
                if self.is_kept(node, least) {
                    kept.push(DiffNode { caller, ..*node });
                    return Some(kept.len() - 1);
                }
                let next = kept.len();
                let rest = *rests.entry(caller).or_insert(next);
                if rest == next {
                    kept.push(DiffNode {
                        caller,
                        ..DiffNode::default()
                    });
                }
                if let Some(rest) = kept.get_mut(rest) {
                    add(&mut rest.own, node.total);
                }
                None
            });
            left_out += usize::from(place.is_none());
            places.push(place);
        }
        self.nodes = kept;
        left_out
    }
}

/// Leaves out small nodes of all trees, until few enough are left. Returns their number.
pub(super) fn leave_out_small(trees: &mut [DiffTree]) -> usize {
    let shares = trees.iter().flat_map(|tree| {
        let shares = tree.nodes.iter().map(move |node| tree.share(node));
        shares.filter(|share| *share >= SMALLEST_SHARE)
    });
    let mut shares: Vec<f64> = shares.collect();
    shares.sort_unstable_by(|one, other| other.total_cmp(one));
    // Keeps the nodes with larger shares than the first one that does not fit.
    let least = shares.get(MOST_NODES).map(|share| share.next_up());
    let least = least.unwrap_or(SMALLEST_SHARE);
    trees.iter_mut().map(|tree| tree.leave_out(least)).sum()
}

fn add(to: &mut Amounts, amounts: Amounts) {
    for (to, amount) in to.iter_mut().zip(amounts) {
        *to += amount;
    }
}
