//! The numbers of the rule: how much to give, how much to ask for, and the minimum age of data to
//! take.
//!
//! Pure functions, called by the controller; they do not use accounts. The comment on each constant
//! states its trade-off; `tests/controller` measures the effects.

use profiler_core::time::Timestamp;

use super::messages::Policy;

/// The largest number of processes asked because of one report. More would finish sooner, but
/// answer in a burst.
pub(super) const ASKED_AT_ONCE: usize = 8;

/// A process is quiet when the others have recorded 1/`QUIET_PART` of the limit since its latest
/// report.
const QUIET_PART: u64 = 8;

/// A debt is late when 1/`LATE_PART` of the limit was recorded since it was asked for.
const LATE_PART: u64 = 8;

/// At most 1/`BORNE_PART` of the limit is taken from others for processes that break the rule.
const BORNE_PART: u64 = 2;

/// A process grows by at most 1/`STEP_PART` of its allowance per report at the cost of others.
const STEP_PART: u64 = 16;

/// A process grows faster from free budget when less than a quarter of its allowance is unused, or
/// less than a quarter of a first allowance if that is less: its allowance doubles, or grows by
/// 1/`GROWTH_PART` of the free budget if that is less. Otherwise a process that begins to record
/// much would destroy its own data while memory is free, because each step costs a round trip to
/// the parent. If a process with a large allowance grew earlier, it would get memory that it does
/// not need. The remaining free budget is for the processes that ask next. What was given in this
/// way is taken back from processes that do not use it, which keep half of a first allowance: so
/// they do not grow at once.
const GROWTH_PART: u64 = 8;
const FILLING_PART: u64 = 4;
const LEFT_PART: u64 = 2;

/// Of what processes were lent and do not use, at least 1/`LEAST_TAKEN_PART` of the limit is taken
/// from one process: each request has a cost.
const LEAST_TAKEN_PART: u64 = 256;

/// A first allowance is 1/`FIRST_PART` of the limit while that much can be lent. In a session of
/// ten processes with the usual limit of 128 MiB, 10 MB fit into the first allowance of each.
const FIRST_PART: u64 = 12;

/// If at most this number of processes run, one that got less than 1/`FIRST_PART` of the limit when
/// it joined is lent the rest later. Among more, there is not enough for each.
pub(super) const MOST_LENT_TO: u64 = 16;

/// The first `FEW_PROCESSES` get more: 1/`LENT_PART` of what can be lent. Therefore the first
/// process can record a quarter of the limit at full speed before the parent answers. What they do
/// not use beyond 1/`FIRST_PART` of the limit is taken back when others join.
const FEW_PROCESSES: u64 = 2;
const LENT_PART: u64 = 3;

/// First allowances are lent from all of the limit but 1/`KEPT_PART`, which is for growth and for
/// later processes.
const KEPT_PART: u64 = 16;

/// The first allowance when no larger one can be lent, and at most 1/`USUAL_PART` of the free
/// budget.
const USUAL_FIRST: u64 = 1 << 20;
const USUAL_PART: u64 = 4;

/// At most this number of processes is examined because of one report for memory that they do not
/// use.
pub(super) const EXAMINED_AT_ONCE: usize = 64;

/// A recording process with at most this many chunks gets room for its next chunk in advance:
/// losing one chunk would shorten its span by much.
const FEW_CHUNKS: u64 = 8;

/// Data is taken from another process only if it is older than the asker's own by 1/`EVEN_PART` of
/// the asker's span. Otherwise processes with equal spans would pass the same bytes back and forth.
const EVEN_PART: u64 = 32;

/// At most 1/`RESERVE_PART` of the limit is kept free for joins, even if the policy asks for more.
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
    policy
        .reserve
        .min(limit / RESERVE_PART)
        .saturating_add(waiting.saturating_mul(policy.floor))
}

/// The part of the limit that each process is lent although it has recorded nothing, if possible.
/// Whole pages.
pub(super) fn lent_to_each(policy: &Policy, limit: u64) -> u64 {
    let part = policy.initial.min((limit / FIRST_PART).max(USUAL_FIRST));
    pages_down(part, policy.page)
}

