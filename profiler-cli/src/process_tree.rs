//! The order of processes as a tree: each process below the one that started it.
//!
//! Used by the table of processes; pure. A process is known by its host and its number. Several
//! programs that one process has executed have the same number, and so may processes of a damaged
//! profile.
//! Invariant: every process has exactly one place, whatever the numbers say.

use std::collections::HashMap;

/// The number of a process, and that of the process that started it, if it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node<'h> {
    /// The host, if there are several: numbers of different hosts have nothing to do with each
    /// other.
    pub(crate) host: Option<&'h str>,
    pub(crate) pid: u64,
    pub(crate) parent: Option<u64>,
}

/// The position of a process in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TreePosition {
    /// Its index in the list.
    pub(crate) index: usize,
    /// The number of processes above it that are in the list.
    pub(crate) depth: usize,
}

/// Orders the processes of a list: each is followed by those that it started, in the order of the
/// list. A process whose parent is not in the list is at the top.
pub(crate) fn ordered(nodes: &[Node<'_>]) -> Vec<TreePosition> {
    let parents = parents_of(nodes);
    let mut children = vec![Vec::new(); nodes.len()];
    for (index, parent) in parents.iter().enumerate() {
        if let Some(of_parent) = parent.and_then(|parent| children.get_mut(parent)) {
            of_parent.push(index);
        }
    }
    let mut walk = Walk {
        children,
        is_placed: vec![false; nodes.len()],
        places: Vec::with_capacity(nodes.len()),
    };
    let tops = parents
        .iter()
        .zip(0..)
        .filter(|(parent, _)| parent.is_none());
    tops.for_each(|(_, top)| walk.place(top));
    // What is left are processes that are above themselves, according to their numbers.
    (0..nodes.len()).for_each(|index| walk.place(index));
    walk.places
}

struct Walk {
    children: Vec<Vec<usize>>,
    is_placed: Vec<bool>,
    places: Vec<TreePosition>,
}

impl Walk {
    /// Places a process and those below it, unless they have places.
    fn place(&mut self, top: usize) {
        let mut open = vec![TreePosition {
            index: top,
            depth: 0,
        }];
        while let Some(place) = open.pop() {
            let Some(is_placed) = self.is_placed.get_mut(place.index) else {
                continue;
            };
            if std::mem::replace(is_placed, true) {
                continue;
            }
            self.places.push(place);
            let below = self.children.get(place.index).into_iter().flatten();
            let depth = place.depth + 1;
            open.extend(below.rev().map(|index| TreePosition {
                index: *index,
                depth,
            }));
        }
    }
}

/// The index of the parent of each process: the latest one before it that has the parent's number,
/// or else the first one after it.
fn parents_of(nodes: &[Node<'_>]) -> Vec<Option<usize>> {
    let mut by_pid: HashMap<(Option<&str>, u64), Vec<usize>> = HashMap::new();
    for (index, node) in nodes.iter().enumerate() {
        by_pid.entry((node.host, node.pid)).or_default().push(index);
    }
    let parent_of = |(index, node): (usize, &Node<'_>)| {
        let indices = by_pid.get(&(node.host, node.parent?))?;
        let before = indices.partition_point(|other| *other < index);
        let earlier = before.checked_sub(1).and_then(|place| indices.get(place));
        let mut later = indices.get(before..)?.iter();
        earlier
            .or_else(|| later.find(|other| **other != index))
            .copied()
    };
    nodes.iter().enumerate().map(parent_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(nodes: &[(u64, u64)]) -> Vec<(usize, usize)> {
        let nodes: Vec<Node> = nodes
            .iter()
            .map(|(pid, parent)| Node {
                host: None,
                pid: *pid,
                parent: Some(*parent).filter(|parent| *parent != 0),
            })
            .collect();
        let places = ordered(&nodes).into_iter();
        places.map(|place| (place.index, place.depth)).collect()
    }

    #[test]
    fn each_process_is_below_the_one_that_started_it() {
        let all = [(1, 0), (2, 1), (3, 1), (4, 2), (9, 8)];
        let expected = [(0, 0), (1, 1), (3, 2), (2, 1), (4, 0)];
        assert_eq!(placed(&all), expected);
    }

    #[test]
    fn a_parent_may_be_listed_after_its_children() {
        assert_eq!(placed(&[(2, 1), (1, 0)]), [(1, 0), (0, 1)]);
    }

    #[test]
    fn two_lives_of_one_process_are_two_places_and_children_belong_to_the_latest_before_them() {
        let all = [(1, 0), (2, 1), (3, 2), (2, 1), (4, 2)];
        let expected = [(0, 0), (1, 1), (2, 2), (3, 1), (4, 2)];
        assert_eq!(placed(&all), expected);
    }

    #[test]
    fn every_process_has_one_place_whatever_the_numbers_say() {
        for all in [
            &[(1, 1)][..],
            &[(1, 2), (2, 1)],
            &[(7, 7), (7, 7), (7, 7)],
            &[(0, 0), (0, 0), (1, 0)],
            &[(1, 2), (2, 3), (3, 1), (4, 1), (5, 0)],
        ] {
            let mut indices: Vec<usize> = placed(all).iter().map(|place| place.0).collect();
            indices.sort_unstable();
            assert!(indices.into_iter().eq(0..all.len()), "{all:?}");
        }
    }
}
