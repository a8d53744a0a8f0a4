//! Tests of the tree of functions.

use proptest::prelude::*;

use super::columns::LeastNode;
use super::*;
use crate::frames::{KnownModules, ProcessFrames};
use crate::sample_bytes::TestSample;
use crate::stack_tree::RecorderPaths;
use crate::weights::Room;
use profiler_core::ids::{ChunkIndex, ThreadIndex};
use profiler_core::internal::entry::stack::Frame;
use profiler_core::internal::reader::{ChunkIdentity, Definitions};

/// One process whose frames are unknown addresses, so each is a function named by its address.
#[derive(Default)]
struct TestProcess {
    tree: StackTree,
    own: Vec<Values>,
}

#[derive(Default)]
struct Tester {
    frames: FrameTable,
    processes: Vec<TestProcess>,
}

impl Tester {
    fn add(&mut self, process: usize, stack: &[u64], now_ns: u64, before_ns: u64) {
        while self.processes.len() <= process {
            self.processes.push(TestProcess::default());
        }
        let TestProcess { tree, own } = &mut self.processes[process];
        let mut known = KnownModules::default();
        let definitions = Definitions::default();
        let mut room = Room::of(0, usize::MAX);
        let mut frames = ProcessFrames {
            table: &mut self.frames,
            definitions: &definitions,
            known: &mut known,
            room: &mut room,
        };
        // A return address is one behind its call, so all frames get the name of their number.
        let last = stack.len().saturating_sub(1);
        let word = |(place, number): (usize, &u64)| {
            Frame::Unknown(number + u64::from(place < last)).encode()
        };
        let sample = TestSample {
            own: stack.iter().enumerate().map(word).collect(),
            ..TestSample::default()
        };
        let chunk = ChunkIdentity {
            slot: ChunkIndex::new(0),
            generation: 1,
        };
        let node = sample.with(|sample| {
            RecorderPaths::default().node(ThreadIndex::new(1), chunk, sample, tree, &mut frames)
        });
        own.resize(tree.len(), Values::default());
        if let Some(own) = own.get_mut(node.0 as usize) {
            own.add(Values { now_ns, before_ns });
        }
    }

    fn tree(&self) -> FunctionTree {
        let mut tree = FunctionTree::new();
        for (number, process) in (0..).zip(&self.processes) {
            tree.add_process(
                number,
                &process.tree,
                &self.frames,
                &process.own,
                Values::default(),
            );
        }
        tree
    }

    fn name(&self, function: FunctionNumber) -> String {
        let shown = self.frames.shown(function);
        shown.map_or(String::new(), |function| function.name.to_string())
    }

    /// The nodes as lines: indentation, name, total, own time.
    fn lines(&self, tree: &FunctionTree, start: u32, least_ns: u64) -> Vec<String> {
        self.lines_from(tree, start, LeastNode::with_time(least_ns))
    }

    fn lines_from(&self, tree: &FunctionTree, start: u32, least: LeastNode) -> Vec<String> {
        let mut functions = Vec::new();
        let shown = Shown {
            start,
            least,
            is_found: &[],
        };
        let place = |function| {
            functions.push(function);
            functions.len() - 1
        };
        let (columns, _) = tree.columns(shown, |function| function.0, place);
        let line = |number: usize| {
            let function = columns.function[number];
            let name = function.map_or("all".to_owned(), |place| self.name(functions[place]));
            let indent = " ".repeat(columns.depth[number] as usize);
            format!(
                "{indent}{name} {} {}",
                columns.total_ns[number], columns.self_ns[number]
            )
        };
        (0..columns.depth.len()).map(line).collect()
    }
}

#[test]
fn stacks_of_several_processes_are_merged_by_function() {
    let mut tester = Tester::default();
    tester.add(0, &[1, 2, 3], 10, 0);
    tester.add(1, &[1, 2], 5, 0);
    tester.add(1, &[1, 4], 1, 0);
    let tree = tester.tree();
    assert_eq!(
        tester.lines(&tree, 0, 1),
        [
            "all 16 0",
            " 0x1 16 0",
            "  0x2 15 5",
            "   0x3 10 10",
            "  0x4 1 1"
        ]
    );
    assert_eq!(
        tester.lines(&tree, 0, 5),
        ["all 16 0", " 0x1 16 0", "  0x2 15 5", "   0x3 10 10"],
        "small nodes are left out"
    );
    let functions = tree.functions_with(LeastNode::with_time(15));
    let node = tree.find(&functions.take(2).collect::<Vec<_>>());
    assert_eq!(
        tester.lines(&tree, node.unwrap(), 1),
        ["0x2 15 5", " 0x3 10 10"]
    );
}

#[test]
fn an_inverted_tree_shows_the_callers_of_each_function() {
    let mut tester = Tester::default();
    tester.add(0, &[1, 2, 3], 10, 0);
    tester.add(0, &[1, 4, 3], 5, 0);
    tester.add(0, &[1], 2, 0);
    let inverted = tester.tree().inverted();
    assert_eq!(
        tester.lines(&inverted, 0, 1),
        [
            "all 17 0",
            " 0x1 2 2",
            " 0x3 15 0",
            "  0x2 10 0",
            "   0x1 10 10",
            "  0x4 5 0",
            "   0x1 5 5",
        ]
    );
}

