//! The time of each function of a tree.
//!
//! Used for the table of functions. Invariants: the tree is walked without recursion, each node
//! once; the own time of a function is at most its total.

use super::columns::Children;
use super::{FunctionTree, Values};
use crate::frames::FunctionNumber;

/// The time of a function over all its nodes. Recursive calls count once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FunctionTotals {
    pub(crate) function: FunctionNumber,
    pub(crate) own: Values,
    pub(crate) total: Values,
}

impl FunctionTree {
    /// The time of every function below a node.
    pub(crate) fn functions(&self, start: u32, count: usize) -> Vec<FunctionTotals> {
        enum Step {
            Enter(u32),
            Leave(FunctionNumber),
        }
        let children = Children::of(self, |_| 0);
        let mut sums = vec![(Values::default(), Values::default(), 0_u32); count];
        let mut steps = vec![Step::Enter(start)];
        while let Some(step) = steps.pop() {
            match step {
                Step::Leave(function) => {
                    if let Some((.., open)) = sums.get_mut(function.0 as usize) {
                        *open = open.saturating_sub(1);
                    }
                }
                Step::Enter(number) => {
                    let node = self.node(number);
                    if let Some((own, total, open)) = sums.get_mut(node.function.0 as usize) {
                        own.add(node.own);
                        if *open == 0 {
                            total.add(node.total);
                        }
                        *open += 1;
                        steps.push(Step::Leave(node.function));
                    }
                    steps.extend(children.of_node(number).map(Step::Enter));
                }
            }
        }
        let numbered = (0..).map(FunctionNumber).zip(sums);
        let used = numbered.filter(|(_, (_, total, _))| !total.is_zero());
        used.map(|(function, (own, total, _))| FunctionTotals {
            function,
            own,
            total,
        })
        .collect()
    }
}
