//! The largest level of the crate `log`: what the program has chosen, raised during a session.
//!
//! Used by the logger. The macros of `log` compare with one global level before they call a logger,
//! so a session must raise it to record more than the program logs. The core calls
//! [`follow_session`] after each start and stop, on a thread of its own (`session::on_switch`).
//!
//! ```text
//! word   own level (bits 0-7) · raised level or NONE (8-15) · not applied (16) · changes (32-63)
//! ```
//!
//! Invariants: the level is never lower than the program's own. If the program calls
//! `log::set_max_level` during a session, its level stays, also after the session. The number of
//! changes makes each word unique. A thread that changes the word applies it again until no other
//! thread has changed it meanwhile, so the level is that of the latest word. No lock: a forked
//! child could find it held.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use log::{Level, LevelFilter};

use crate::rules;

/// The raised level of a word that raises nothing.
const NONE: u8 = u8::MAX;
const NOT_APPLIED: u64 = 1 << 16;
const ONE_CHANGE: u64 = 1 << 32;

static WORD: AtomicU64 = AtomicU64::new(Levels::FIRST.word());
/// The largest level that any logger of this crate records.
static MAX_RECORDED: AtomicU8 = AtomicU8::new(LevelFilter::Off as u8);

/// The levels of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Levels {
    /// What the program has chosen.
    own: LevelFilter,
    /// The level that a session needs, if it is larger.
    raised: Option<LevelFilter>,
}

impl Levels {
    const FIRST: Self = Self {
        own: LevelFilter::Off,
        raised: None,
    };

    const fn word(self) -> u64 {
        let raised = match self.raised {
            Some(level) => level as u8,
            None => NONE,
        };
        (self.own as u64) | ((raised as u64) << 8)
    }

    fn of(word: u64) -> Self {
        let [own, raised, ..] = word.to_le_bytes();
        Self {
            own: level_of(own).unwrap_or(LevelFilter::Off),
            raised: level_of(raised),
        }
    }

    /// The program's level, raised if a session needs more.
    fn at_present(own: LevelFilter) -> Self {
        let recorded = level_of(MAX_RECORDED.load(Ordering::Relaxed));
        let is_more = |level: &LevelFilter| rules::are_applied() && *level > own;
        Self {
            own,
            raised: recorded.filter(is_more),
        }
    }

    /// The level that `log` has to have.
    fn effective(self) -> LevelFilter {
        self.raised.unwrap_or(self.own)
    }
}

fn level_of(number: u8) -> Option<LevelFilter> {
    LevelFilter::iter().find(|level| *level as u8 == number)
}

/// Lets later sessions raise the level up to this one.
pub(crate) fn expect(recorded: LevelFilter) {
    MAX_RECORDED.fetch_max(recorded as u8, Ordering::Relaxed);
}

/// Raises the level if a session runs, and restores the program's own otherwise.
pub(crate) fn follow_session() {
    change(|word| {
        let known = Levels::of(word);
        let seen = log::max_level();
        // A level that this module has not set is the program's latest choice.
        if word & NOT_APPLIED != 0 || seen == known.effective() {
            known.own
        } else {
            seen
        }
    });
}

/// Sets the largest level that the program's own logger gets, like [`log::set_max_level`], also
/// while a session has raised the level of `log`.
///
/// A program that changes its level while it runs calls this function: after a call of
/// [`log::set_max_level`], a session records up to that level only, and if the level is the one
/// that the session has set, the program's own level is restored at the end of the session.
pub fn set_max_level(level: LevelFilter) {
    change(|_| level);
}

/// Chooses the program's own level from the present word, and applies the new word.
fn change(own: impl Fn(u64) -> LevelFilter) {
    let next = |word: u64| {
        let changes = (word & !(ONE_CHANGE - 1)).wrapping_add(ONE_CHANGE);
        Some(Levels::at_present(own(word)).word() | NOT_APPLIED | changes)
    };
    let _ = WORD.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
    loop {
        let word = WORD.load(Ordering::Acquire);
        log::set_max_level(Levels::of(word).effective());
        let applied = word & !NOT_APPLIED;
        let exchanged = WORD.compare_exchange(word, applied, Ordering::AcqRel, Ordering::Acquire);
        if exchanged.is_ok() {
            return;
        }
    }
}

/// Whether a record of this level would reach the program's own logger without the profiler.
#[inline]
pub(crate) fn is_own(level: Level) -> bool {
    let word = WORD.load(Ordering::Relaxed);
    if word & NOT_APPLIED != 0 {
        // The level of `log` may still be that of the word before.
        return level <= Levels::of(word).own;
    }
    if word & (u64::from(NONE) << 8) == u64::from(NONE) << 8 {
        return true;
    }
    let levels = Levels::of(word);
    if !rules::are_applied() {
        // The session has just ended, or this is a forked child, in which no thread follows it.
        follow_session();
        return level <= levels.own;
    }
    levels.effective() != log::max_level() || level <= levels.own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_the_levels_it_was_made_of() {
        let all = || LevelFilter::iter().map(Some).chain([None]);
        for own in LevelFilter::iter() {
            for raised in all() {
                let levels = Levels { own, raised };
                assert_eq!(Levels::of(levels.word() | NOT_APPLIED | ONE_CHANGE), levels);
            }
        }
    }
}
