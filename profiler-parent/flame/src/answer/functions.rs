//! The functions of an answer: each is listed once, and everything else refers to it by its place
//! in the list.
//!
//! Used while an answer is made. Invariant: the list and the order of functions depend on names,
//! files and time only, not on the order in which functions were found.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::frames::{FrameTable, Function, FunctionKind, FunctionNumber};
use crate::hash::FastMap;

/// A function that the answer refers to by its place in the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct FunctionInfo {
    /// Identifies it in later requests.
    id: String,
    name: String,
    module: String,
    kind: FunctionKind,
}

/// The list of functions of an answer.
pub(super) struct FunctionList<'a> {
    frames: &'a FrameTable,
    places: FastMap<FunctionNumber, usize>,
    all: Vec<FunctionInfo>,
}

impl<'a> FunctionList<'a> {
    /// An empty list.
    pub(super) fn new(frames: &'a FrameTable) -> Self {
        Self {
            frames,
            places: FastMap::default(),
            all: Vec::new(),
        }
    }

    /// The functions and frames of the session.
    pub(super) const fn frames(&self) -> &'a FrameTable {
        self.frames
    }

    /// The place of a function, which is added if it is not in the list.
    pub(super) fn place(&mut self, number: FunctionNumber) -> usize {
        let Self {
            frames,
            places,
            all,
        } = self;
        *places.entry(number).or_insert_with(|| {
            let function = frames.shown(number);
            let id = frames.id(number);
            all.push(FunctionInfo {
                id: id.map_or_else(String::new, |id| id.to_string()),
                name: function.map_or("", |known| &known.name).to_owned(),
                module: function
                    .map_or("", |known| frames.module_name(known))
                    .to_owned(),
                kind: function.map_or(FunctionKind::Placeholder, |known| known.kind),
            });
            all.len() - 1
        })
    }

    /// All functions in the order of their places.
    pub(super) fn into_all(self) -> Vec<FunctionInfo> {
        self.all
    }
}

/// The name of a function and that of its file.
pub(super) fn texts(function: FunctionNumber, frames: &FrameTable) -> (&str, &str) {
    frames
        .shown(function)
        .map_or(("", ""), |known| (&*known.name, frames.module_name(known)))
}

/// By function number: whether its name or that of its file contains this text, which is in lower
/// case. Nothing contains the empty text.
pub(super) fn found(text: &str, frames: &FrameTable) -> Vec<bool> {
    if text.is_empty() {
        return Vec::new();
    }
    let contains = |function: &Function| {
        let is_in = |name: &str| name.to_lowercase().contains(text);
        is_in(&function.name) || is_in(frames.module_name(function))
    };
    frames.functions().map(contains).collect()
}

/// The places of functions in the order of their names: the nodes of a graph that changes every
/// second keep their order.
pub(super) fn ranks(
    functions: impl Iterator<Item = FunctionNumber>,
    frames: &FrameTable,
) -> FastMap<FunctionNumber, u32> {
    let used: BTreeSet<FunctionNumber> = functions.collect();
    let named = used
        .into_iter()
        .map(|number| (texts(number, frames), number));
    let sorted: BTreeSet<_> = named.collect();
    let numbers = sorted.into_iter().map(|(_, number)| number);
    numbers.zip(0..).collect()
}
