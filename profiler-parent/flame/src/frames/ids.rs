//! The ids by which requests refer to functions.
//!
//! Used by [`super::FrameTable`]. Functions are numbered in the order in which they are found, so
//! their numbers differ each time that the samples are read from the beginning. Invariant: the id
//! of a function depends on its name, its kind and its file only.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Function, FunctionNumber, Module};

/// Identifies a function in requests: a hash of its name, its kind and its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FunctionId(pub(super) u64);

impl FunctionId {
    fn of(function: &Function, module: Option<&Module>) -> Self {
        let mut hasher = DefaultHasher::new();
        (&function.name, function.kind, module).hash(&mut hasher);
        Self(hasher.finish())
    }

    /// Parses what [`Display`](std::fmt::Display) writes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        u64::from_str_radix(text, 16).ok().map(Self)
    }
}

impl std::fmt::Display for FunctionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The ids of all functions.
#[derive(Debug, Default)]
pub(super) struct FunctionIds {
    by_function: Vec<FunctionId>,
    by_id: HashMap<FunctionId, FunctionNumber>,
}

impl FunctionIds {
    /// Adds the next function, which has this number and this file. Of two functions with the same
    /// id, requests refer to the first.
    pub(super) fn add(
        &mut self,
        number: FunctionNumber,
        function: &Function,
        module: Option<&Module>,
    ) {
        let id = FunctionId::of(function, module);
        self.by_function.push(id);
        self.by_id.entry(id).or_insert(number);
    }

    /// The id of a function.
    pub(super) fn of(&self, function: FunctionNumber) -> Option<FunctionId> {
        self.by_function.get(function.0 as usize).copied()
    }

    /// The function with this id.
    pub(super) fn function(&self, id: FunctionId) -> Option<FunctionNumber> {
        self.by_id.get(&id).copied()
    }
}