#[test]
fn recursive_calls_count_once_in_the_total_of_a_function() {
    let mut tester = Tester::default();
    tester.add(0, &[1, 2, 1, 2], 10, 3);
    tester.add(0, &[1], 5, 0);
    let functions = tester.tree().functions(0, tester.frames.function_count());
    let of = |name: &str| {
        let found = functions
            .iter()
            .find(|row| tester.name(row.function) == name);
        found.map(|row| (row.own.now_ns, row.total.now_ns, row.total.before_ns))
    };
    assert_eq!(of("0x1"), Some((5, 15, 3)));
    assert_eq!(of("0x2"), Some((10, 10, 3)));
}

#[test]
fn a_node_names_the_process_with_the_most_time() {
    let mut tester = Tester::default();
    tester.add(0, &[1, 2], 10, 0);
    tester.add(1, &[1, 3], 20, 0);
    tester.add(1, &[1, 4], 5, 0);
    tester.add(2, &[1], 7, 0);
    let tree = tester.tree();
    let shown = Shown {
        start: 0,
        least: LeastNode::with_time(1),
        is_found: &[],
    };
    let (columns, _) = tree.columns(shown, |function| function.0, |_| 0);
    assert_eq!(columns.process[1], 1);
    assert_eq!(columns.process_ns[1], 25);
}

#[test]
fn an_inverted_tree_adds_up_the_time_of_each_process() {
    let mut tester = Tester::default();
    // The largest node is of process 0, but process 1 has more time in function 3.
    tester.add(0, &[1, 3], 10, 0);
    tester.add(1, &[1, 3], 9, 0);
    tester.add(0, &[2, 4], 1, 0);
    tester.add(1, &[2, 3], 8, 0);
    let inverted = tester.tree().inverted();
    let shown = Shown {
        start: 0,
        least: LeastNode::with_time(1),
        is_found: &[],
    };
    let mut functions = Vec::new();
    let place = |function| {
        functions.push(function);
        functions.len() - 1
    };
    let (columns, _) = inverted.columns(shown, |function| function.0, place);
    let of_node = |number: usize| {
        let name = columns.function[number].map(|place| tester.name(functions[place]));
        let depth = columns.depth[number];
        let top = (columns.process[number], columns.process_ns[number]);
        (depth, name.unwrap_or_default(), top)
    };
    let nodes: Vec<_> = (0..columns.depth.len()).map(of_node).collect();
    assert!(nodes.contains(&(1, "0x3".to_owned(), (1, 17))), "{nodes:?}");
    assert!(nodes.contains(&(2, "0x1".to_owned(), (0, 10))), "{nodes:?}");
    assert!(nodes.contains(&(0, String::new(), (1, 17))), "{nodes:?}");
}

/// Whether every total is the own time and the totals of the children.
fn adds_up(tree: &FunctionTree) -> bool {
    let mut parts: Vec<Values> = tree.nodes.iter().map(|node| node.own).collect();
    for node in tree.nodes.iter().skip(1) {
        parts[node.caller as usize].add(node.total);
    }
    tree.nodes
        .iter()
        .zip(parts)
        .all(|(node, parts)| node.total == parts)
}

#[test]
fn deep_forged_stacks_do_not_exceed_the_limit_and_keep_their_time() {
    // Every frame of deep stacks has own time, so an inverted tree has a node for each pair of
    // frames: two million nodes here.
    let mut tester = Tester::default();
    let mut sum = 0;
    for stack in 0..8_u64 {
        let frames: Vec<u64> = (0..700).map(|depth| 10_000 * stack + depth + 1).collect();
        for depth in 1..=frames.len() {
            tester.add(0, &frames[..depth], depth as u64, 0);
            sum += depth as u64;
        }
    }
    let tree = tester.tree();
    let inverted = tree.inverted();
    assert!(inverted.nodes.len() <= MAX_TREE_NODES);
    assert!(inverted.left_out > 0, "everything fitted");
    assert_eq!((tree.total().now_ns, inverted.total().now_ns), (sum, sum));
    assert!(adds_up(&inverted) && adds_up(&tree));
    let short = tree.inverted_within(1000);
    assert!(short.nodes.len() <= 1001 && short.left_out > 0 && adds_up(&short));
    assert_eq!(short.total().now_ns, sum);
}

#[test]
fn the_time_of_functions_that_do_not_fit_stays_with_their_callers() {
    let mut tester = Tester::default();
    tester.add(0, &[1, 2, 3], 10, 0);
    tester.add(0, &[4, 5], 7, 0);
    let mut tree = FunctionTree::with_most(3);
    let process = &tester.processes[0];
    let stackless = Values {
        now_ns: 2,
        before_ns: 0,
    };
    tree.add_process(0, &process.tree, &tester.frames, &process.own, stackless);
    assert_eq!(
        tester.lines(&tree, 0, 1),
        ["all 19 9", " 0x1 10 0", "  0x2 10 10"]
    );
    assert!(adds_up(&tree) && tree.left_out > 0);
}

