//! Tests of the stacks of one process.

use std::collections::HashMap;

use profiler_core::ids::{ChunkIndex, ThreadIndex};
use profiler_core::internal::entry::stack::MAX_FRAMES;
use profiler_core::internal::reader::ChunkIdentity;
use proptest::prelude::*;

use super::paths::{MAX_KEPT, MAX_RECORDERS, MAX_REMEMBERED};
use super::*;
use crate::sample_bytes::TestSample;

/// Numbers frames in the order of their first use.
#[derive(Debug, Default)]
struct TestFrames {
    all: Vec<(Option<Frame>, FramePlace)>,
    room: usize,
}

impl TestFrames {
    fn with_room(room: usize) -> Self {
        Self {
            room,
            ..Self::default()
        }
    }

    fn number(&mut self, frame: Option<Frame>, place: FramePlace) -> FrameNumber {
        let known = self.all.iter().position(|one| *one == (frame, place));
        let number = known.unwrap_or_else(|| {
            self.all.push((frame, place));
            self.all.len() - 1
        });
        FrameNumber(u32::try_from(number).unwrap())
    }
}

impl FrameSource for TestFrames {
    fn has_room(&mut self) -> bool {
        self.room = self.room.saturating_sub(1);
        self.room > 0
    }

    fn recorded(&mut self, frame: Frame, place: FramePlace) -> FrameNumber {
        self.number(Some(frame), place)
    }

    fn truncated(&mut self) -> FrameNumber {
        self.number(None, FramePlace::Caller)
    }
}

#[derive(Debug)]
struct Tester {
    paths: RecorderPaths,
    tree: StackTree,
    frames: TestFrames,
    generation: u64,
}

impl Tester {
    fn new() -> Self {
        Self {
            paths: RecorderPaths::default(),
            tree: StackTree::default(),
            frames: TestFrames::with_room(usize::MAX),
            generation: 1,
        }
    }

    fn take(&mut self, sample: &TestSample) -> NodeNumber {
        self.take_from(3, sample)
    }

    /// Takes a sample that this thread has recorded.
    fn take_from(&mut self, recorder: u32, sample: &TestSample) -> NodeNumber {
        let chunk = ChunkIdentity {
            slot: ChunkIndex::new(0),
            generation: self.generation,
        };
        let recorder = ThreadIndex::new(recorder);
        sample.with(|sample| {
            self.paths
                .node(recorder, chunk, sample, &mut self.tree, &mut self.frames)
        })
    }

    /// The frames of a node, outermost first; 0 stands for truncated frames.
    fn stack(&self, node: NodeNumber) -> Vec<u64> {
        let mut stack = Vec::new();
        let mut at = node;
        while let Some(found) = self.tree.nodes.get(at.0 as usize) {
            stack.push(match found.key {
                NodeKey::Recorded(word, _) => word,
                NodeKey::Truncated => 0,
            });
            at = found.caller;
        }
        stack.reverse();
        stack
    }
}

fn sample(thread: u64, shared: u16, own: &[u64]) -> TestSample {
    TestSample {
        thread,
        shared,
        own: own.to_vec(),
        ..TestSample::default()
    }
}

#[test]
fn samples_share_frames_with_the_previous_sample_of_their_thread() {
    let mut tester = Tester::new();
    let first = tester.take(&sample(1, 0, &[1, 2, 3]));
    let other = tester.take(&sample(2, 0, &[9]));
    let second = tester.take(&sample(1, 2, &[4, 5]));
    let same = tester.take(&sample(1, 4, &[]));
    let deeper = tester.take(&sample(1, 4, &[6]));
    let shorter = tester.take(&sample(1, 2, &[]));
    assert_eq!(tester.stack(first), [1, 2, 3]);
    assert_eq!(tester.stack(other), [9]);
    assert_eq!(tester.stack(second), [1, 2, 4, 5]);
    assert_eq!(same, second);
    assert_eq!(tester.stack(deeper), [1, 2, 4, 5, 6]);
    assert_eq!(tester.stack(shorter), [1, 2]);
}

#[test]
fn the_innermost_frame_is_an_instruction_and_all_others_are_return_addresses() {
    let mut tester = Tester::new();
    let leaf = tester.take(&sample(1, 0, &[1, 2]));
    let caller = tester.take(&sample(1, 2, &[3]));
    let place = |number: NodeNumber| match tester.tree.nodes[number.0 as usize].key {
        NodeKey::Recorded(_, place) => place,
        NodeKey::Truncated => panic!("not truncated"),
    };
    assert_eq!(place(leaf), FramePlace::Innermost);
    let parent = tester.tree.nodes[caller.0 as usize].caller;
    assert_eq!(place(parent), FramePlace::Caller);
    assert_ne!(parent, leaf, "the same address with two meanings");
}

#[test]
fn a_stack_whose_shared_frames_were_not_read_is_shown_as_truncated() {
    let mut tester = Tester::new();
    tester.take(&sample(1, 0, &[1, 2]));
    tester.generation += 1;
    let node = tester.take(&sample(1, 2, &[7]));
    assert_eq!(tester.stack(node), [0, 7]);
    let cut = TestSample {
        is_cut: true,
        ..sample(2, 0, &[8])
    };
    let node = tester.take(&cut);
    assert_eq!(tester.stack(node), [0, 8]);
    let whole = tester.take(&sample(2, 1, &[9]));
    assert_eq!(tester.stack(whole), [8, 9], "the next sample is not cut");
}