/// The unused part of it that a process keeps while others need more. Whole pages.
pub(super) fn left_to_each(policy: &Policy, limit: u64) -> u64 {
    pages_down(lent_to_each(policy, limit) / LEFT_PART, policy.page)
}

/// The least that is taken from one process of what it was lent.
pub(super) const fn least_taken(limit: u64) -> u64 {
    limit / LEAST_TAKEN_PART
}

/// The part of `free` bytes that can be lent.
pub(super) fn lendable(limit: u64, free: u64) -> u64 {
    free.saturating_sub(limit / KEPT_PART)
}

/// The first allowance of a process that is the last of `processes`, or `None` when less than the
/// floor is free.
pub(super) fn first_allowance(
    policy: &Policy,
    limit: u64,
    free: u64,
    processes: u64,
) -> Option<u64> {
    let lendable = lendable(limit, free);
    let usual = (free / USUAL_PART).min(USUAL_FIRST);
    let each = lent_to_each(policy, limit);
    let share = if processes <= FEW_PROCESSES {
        each.max(lendable / LENT_PART)
    } else {
        each
    };
    let most = lendable.max(usual).min(share).min(policy.initial);
    (free >= policy.floor).then_some(pages_down(most, policy.page).max(policy.floor))
}

/// The bytes that `free` lacks to lend a part of the limit to the next process.
pub(super) fn missing_for_next(policy: &Policy, limit: u64, free: u64) -> u64 {
    let missing = lent_to_each(policy, limit).saturating_sub(lendable(limit, free));
    pages_up(missing, policy.page)
}

/// The number of recorded bytes after which a silent process is quiet.
pub(super) const fn quiet_after(limit: u64) -> u64 {
    limit / QUIET_PART
}

/// The most memory that obedient processes give up for processes that break the rule.
pub(super) const fn most_borne(limit: u64) -> u64 {
    limit / BORNE_PART
}

/// The number of recorded bytes after which a debt is late.
pub(super) const fn late_after(limit: u64) -> u64 {
    limit / LATE_PART
}

/// The need of a process, from its report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    /// Bytes it could have used and was not allowed to.
    pub(super) wanted: u64,
    /// Bytes it released since the previous report.
    pub(super) recorded: u64,
    /// Bytes of its latest chunk.
    pub(super) chunk: u64,
    /// Its allowance.
    pub(super) allowance: u64,
    /// The unused part of the allowance.
    pub(super) unused: u64,
}

impl Need {
    /// The bytes that it gets of a free budget of `free` bytes. Room for as much as it has just
    /// recorded, and for one chunk, is given in advance, and more if it uses most of its allowance.
    pub(super) fn given(&self, policy: &Policy, limit: u64, free: u64) -> u64 {
        let ahead = self
            .recorded
            .saturating_add(self.chunk)
            .saturating_sub(self.unused);
        let least = self.wanted.max(if self.recorded > 0 { ahead } else { 0 });
        let is_filling = self.recorded > 0
            && self.unused < self.allowance.min(lent_to_each(policy, limit)) / FILLING_PART;
        if least == 0 && !is_filling {
            return 0;
        }
        let generous = self.allowance.min(free / GROWTH_PART);
        pages_down(
            pages_up(least.max(generous), policy.page).min(free),
            policy.page,
        )
    }

    /// The bytes that others are asked to give up for it.
    pub(super) fn asked(&self, page: u64) -> u64 {
        let few = self.recorded > 0 && self.chunk.saturating_mul(FEW_CHUNKS) >= self.allowance;
        let ahead = if few {
            self.chunk.saturating_sub(self.unused)
        } else {
            0
        };
        let step = (self.allowance / STEP_PART).max(self.chunk).max(page);
        pages_up(self.wanted.max(ahead).min(step), page)
    }
}

/// Data older than this may be taken for a process whose own data is from `oldest` to `newest`.
pub(super) fn older_than(oldest: Option<Timestamp>, newest: Option<Timestamp>) -> Timestamp {
    let (Some(oldest), Some(newest)) = (oldest, newest) else {
        return Timestamp::MAX;
    };
    Timestamp::from_raw(
        oldest
            .raw()
            .saturating_sub(newest.since(oldest) / EVEN_PART),
    )
}
