//! The numbers of the rule: how much to give, how much to ask for, from how old on.
//!
//! Pure functions of figures, called by the controller; nothing here knows an account.
//! Each constant says what it trades; `tests/controller` measures their effect.

use profiler_core::time::Timestamp;

use super::messages::Policy;

/// Processes asked because of one report. More would finish sooner and answer in a burst.
pub(super) const ASKED_AT_ONCE: usize = 8;

/// A process is quiet when the others recorded this part of the limit since its latest report.
const QUIET_PART: u64 = 8;

/// Nobody counts on a debt any more when this part of the limit was recorded since it was asked for.
const LATE_PART: u64 = 8;

/// At most this part of the limit goes to make up for processes that break the rule.
const BORNE_PART: u64 = 2;

/// A process grows by at most this part of its allowance at the cost of others, per report.
const STEP_PART: u64 = 16;

/// From free budget it grows faster: it doubles, or takes this part of the free budget if that is less.
/// A process that begins to record much would otherwise destroy its own data while memory is free,
/// because each step costs a way to the parent and back. The remaining parts are for those who ask next.
const GROWTH_PART: u64 = 4;

/// A recording process with at most this many chunks gets room for its next one before it is missed: to
/// lose one would shorten its span by much.
const FEW_CHUNKS: u64 = 8;

/// Data is taken from another only when it is older by this part of the asker's own span.
/// Without it processes that are even already would pass the same bytes back and forth.
const EVEN_PART: u64 = 32;

/// Kept free for joins: what the policy says, but not more than this part of the limit.
const RESERVE_PART: u64 = 16;

pub(super) const fn pages_down(bytes: u64, page: u64) -> u64 {
    bytes - bytes % page
}

pub(super) const fn pages_up(bytes: u64, page: u64) -> u64 {
    pages_down(bytes.saturating_add(page - 1), page)
}

/// The part of the budget that only joins may use.
pub(super) fn reserve(policy: &Policy, limit: u64, waiting: usize) -> u64 {
    let waiting = u64::try_from(waiting).unwrap_or(u64::MAX);
    policy.reserve.min(limit / RESERVE_PART).saturating_add(waiting.saturating_mul(policy.floor))
}

/// The first allowance of a process, or `None` when not even the floor is free.
pub(super) fn first_allowance(policy: &Policy, free: u64) -> Option<u64> {
    let generous = pages_down((free / GROWTH_PART).min(policy.initial), policy.page);
    (free >= policy.floor).then_some(generous.max(policy.floor))
}

/// How many recorded bytes make a silent process a quiet one.
pub(super) const fn quiet_after(limit: u64) -> u64 {
    limit / QUIET_PART
}

/// How much of the memory that some hold against the rule is taken from those who obey.
pub(super) const fn most_borne(limit: u64) -> u64 {
    limit / BORNE_PART
}

/// How many recorded bytes make a debt a late one.
pub(super) const fn late_after(limit: u64) -> u64 {
    limit / LATE_PART
}

/// What a report says about the need of its process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    /// Bytes it could have used and was not allowed to.
    pub(super) wanted: u64,
    /// Bytes it released since the report before.
    pub(super) recorded: u64,
    /// Bytes of its latest chunk.
    pub(super) chunk: u64,
    /// Its allowance.
    pub(super) allowance: u64,
    /// The part of it that is not in use.
    pub(super) unused: u64,
}

impl Need {
    /// What it gets of a free budget of `free` bytes. Room for as much as it has just recorded, and
    /// one chunk, is given before it is missed.
    pub(super) fn given(&self, free: u64, page: u64) -> u64 {
        let ahead = self.recorded.saturating_add(self.chunk).saturating_sub(self.unused);
        let least = self.wanted.max(if self.recorded > 0 { ahead } else { 0 });
        if least == 0 {
            return 0;
        }
        let generous = self.allowance.min(free / GROWTH_PART);
        pages_down(pages_up(least.max(generous), page).min(free), page)
    }

    /// What others are asked to give up for it.
    pub(super) fn asked(&self, page: u64) -> u64 {
        let few = self.recorded > 0 && self.chunk.saturating_mul(FEW_CHUNKS) >= self.allowance;
        let ahead = if few { self.chunk.saturating_sub(self.unused) } else { 0 };
        let step = (self.allowance / STEP_PART).max(self.chunk).max(page);
        pages_up(self.wanted.max(ahead).min(step), page)
    }
}

/// Data older than this may be taken for a process whose own data is from `oldest` to `newest`.
pub(super) fn older_than(oldest: Option<Timestamp>, newest: Option<Timestamp>) -> Timestamp {
    let (Some(oldest), Some(newest)) = (oldest, newest) else { return Timestamp::MAX };
    Timestamp::from_raw(oldest.raw().saturating_sub(newest.since(oldest) / EVEN_PART))
}