#[test]
fn a_stack_without_room_loses_inner_frames() {
    let mut tester = Tester::new();
    tester.frames = TestFrames::with_room(3);
    let node = tester.take(&sample(1, 0, &[1, 2, 3, 4]));
    assert_eq!(tester.stack(node), [1, 2]);
    assert_eq!(tester.tree.lost(), 2);
}

#[test]
fn a_callee_is_found_whether_or_not_it_was_the_latest_of_its_caller() {
    let mut tester = Tester::new();
    let stacks: [&[u64]; 5] = [&[1, 2, 3], &[1, 2], &[1, 4, 3], &[2, 2, 3], &[1, 2, 5]];
    let mut take = |stack: &[u64]| {
        tester.generation += 1; // the stack is recorded in whole
        let node = tester.take(&sample(1, 0, stack));
        assert_eq!(tester.stack(node), stack);
        (node, tester.tree.len())
    };
    let first = stacks.map(|stack| take(stack).0);
    let count = take(stacks[0]).1;
    for (stack, node) in stacks.iter().zip(first).rev() {
        assert_eq!(take(stack), (node, count), "a node is in the tree twice");
        assert_eq!(take(stack), (node, count), "the latest is not found again");
    }
}

#[test]
fn remembered_stacks_are_bounded() {
    let mut tester = Tester::new();
    let deep: Vec<u64> = (0..1000).collect();
    for thread in 0..3000 {
        tester.take(&sample(thread, 0, &deep));
        let limit = MAX_REMEMBERED + MAX_FRAMES + 1;
        assert!(tester.paths.remembered <= limit);
    }
    assert_eq!(
        counted(&tester),
        tester.paths.remembered,
        "the count is wrong"
    );
}

/// What is remembered, counted again.
fn counted(tester: &Tester) -> usize {
    let paths = tester.paths.of_recorders.values();
    let stacks = paths.flat_map(|path| path.of_threads.values());
    stacks.map(|stack| stack.words.len() + 1).sum()
}

#[test]
fn a_recorder_without_a_place_takes_that_of_one_other_recorder() {
    let mut tester = Tester::new();
    let most = u32::try_from(MAX_RECORDERS).unwrap();
    for recorder in 0..most {
        tester.take_from(recorder, &sample(1, 0, &[1, 2, 3]));
    }
    // All are used again except for one.
    let is_whole = |tester: &mut Tester, recorder| {
        let node = tester.take_from(recorder, &sample(1, 3, &[]));
        tester.stack(node) == [1, 2, 3]
    };
    assert!(
        (0..most)
            .filter(|number| *number != 9)
            .all(|number| is_whole(&mut tester, number))
    );
    tester.take_from(most, &sample(1, 0, &[1, 2, 3]));
    assert_eq!(tester.paths.of_recorders.len(), MAX_RECORDERS);
    assert_eq!(counted(&tester), tester.paths.remembered);
    let left = |number: &u32| *number != 9;
    assert!(
        (0..=most)
            .filter(left)
            .all(|number| is_whole(&mut tester, number))
    );
    assert!(
        !is_whole(&mut tester, 9),
        "it has kept its stack without a place"
    );
}

#[test]
fn the_start_of_a_chunk_forgets_all_threads_of_the_previous_chunk() {
    let mut tester = Tester::new();
    for thread in 0..20 * MAX_KEPT as u64 {
        tester.take(&sample(thread, 0, &[1]));
    }
    tester.generation += 1;
    tester.take(&sample(1, 0, &[1]));
    let path = tester.paths.of_recorders.values().next().unwrap();
    assert_eq!((path.of_threads.len(), path.remembered), (1, 2));
    assert!(
        path.of_threads.capacity() <= MAX_KEPT,
        "the next start takes long"
    );
    assert_eq!(tester.paths.remembered, 2);
}

proptest! {
    #[test]
    fn forged_samples_give_some_stack(
        steps in prop::collection::vec(
            (0..3_u64, any::<u16>(), prop::collection::vec(any::<u64>(), 0..5), any::<bool>()),
            1..60),
    ) {
        let mut tester = Tester::new();
        for (thread, shared, own, is_cut) in steps {
            let node = tester.take(&TestSample { is_cut, ..sample(thread, shared, &own) });
            prop_assert!(tester.stack(node).len() >= own.len());
        }
    }

    #[test]
    fn every_stack_equals_the_stack_that_was_recorded(
        steps in prop::collection::vec(
            (1..4_u64, 0..6_u16, prop::collection::vec(1..5_u64, 0..5), any::<bool>()), 1..60),
    ) {
        let mut tester = Tester::new();
        let mut model: HashMap<u64, Vec<u64>> = HashMap::new();
        for (thread, shared, own, is_new_chunk) in steps {
            if is_new_chunk {
                tester.generation += 1;
                model.clear();
            }
            let before = model.entry(thread).or_default();
            let shared = shared.min(u16::try_from(before.len()).unwrap());
            before.truncate(usize::from(shared));
            before.extend(&own);
            let expected = before.clone();
            let node = tester.take(&sample(thread, shared, &own));
            prop_assert_eq!(tester.stack(node), expected);
        }
    }
}
