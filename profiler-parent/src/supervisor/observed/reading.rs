//! One program that is read: its turn, the clock of its process, and the rest.
//!
//! Used by the reader's thread. Invariant: an idle program costs a reading of its clock: its other
//! data is elsewhere, and not touched.

use profiler_core::internal::observed::{LookBudget, ObservedClock, ObservedFiles};

use super::program::ObservedProgram;
use super::turns::Turn;
use crate::process_table::ObservedTime;
use crate::supervisor::waits::WaitNames;

/// A program whose clock does not change is read once in this number of its turns: the file may be
/// of another process than the one that is taken for it.
const UNCHANGED_TURNS: u32 = 64;

/// A program that is read. An idle one costs a reading of its clock: its other data is elsewhere.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) turn: Turn,
    pub(super) clock: ObservedClock,
    pub(super) program: Box<ObservedProgram>,
}

impl Reading {
    /// The processor time of the program so far.
    pub(super) fn time(&self) -> ObservedTime {
        self.program.time(self.clock.cpu_ns())
    }

    /// Whether the program is to be read: a thread of it has run, or it was not read for long.
    pub(super) fn is_due(&mut self) -> bool {
        let has_run = self.clock.has_run();
        let quiet = self.turn.quiet;
        self.turn.quiet = if has_run && self.clock.is_shown() {
            0
        } else {
            quiet.saturating_add(1)
        };
        has_run || quiet.is_multiple_of(UNCHANGED_TURNS)
    }

    /// Reads its samples.
    pub(super) fn read(&mut self, files: &mut ObservedFiles, is_paused: bool) {
        self.program.note_clock(&self.clock);
        let samples = self.program.pass(files, is_paused).unwrap_or(0);
        if samples > 0 {
            self.turn.quiet = 0;
        }
        self.turn.is_active = self.program.needs_look() && !is_paused;
    }

    /// Looks at its threads.
    pub(super) fn look(
        &mut self,
        files: &mut ObservedFiles,
        names: &mut WaitNames,
        budget: &mut LookBudget,
    ) {
        self.program.note_clock(&self.clock);
        self.program.look(files, names, budget);
        self.turn.is_active = self.program.needs_look();
    }

    /// Records the waits for which an entry is due, or all. Returns whether there were any.
    pub(super) fn record_waits(&mut self, is_asked: bool) -> bool {
        self.program.note_clock(&self.clock);
        self.program.record_waits(is_asked)
    }
}
