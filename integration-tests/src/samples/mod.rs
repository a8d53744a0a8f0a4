//! The samples of a thread in a saved profile, with their stacks as names.
//!
//! Parsed by [`crate::profile`], from both formats. The name of a label frame is the label. The
//! name of a code frame is `library+0x12`, relative to the address of the library's byte 0, or
//! `0x12` if the address is in no library. In the processed format the address of a caller is that
//! of its call, one byte less than in the Gecko format.

mod gecko;
mod processed;

use std::sync::Arc;

use serde_json::Value;

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Milliseconds since the session began.
    pub time: f64,
    /// Processor time since the previous sample, in nanoseconds.
    pub cpu_ns: Option<u64>,
    stack: Option<usize>,
}

/// The samples of one thread.
#[derive(Debug, Default)]
pub struct Samples {
    /// In the order of the file.
    pub all: Vec<Sample>,
    stacks: Arc<Stacks>,
}

/// The stacks of samples. All threads of a profile in the processed format share them.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    /// The names of the frames. A function that is inlined into another one has no name here: it
    /// has no frame of its own on the real stack.
    frames: Vec<Option<String>>,
    /// For each stack, the stack of its caller and its innermost frame.
    all: Vec<(Option<usize>, usize)>,
}

impl Samples {
    /// Returns the stack of a sample, outermost frame first.
    pub fn stack(&self, sample: &Sample) -> Vec<&str> {
        let mut names = Vec::new();
        let mut next = sample.stack;
        while let Some((caller, frame)) = next.and_then(|stack| self.stacks.all.get(stack)) {
            let frame = self.stacks.frames.get(*frame);
            names.extend(frame.map_or(Some(""), Option::as_deref));
            next = *caller;
        }
        names.reverse();
        names
    }

    /// Returns how many samples have the function anywhere in their stack, and how many have it as
    /// the innermost frame.
    pub fn of(&self, is_function: impl Fn(&str) -> bool) -> (usize, usize) {
        let stacks = self.all.iter().map(|sample| self.stack(sample));
        stacks.fold((0, 0), |(total, own), stack| {
            let is_in = stack.iter().any(|name| is_function(name));
            let is_last = stack.last().is_some_and(|name| is_function(name));
            (total + usize::from(is_in), own + usize::from(is_last))
        })
    }
}

fn index(value: &Value) -> Option<usize> {
    value
        .as_u64()
        .and_then(|number| usize::try_from(number).ok())
}
