//! In which pass of the reader each program is read next.
//!
//! A pass visits only the programs that are due, so thousands of idle programs cost it little.
//! Invariant: a program that is active is due in each pass; one that stays idle is due about every
//! [`LONGEST`] passes.

use std::collections::BTreeMap;

use profiler_core::ids::PoolId;

/// The readings without anything new after which a program counts as idle.
const IDLE_AFTER: u32 = 25;
/// The readings after which the time between two readings is doubled.
const DOUBLED_AFTER: u32 = 8;
/// The number of passes from one reading of an idle program to the next: at first, and at most.
const SHORTEST: u64 = 8;
const LONGEST: u64 = 96;

/// While no program is active, this many passes are one.
const AT_ONCE: u64 = 4;
/// The programs that are read most rarely are read in passes whose number is a multiple of this:
/// the first reading in a pass costs much more than the others, whose code and data are near.
const TOGETHER: u64 = 32;

/// The turn of one program.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    /// How many readings in a row have found nothing new.
    pub(super) quiet: u32,
    /// Whether it is due in the next pass, however quiet it is.
    pub(super) is_active: bool,
    /// The pass in which it is due.
    next: u64,
    /// Distinguishes programs that become idle in the same pass.
    number: u64,
}

impl Turn {
    /// Whether the program is not idle: at most [`IDLE_AFTER`] readings in a row have found nothing
    /// new.
    pub(super) const fn is_not_idle(&self) -> bool {
        self.quiet <= IDLE_AFTER
    }
}

/// The turns of all programs.
#[derive(Debug, Default)]
pub(super) struct Turns {
    due: BTreeMap<u64, Vec<PoolId>>,
    pass: u64,
    begun: u64,
    /// Whether a program is due in the next pass because it is active.
    has_active: bool,
}

impl Turns {
    /// The passes up to the next one that is made: more than one if no program is active.
    pub(super) const fn to_next_pass(&self) -> u64 {
        if self.has_active {
            1
        } else {
            AT_ONCE - self.pass % AT_ONCE
        }
    }

    /// Makes the next pass soon, although no program may be active: one may have begun.
    pub(super) const fn hurry(&mut self) {
        self.has_active = true;
    }

    /// Begins the next pass that is made.
    pub(super) const fn begin_pass(&mut self) {
        self.pass = self.pass.saturating_add(self.to_next_pass());
        self.has_active = false;
    }

    /// Whether no program has begun yet.
    pub(super) const fn is_without_program(&self) -> bool {
        self.begun == 0
    }

    /// The number of the present pass.
    pub(super) const fn pass(&self) -> u64 {
        self.pass
    }

    /// The turn of a new program, which is due in the next pass.
    pub(super) fn add(&mut self, key: PoolId) -> Turn {
        self.begun = self.begun.wrapping_add(1);
        let mut turn = Turn {
            number: self.begun,
            ..Turn::default()
        };
        self.set_next(key, &mut turn);
        turn
    }

    /// Takes the programs that may be due. One is, if [`Self::is_due`].
    pub(super) fn take_due(&mut self) -> Vec<PoolId> {
        let mut all = Vec::new();
        while let Some(first) = self.due.first_entry()
            && *first.key() <= self.pass
        {
            all.append(&mut first.remove());
        }
        all
    }

    /// Whether a program is due in this pass.
    pub(super) const fn is_due(&self, turn: &Turn) -> bool {
        turn.next <= self.pass
    }

    /// Notes that a program was read.
    pub(super) fn set_next(&mut self, key: PoolId, turn: &mut Turn) {
        let pause = if turn.is_active { 1 } else { turn.pause() };
        self.has_active |= pause == 1;
        let next = self.pass.saturating_add(pause);
        turn.next = match pause {
            1 => next,
            LONGEST.. => next.next_multiple_of(TOGETHER),
            _ => next.next_multiple_of(AT_ONCE),
        };
        self.due.entry(turn.next).or_default().push(key);
    }
}

impl Turn {
    /// The passes up to the next reading.
    fn pause(&self) -> u64 {
        let Some(idle) = self.quiet.checked_sub(IDLE_AFTER + 1) else {
            return 1;
        };
        let doubled = (idle / DOUBLED_AFTER).min(8);
        let pause = (SHORTEST << doubled).min(LONGEST);
        // Programs that become idle together are read in different passes.
        let is_first = idle.is_multiple_of(DOUBLED_AFTER) && pause < LONGEST;
        pause + if is_first { self.number % pause } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: PoolId = PoolId::new(7);

    /// The passes in which a program is due that has nothing new after its first `busy` passes.
    fn due_in(passes: u64, busy: u64) -> Vec<u64> {
        let mut turns = Turns::default();
        let mut turn = turns.add(KEY);
        let mut due = Vec::new();
        loop {
            turns.begin_pass();
            let pass = turns.pass();
            if pass > passes {
                return due;
            }
            for key in turns.take_due() {
                assert!(turns.is_due(&turn));
                due.push(pass);
                turn.quiet = if pass <= busy { 0 } else { turn.quiet + 1 };
                turns.set_next(key, &mut turn);
            }
        }
    }

    #[test]
    fn a_program_is_read_in_each_pass_while_it_is_active_and_then_ever_less_often() {
        let due = due_in(2000, 100);
        let active: Vec<u64> = (1..=100 + u64::from(IDLE_AFTER)).collect();
        assert!(due.starts_with(&active), "{due:?}");
        let pauses: Vec<u64> = due.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(pauses.last(), Some(&LONGEST));
        assert!(pauses.iter().all(|pause| *pause < LONGEST + TOGETHER));
        let idle = &pauses[active.len()..];
        assert!(idle.iter().all(|pause| *pause >= SHORTEST), "{idle:?}");
    }

    #[test]
    fn programs_that_become_idle_together_are_read_in_different_passes() {
        let mut turns = Turns::default();
        let turn = Turn {
            quiet: IDLE_AFTER + 1,
            ..turns.add(KEY)
        };
        let later = Turn {
            number: turn.number + 1,
            ..turn
        };
        assert_ne!(turn.pause(), later.pause());
    }

    #[test]
    fn a_program_that_was_read_out_of_turn_is_due_once() {
        let mut turns = Turns::default();
        let mut turn = turns.add(KEY);
        turns.begin_pass();
        assert_eq!(turns.take_due(), [KEY]);
        turn.quiet = IDLE_AFTER + 1;
        turn.is_active = true;
        turns.set_next(KEY, &mut turn);
        assert_eq!(turns.to_next_pass(), 1);
        turn.is_active = false;
        turns.set_next(KEY, &mut turn); // for a capture, in the same pass
        turns.begin_pass();
        assert_eq!(turns.take_due(), [KEY]);
        assert!(!turns.is_due(&turn));
    }
}
