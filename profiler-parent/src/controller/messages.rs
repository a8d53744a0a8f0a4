//! What goes into the global controller and what comes out of it: [`Event`], [`Command`],
//! [`Refusal`] and the figures of [`Policy`].
//!
//! The session translates messages and deaths into events and carries out the commands.
//! Invariant: nothing here does anything; these are plain values that compare and print.

use profiler_core::ids::{ByteLimit, PoolId};
use profiler_core::internal::manager::update::{ReleasedChunk, Update};
use profiler_core::time::Timestamp;

/// Sizes that the controller works with. All of them are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What every live process may always keep: header page, tables and two smallest chunks.
    /// No command takes a process below it.
    pub floor: u64,
    /// Granularity of allowances: the page size.
    pub page: u64,
    /// Most that a joining process gets from a large free budget. Unused parts of it can be
    /// taken back.
    pub initial: u64,
    /// Kept free for the next process that joins, so that a spawn rarely has to try twice.
    /// At most a sixteenth of the limit is kept.
    pub reserve: u64,
}

impl Policy {
    /// A policy for processes that need `floor` bytes on a machine with pages of `page` bytes:
    /// up to 1 MiB to begin with, one floor kept for the next process.
    pub const fn new(floor: u64, page: u64) -> Self {
        let page = if page == 0 { 1 } else { page };
        let floor = floor.next_multiple_of(page);
        Self { floor, page, initial: 1 << 20, reserve: floor }
    }
}

/// What the parent found in the pool of a process that died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadPool {
    /// Bytes that the pool occupies.
    pub true_bytes: u64,
    /// Those of them that no destroyed chunk gives back: header, definitions, tables.
    pub unreleased_bytes: u64,
    /// Every chunk that holds entries, oldest first. A chunk that was being written when the
    /// process died belongs here too, with the time of its last entry.
    pub chunks: Vec<ReleasedChunk>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A process is about to be spawned (or the parent itself starts). Answered at once with
    /// [`Command::Admit`] or [`Command::Refuse`].
    Join {
        /// Who joins.
        key: PoolId,
    },
    /// Its control channel is open. Answered with the first [`Command::Await`].
    Connected {
        /// Whose channel.
        key: PoolId,
    },
    /// Its control channel is closed, or its manager sent its final update. It stays in the
    /// books as it is until [`Event::Died`], [`Event::Forgotten`] or another connection.
    Disconnected {
        /// Whose channel.
        key: PoolId,
    },
    /// A report arrived; it answers the outstanding [`Command::Await`].
    Update {
        /// Who reports.
        key: PoolId,
        /// What it reports.
        update: Update,
    },
    /// A process is dead; its pool remains.
    Died {
        /// Who died.
        key: PoolId,
        /// What it left.
        pool: DeadPool,
    },
    /// A [`Command::DestroyDead`] was carried out.
    DeadDestroyed {
        /// Whose chunks were destroyed.
        key: PoolId,
        /// What its pool still occupies.
        held_bytes: u64,
    },
    /// The pool is closed for good ([`Command::DropDead`] was carried out, or the session ended),
    /// or a refused process will not try again.
    Forgotten {
        /// Who is gone.
        key: PoolId,
    },
    /// The pool of a live process was looked at.
    Occupies {
        /// Whose pool.
        key: PoolId,
        /// What it really occupies.
        true_bytes: u64,
    },
    /// Enough time has passed for everybody to have paid what was asked: nobody counts any more on
    /// what is still owed. Others give it instead.
    Overdue,
    /// The limit of the session is another one from now on.
    LimitChanged {
        /// The new limit.
        limit: ByteLimit,
    },
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The joining process may be spawned with this first allowance.
    Admit {
        /// Who may join.
        key: PoolId,
        /// Its first allowance.
        allowance: ByteLimit,
    },
    /// The joining process cannot be profiled, or not yet.
    Refuse {
        /// Who may not join.
        key: PoolId,
        /// Why.
        why: Refusal,
    },
    /// Send `AwaitNextChunkManagerUpdate`.
    Await {
        /// To whom.
        key: PoolId,
        /// The allowance from now on.
        allowance: ByteLimit,
    },
    /// Send `DestroyReleasedChunksAtOrBefore`.
    Destroy {
        /// To whom.
        key: PoolId,
        /// Done time of the youngest chunk to go; zero asks for nothing but an update.
        at_or_before: Timestamp,
    },
    /// Destroy chunks in the pool of a dead process, then report [`Event::DeadDestroyed`].
    DestroyDead {
        /// In whose pool.
        key: PoolId,
        /// Done time of the youngest chunk to go.
        at_or_before: Timestamp,
    },
    /// Close the pool of a dead process: no chunk is left in it. Then report
    /// [`Event::Forgotten`].
    DropDead {
        /// Whose pool.
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
    /// The limit cannot hold one more process, whatever is destroyed.
    #[error("a limit of {limit} bytes cannot hold the floors of all processes, {needed} bytes")]
    LimitTooSmall {
        /// The limit.
        limit: u64,
        /// The floors of all live processes and of this one.
        needed: u64,
    },
    /// The same life of the same process is in the books already.
    #[error("the process has joined before")]
    AlreadyJoined,
}

/// What the books say about one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessFigures {
    /// What it is to hold at most; smaller than `booked` while it owes.
    pub allowance: ByteLimit,
    /// What it may hold at this moment, for all the controller knows.
    pub booked: u64,
    /// What it held by its latest report.
    pub held: u64,
    /// What its pool was seen to occupy beyond `booked`: 0 for every process that obeys.
    pub excess: u64,
    /// The part of `held` that is in released chunks.
    pub released: u64,
    /// Done time of its oldest chunk that is not being destroyed.
    pub oldest: Option<Timestamp>,
    /// Whether it is dead and only its pool remains.
    pub dead: bool,
    /// Whether an `Await` is unanswered.
    pub awaiting: bool,
    /// Whether a `Destroy` is unanswered.
    pub destroying: bool,
    /// Whether it can be asked to give something back now.
    pub can_be_asked: bool,
}

impl ProcessFigures {
    /// Bytes asked back from it and not yet shown to be free.
    pub const fn owed(&self) -> u64 {
        self.booked.saturating_sub(self.allowance.get())
    }
}