#[test]
fn found_functions_count_once_per_stack() {
    let mut tester = Tester::default();
    tester.add(0, &[1, 2, 2, 3], 10, 4);
    tester.add(0, &[1, 3], 5, 0);
    let tree = tester.tree();
    let two: Vec<bool> = tester
        .frames
        .functions()
        .map(|one| &*one.name == "0x2")
        .collect();
    let shown = Shown {
        start: 0,
        least: LeastNode::with_time(100),
        is_found: &two,
    };
    let (columns, found) = tree.columns(shown, |_| 0, |_| 0);
    let expected = Values {
        now_ns: 10,
        before_ns: 4,
    };
    assert_eq!(
        found, expected,
        "also where the node is too small to be shown"
    );
    assert_eq!((columns.depth.len(), columns.left_out), (1, 5));
}

#[test]
fn the_number_of_nodes_is_limited_to_the_largest() {
    let mut tester = Tester::default();
    for number in 1..=100 {
        tester.add(0, &[1, 1000 + number], number, 0);
    }
    let tree = tester.tree();
    let lines = tester.lines_from(&tree, 0, tree.least_for(0, 12));
    assert_eq!(lines.len(), 12);
    for time in 91..=100 {
        let end = format!(" {time} {time}");
        assert!(lines.iter().any(|line| line.ends_with(&end)), "{lines:?}");
    }
    assert_eq!(tree.least_for(0, 1000), LeastNode::with_time(1));
}

#[test]
fn of_a_deep_stack_the_outer_functions_are_shown() {
    // All functions have the same time.
    let mut tester = Tester::default();
    let deep: Vec<u64> = (1..=900).collect();
    tester.add(0, &deep, 7, 0);
    let tree = tester.tree();
    let lines = tester.lines_from(&tree, 0, tree.least_for(0, 12));
    assert_eq!(lines.len(), 12);
    assert_eq!(lines[11].trim(), "0xb 7 0");
    let functions = tree.functions_with(LeastNode::with_time(1));
    let path: Vec<_> = functions.take(800).collect();
    let zoomed = tree.find(&path).unwrap();
    let lines = tester.lines_from(&tree, zoomed, tree.least_for(zoomed, 5));
    let names: Vec<_> = lines.iter().map(|line| line.trim()).collect();
    assert_eq!(
        names,
        [
            "0x320 7 0",
            "0x321 7 0",
            "0x322 7 0",
            "0x323 7 0",
            "0x324 7 0"
        ]
    );
}

proptest! {
    #[test]
    fn the_requested_number_of_nodes_is_shown_each_with_its_caller(
        stacks in prop::collection::vec(
            (prop::collection::vec(1..5_u64, 1..9), 0..3_u64), 1..40),
        most in 1..30_usize,
    ) {
        let mut tester = Tester::default();
        for (stack, now_ns) in &stacks {
            tester.add(0, stack, *now_ns, 0);
        }
        let tree = tester.tree();
        let lines = tester.lines_from(&tree, 0, tree.least_for(0, most));
        let with_time = tree.nodes.iter().filter(|node| node.total.now_ns > 0).count();
        prop_assert_eq!(lines.len(), with_time.min(most).max(1));
        let depth = |line: &String| line.len() - line.trim_start().len();
        let has_caller = |pair: &[String]| depth(&pair[1]) <= depth(&pair[0]) + 1;
        prop_assert!(lines.windows(2).all(has_caller), "{:?}", lines);
    }
}

proptest! {
    #[test]
    fn the_sums_of_the_tree_equal_the_time_of_the_stacks(
        stacks in prop::collection::vec(
            (0..3_usize, prop::collection::vec(1..6_u64, 1..8), 0..1000_u64, 0..1000_u64), 0..40),
    ) {
        let mut tester = Tester::default();
        let mut sum = Values::default();
        for (process, stack, now_ns, before_ns) in &stacks {
            tester.add(*process, stack, *now_ns, *before_ns);
            sum.add(Values { now_ns: *now_ns, before_ns: *before_ns });
        }
        let tree = tester.tree();
        for tree in [&tree.inverted(), &tree] {
            prop_assert_eq!(tree.total(), sum);
            for (number, node) in (0..).zip(&tree.nodes) {
                let mut parts = node.own;
                let children = tree.nodes.iter().skip(1).filter(|child| child.caller == number);
                children.for_each(|child| parts.add(child.total));
                prop_assert_eq!(parts, node.total);
            }
        }
        // Each function's total, by the definition: the time of the stacks that contain it.
        for row in tree.functions(0, tester.frames.function_count()) {
            let name = tester.name(row.function);
            let has = |stack: &[u64]| stack.iter().any(|one| format!("{one:#x}") == name);
            let with = stacks.iter().filter(|(_, stack, ..)| has(stack));
            prop_assert_eq!(row.total.now_ns, with.map(|(.., now, _)| now).sum::<u64>());
        }
    }
}
