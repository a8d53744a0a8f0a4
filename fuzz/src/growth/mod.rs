//! Profiles of two sizes that are made from the same input, for the target `growth`.
//!
//! A [`Shape`] has the numbers of everything that a profile lists: stacks, samples, markers,
//! threads and processes. The input chooses these numbers, how stacks, names and markers look, and
//! which of the numbers grow. Invariant: the text of a profile grows in proportion to these
//! numbers, because samples and markers are counted for the whole profile and not for each thread.

mod call_nodes;
mod rows;

pub(crate) use call_nodes::{nested_nodes, nodes};
pub(crate) use rows::profile;

/// How stacks refer to their callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stacks {
    /// Each function calls the next one.
    Chain,
    /// A chain in which each function also calls a leaf.
    Comb,
    /// One function calls all others.
    Star,
    /// Each function calls two.
    Tree,
}

/// How functions are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// Each has its own name.
    Different,
    /// All frames are of one function.
    One,
    /// The frames take turns with seven functions.
    Seven,
    /// All belong to a standard library, which analyses pass over.
    Standard,
    /// Every second one is the label of a thread that waits for a process.
    Waits,
}

/// What the markers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Markers {
    /// Intervals, each of which contains the next one.
    Nested,
    /// Intervals that all end after the last one has begun.
    Overlapping,
    /// Starts of intervals, and their ends at the end.
    Open,
    /// Spans of `tracing`, each below the one before it.
    Spans,
    /// Instants with flows from one to the next.
    Flows,
}

/// The numbers of everything in a profile, and how it looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) stacks: usize,
    pub(crate) samples: usize,
    pub(crate) markers: usize,
    pub(crate) threads: usize,
    pub(crate) processes: usize,
    pub(crate) stacks_are: Stacks,
    pub(crate) names: Names,
    pub(crate) markers_are: Markers,
    /// Whether samples have processor times.
    pub(crate) with_cpu: bool,
    /// Whether there are logs of all processes and a counter.
    pub(crate) with_logs: bool,
    /// The numbers that grow: a bit for each of the first five.
    pub(crate) growing: u8,
}

/// The range of each of the numbers that may grow.
const STACKS: (usize, usize) = (16, 6000);
const SAMPLES: (usize, usize) = (16, 6000);
const MARKERS: (usize, usize) = (4, 3000);
const THREADS: (usize, usize) = (1, 300);
const PROCESSES: (usize, usize) = (1, 300);

impl Shape {
    /// The shape that the bytes of an input describe. Missing bytes are zero.
    pub(crate) fn of(input: &[u8]) -> Self {
        let byte = |at: usize| input.get(at).copied().unwrap_or(0);
        let number = |at: usize, (least, most): (usize, usize)| {
            least + usize::from(byte(at)) * (most - least) / 255
        };
        let threads = number(4, THREADS);
        Self {
            stacks: number(1, STACKS),
            samples: number(2, SAMPLES),
            markers: number(3, MARKERS),
            threads,
            processes: number(5, PROCESSES).min(threads),
            stacks_are: [Stacks::Chain, Stacks::Comb, Stacks::Star, Stacks::Tree]
                [usize::from(byte(6)) % 4],
            names: [
                Names::Different,
                Names::One,
                Names::Seven,
                Names::Standard,
                Names::Waits,
            ][usize::from(byte(7)) % 5],
            markers_are: [
                Markers::Nested,
                Markers::Overlapping,
                Markers::Open,
                Markers::Spans,
                Markers::Flows,
            ][usize::from(byte(8)) % 5],
            with_cpu: byte(9) & 1 != 0,
            with_logs: byte(9) & 2 != 0,
            growing: byte(0),
        }
    }

    /// The shape with each growing number multiplied. If the input chooses none, all grow.
    pub(crate) fn grown(self, factor: usize) -> Self {
        let by = |bit: u8, number: usize| {
            if self.grows(bit) {
                number * factor
            } else {
                number
            }
        };
        let threads = by(3, self.threads);
        Self {
            stacks: by(0, self.stacks),
            samples: by(1, self.samples),
            markers: by(2, self.markers),
            threads,
            processes: by(4, self.processes).min(threads),
            ..self
        }
    }

    /// Whether this number grows.
    const fn grows(&self, number: u8) -> bool {
        self.growing & 31 == 0 || self.growing & (1 << number) != 0
    }

    /// The shape for a format that writes each stack as a whole, up to a maximum number of
    /// functions. Below this maximum, the time for a stack grows with its depth, so stacks that
    /// become deeper exceed it from the start. In all cases, deep stacks have few samples.
    pub(crate) fn of_whole_stacks(self) -> Self {
        let deep = match self.stacks_are {
            Stacks::Chain => 2 * WHOLE_STACK,
            Stacks::Comb => 4 * WHOLE_STACK,
            Stacks::Star | Stacks::Tree => return self,
        };
        let stacks = match self.grows(0) {
            true => deep,
            false => self.stacks.min(200),
        };
        let samples = self.samples.min(128);
        Self {
            stacks,
            samples,
            ..self
        }
    }

    /// The shape for the command `diff`, which takes long for each function and each marker name,
    /// because it draws a thousand samples of each.
    pub(crate) fn of_few_names(self) -> Self {
        let names = match self.names {
            Names::One => Names::One,
            _ => Names::Seven,
        };
        let markers = self.markers.min(100);
        Self {
            names,
            markers,
            ..self
        }
    }

    /// The stack of a sample or a marker: one of the inner half.
    pub(crate) const fn stack_of(&self, number: usize) -> usize {
        let outer = self.stacks / 2;
        // A large prime number spreads the samples over the stacks.
        outer + number * 7919 % (self.stacks - outer)
    }
}

/// More functions than a format writes of a stack.
const WHOLE_STACK: usize = 4100;
