//! Maps an interpreter's function numbers to the definitions that frames refer to.
//!
//! A function is described when it is first seen, and defined unless the pool has it from an
//! earlier run. Memory is bounded by [`MAX`]. Further functions, and functions for whose names the
//! pool has no room, are all shown as one. That one has no name if the pool has no room for it
//! either.

use std::collections::HashMap;

use crate::category::CategoryPair;
use crate::ids::DefinitionId;
use crate::reader::PoolReader;
use crate::sample_types::{Frame, FunctionId, FunctionName, MAX_FRAMES};
use crate::{sampler, session};

/// The most functions that are distinguished.
const MAX: usize = 1 << 16;
/// The name shown for all further functions.
const OTHERS: FunctionName<'static> = FunctionName {
    name: "(other functions)",
    file: "",
    line: 0,
};

/// The functions seen so far.
#[derive(Debug)]
pub(super) struct Names {
    about: CategoryPair,
    seen: HashMap<FunctionId, Frame>,
    /// The definitions in the pool, by name, file and line.
    defined: HashMap<(String, String, u32), DefinitionId>,
    others: Frame,
}

impl Names {
    /// Loads the definitions in the pool; `None` if no session runs.
    pub(super) fn load(about: CategoryPair) -> Option<Self> {
        let reader = PoolReader::open(session::pool_file().ok()?).ok()?;
        let definitions = reader.definitions().ok()?;
        let known = definitions.labels().into_iter();
        let defined = known
            .map(|(id, label)| ((label.name.clone(), label.file.clone(), label.line), id))
            .collect();
        let mut names = Self {
            about,
            seen: HashMap::new(),
            defined,
            others: Frame::Unknown(0),
        };
        // A full pool may lack room even for this name.
        names.others = names.frame(OTHERS).unwrap_or(names.others);
        Some(names)
    }

    fn frame(&mut self, FunctionName { name, file, line }: FunctionName<'_>) -> Option<Frame> {
        let key = (name.to_owned(), file.to_owned(), line);
        if let Some(known) = self.defined.get(&key) {
            return Some(Frame::Label(*known));
        }
        let id = sampler::define_label(name, self.about, file, line)?;
        self.defined.insert(key, id);
        Some(Frame::Label(id))
    }

    fn frame_of<'n>(
        &mut self,
        id: FunctionId,
        describe: impl FnOnce() -> FunctionName<'n>,
    ) -> Frame {
        if let Some(known) = self.seen.get(&id) {
            return *known;
        }
        if self.seen.len() >= MAX {
            return self.others;
        }
        let frame = self.frame(describe()).unwrap_or(self.others);
        self.seen.insert(id, frame);
        frame
    }
}

/// Receives the stack of one sample.
#[derive(Debug)]
pub struct StackRoom<'r> {
    pub(super) names: &'r mut Names,
    pub(super) frames: &'r mut Vec<Frame>,
}

impl StackRoom<'_> {
    /// Adds the function that the previous one called; the first is the outermost. `describe` is
    /// called when the function is first seen.
    pub fn push<'n>(&mut self, id: FunctionId, describe: impl FnOnce() -> FunctionName<'n>) {
        let frame = self.names.frame_of(id, describe);
        // The innermost frames are kept; the writer takes [`MAX_FRAMES`] of them and marks the
        // stack as cut.
        if self.frames.len() >= 2 * MAX_FRAMES {
            self.frames.drain(..MAX_FRAMES);
        }
        self.frames.push(frame);
    }
}
