//! The input and output of the global controller: [`Event`], [`Command`], [`Refusal`] and the sizes
//! of [`Policy`].
//!
//! The session translates messages and deaths into events and carries out the commands. Invariant:
//! these are plain values that compare and print; they have no effects.

use profiler_core::ids::{ByteLimit, PoolId};
use profiler_core::internal::manager::update::{ReleasedChunk, Update};
use profiler_core::time::Timestamp;

/// Sizes that the controller works with, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Bytes that every live process may always keep: header page, tables and two smallest chunks.
    /// No command takes a process below it.
    pub floor: u64,
    /// Granularity of allowances: the page size.
    pub page: u64,
    /// Largest first allowance of a joining process when much budget is free: memory that is lent
    /// because no process uses it. Unused parts of it are taken back when others need them.
    pub initial: u64,
    /// Bytes kept free for the next process that joins, so that a spawn rarely has to try twice.
    /// At most a sixteenth of the limit is kept.
    pub reserve: u64,
}

impl Policy {
    /// A policy for processes that need `floor` bytes on a machine with pages of `page` bytes: a
    /// first allowance of up to 1 MiB, and one floor kept free for the next process.
    pub const fn new(floor: u64, page: u64) -> Self {
        let page = if page == 0 { 1 } else { page };
        let floor = floor.next_multiple_of(page);
        Self {
            floor,
            page,
            initial: 1 << 20,
            reserve: floor,
        }
    }
}

/// The state of a dead process's pool, as found by the parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadPoolMemory {
    /// Bytes that the pool occupies.
    pub true_bytes: u64,
    /// The part of them that destroying chunks does not free: header, definitions, tables.
    pub unreleased_bytes: u64,
    /// Every chunk that holds entries, oldest first. A chunk that was being written when the
    /// process died belongs here too, with the time of its last entry.
    pub chunks: Vec<ReleasedChunk>,
}

/// An input of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A process is about to be spawned (or the parent itself starts). Answered at once with
    /// [`Command::Admit`] or [`Command::Refuse`].
    Join {
        /// The process that joins.
        key: PoolId,
    },
    /// The control channel of a process is open. Answered with the first [`Command::Await`].
    Connected {
        /// The process.
        key: PoolId,
    },
    /// The control channel of a process is closed, or its manager sent its final update. Its
    /// account stays unchanged until [`Event::Died`], [`Event::Forgotten`] or another connection.
    Disconnected {
        /// The process.
        key: PoolId,
    },
    /// A report arrived; it answers the outstanding [`Command::Await`].
    Update {
        /// The process that reports.
        key: PoolId,
        /// The report.
        update: Update,
    },
    /// A process is dead; its pool remains.
    Died {
        /// The process that died.
        key: PoolId,
        /// The state of its pool.
        pool: DeadPoolMemory,
    },
    /// A [`Command::DestroyDead`] was carried out.
    DeadDestroyed {
        /// The process whose chunks were destroyed.
        key: PoolId,
        /// Bytes that its pool still occupies.
        held_bytes: u64,
    },
    /// The pool is closed for good ([`Command::DropDead`] was carried out, or the session ended),
    /// or a refused process will not try again.
    Forgotten {
        /// The process that is gone.
        key: PoolId,
    },
    /// The pool of a live process was measured.
    Occupies {
        /// The process.
        key: PoolId,
        /// Bytes that its pool really occupies.
        true_bytes: u64,
    },
    /// Enough time has passed for every process to pay its debts: outstanding debts are no longer
    /// expected to be paid. Other processes give the memory instead.
    Overdue,
    /// The limit of the session has changed.
    LimitChanged {
        /// The new limit.
        limit: ByteLimit,
    },
}

/// A command for the session to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The joining process may be spawned with this first allowance.
    Admit {
        /// The process that may join.
        key: PoolId,
        /// Its first allowance.
        allowance: ByteLimit,
    },
    /// The joining process cannot be profiled, or not yet.
    Refuse {
        /// The process that may not join.
        key: PoolId,
        /// The reason.
        why: Refusal,
    },
    /// Send `AwaitNextChunkManagerUpdate`.
    Await {
        /// The receiver.
        key: PoolId,
        /// The new allowance.
        allowance: ByteLimit,
    },
    /// Send `DestroyReleasedChunksAtOrBefore`.
    Destroy {
        /// The receiver.
        key: PoolId,
        /// Done time of the youngest chunk to destroy; zero only asks for an update.
        at_or_before: Timestamp,
    },
    /// Destroy chunks in the pool of a dead process, then report [`Event::DeadDestroyed`].
    DestroyDead {
        /// The process that owned the pool.
        key: PoolId,
        /// Done time of the youngest chunk to destroy.
        at_or_before: Timestamp,
    },
    /// Close the pool of a dead process, which has no chunks left. Then report
    /// [`Event::Forgotten`].
    DropDead {
        /// The process that owned the pool.
        key: PoolId,
    },
}

/// Why a process is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Memory is being freed: try again, or report [`Event::Forgotten`] to give up the claim.
    #[error("{missing} bytes are not free yet, try again shortly")]
    NotYet {
        /// Bytes that must become free first.
        missing: u64,
    },
    /// The limit cannot hold one more process, even if all data is destroyed.
    #[error("a limit of {limit} bytes cannot hold the floors of all processes, {needed} bytes")]
    LimitTooSmall {
        /// The limit.
        limit: u64,
        /// The floors of all live processes and of this one.
        needed: u64,
    },
    /// The process already has an account.
    #[error("the process has already joined")]
    AlreadyJoined,
    /// The session has ended. The controller itself never returns this.
    #[error("the session is over")]
    Over,
}

/// The figures of one process's account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessFigures {
    /// Its decided allowance; smaller than `charged` while it owes.
    pub allowance: ByteLimit,
    /// The most that it may hold now, as far as the controller can tell.
    pub charged: u64,
    /// Bytes that it held at its latest report.
    pub held: u64,
    /// Bytes that its pool was seen to occupy beyond `charged`: 0 for every obedient process.
    pub excess: u64,
    /// The part of `held` that is in released chunks.
    pub released: u64,
    /// Done time of its oldest chunk that is not being destroyed.
    pub oldest: Option<Timestamp>,
    /// Whether it is dead and only its pool is left.
    pub dead: bool,
    /// Whether an `Await` is unanswered.
    pub awaiting: bool,
    /// Whether a `Destroy` is unanswered.
    pub destroying: bool,
    /// Whether it can be asked to give memory back now.
    pub can_be_asked: bool,
}

impl ProcessFigures {
    /// Bytes asked back from it and not yet shown to be free.
    pub const fn owed(&self) -> u64 {
        self.charged.saturating_sub(self.allowance.get())
    }
}
