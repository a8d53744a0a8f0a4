//! The messages between parent and child: one enum per direction.
//!
//! Built and read by `profiler-parent` and `profiler-child`. Rules for senders: at most one
//! outstanding request of each kind per child (later ones coalesce), bulk data never travels here,
//! and [`Hello`] is the child's first message. Any change of a type in this file, of a type that it
//! carries, or of the environment variables' forms requires a new [`PROTOCOL_VERSION`].

mod joining;

use std::fmt;

use profiler_core::groups::Probes;
use profiler_core::ids::{ByteLimit, ProcessId, ProcessStart};
use profiler_core::internal::manager::update::ManagerUpdate;
use profiler_core::internal::profile_spec::{ProcessSummary, ProfileSpec};
use profiler_core::internal::waits::{AskedWait, NamedWait};
use profiler_core::session::SessionParams;
use profiler_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::environment::Token;
#[doc(inline)]
pub use crate::version::PROTOCOL_VERSION;
pub use joining::{JoinAnswer, JoinRefusal, JoinRequest, Opening, RecordedElsewhere};

macro_rules! request_number {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(u64);

        impl $name {
            /// Wraps the bare number.
            pub const fn new(value: u64) -> Self {
                Self(value)
            }

            /// The bare number.
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The number that follows; wraps around after 2^64.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.wrapping_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

request_number! {
    /// Identifies one request; [`ToParent::Done`] repeats it.
    RequestId
}
request_number! {
    /// Identifies one capture.
    GatherId
}

/// The progress of a piece of work: fixed point with 31 fractional bits, so 2^31 is 1.0.
///
/// Larger numbers are invalid. [`Proportion::INVALID`] means that there is no such work.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Proportion(u32);

impl Proportion {
    const ONE: u32 = 1 << 31;

    /// Nothing is done.
    pub const ZERO: Self = Self(0);
    /// All is done.
    pub const COMPLETE: Self = Self(Self::ONE);
    /// Not a valid proportion.
    pub const INVALID: Self = Self(u32::MAX);

    /// Wraps a fixed-point number, valid or not.
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    /// The fixed-point number.
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// Whether this is between 0 and 1.
    pub const fn is_valid(self) -> bool {
        self.0 <= Self::ONE
    }

    /// The proportion as a number between 0 and 1, if it is valid.
    pub fn as_f64(self) -> Option<f64> {
        self.is_valid()
            .then(|| f64::from(self.0) / f64::from(Self::ONE))
    }
}

impl fmt::Display for Proportion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_f64() {
            Some(ratio) => write!(f, "{:.1}%", ratio * 100.0),
            None => f.write_str("invalid"),
        }
    }
}

/// The first message of a child, which identifies it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The child's [`PROTOCOL_VERSION`].
    pub version: u32,
    /// The secret that the parent gave this child at spawn.
    pub token: Token,
    /// The child's process number.
    pub pid: ProcessId,
    /// The child's start time.
    pub start: ProcessStart,
    /// The file name of its program; empty if it is not known.
    pub name: String,
}

/// The outcome of a request for a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GatherOutcome {
    /// The child's part is in its part file.
    Written {
        /// Bytes of JSON in the part file.
        length: u64,
        /// The content of the part.
        summary: ProcessSummary,
    },
    /// The child could not write its part, for this reason.
    Failed(String),
}

/// A message from the parent to a child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToChild {
    /// Start a session, after ending the running one.
    Start {
        /// Answered by [`ToParent::Done`].
        request: RequestId,
        /// The parameters of the session.
        params: SessionParams,
        /// The bytes that the child may hold.
        allowance: ByteLimit,
    },
    /// Start a session unless one with equal parameters runs.
    EnsureStarted {
        /// Answered by [`ToParent::Done`].
        request: RequestId,
        /// The parameters of the session.
        params: SessionParams,
        /// The bytes that the child may hold.
        allowance: ByteLimit,
    },
    /// End the session.
    Stop {
        /// Answered by [`ToParent::Done`].
        request: RequestId,
    },
    /// Record nothing until `Resume`.
    Pause {
        /// Answered by [`ToParent::Done`].
        request: RequestId,
    },
    /// End `Pause`.
    Resume {
        /// Answered by [`ToParent::Done`].
        request: RequestId,
    },
    /// Take no periodic samples until `ResumeSampling`; markers are still recorded.
    PauseSampling {
        /// Answered by [`ToParent::Done`].
        request: RequestId,
    },
    /// End `PauseSampling`.
    ResumeSampling {
        /// Answered by [`ToParent::Done`].
        request: RequestId,
    },
    /// Answer once every selected thread has been sampled, or at once if sampling is off.
    WaitOnePeriodicSampling {
        /// Answered by [`ToParent::Done`].
        request: RequestId,
    },
    /// Measure these probes of groups from now on.
    SetProbes {
        /// Answered by [`ToParent::Done`].
        request: RequestId,
        /// All probes that are wanted.
        probes: Probes,
    },
    /// Answer at once. The answer shows that the child has read everything sent before.
    Echo {
        /// Answered by [`ToParent::Done`]; unpredictable.
        request: RequestId,
    },
    /// Report on memory at the next change, and obey this allowance from now on.
    AwaitNextChunkManagerUpdate {
        /// The bytes that the child may hold.
        allowance: ByteLimit,
    },
    /// Destroy released chunks that were done at or before this time. Not answered: the next update
    /// shows the effect.
    DestroyReleasedChunksAtOrBefore {
        /// Chunks done later are kept.
        timestamp: Timestamp,
    },
    /// Write your part of a profile to the part file.
    GatherProfile {
        /// The capture.
        id: GatherId,
        /// The settings that all parts share.
        spec: ProfileSpec,
    },
    /// Stop writing; the parent ignores later messages about this capture.
    CancelGather {
        /// The capture.
        id: GatherId,
    },
    /// Report the progress of the writing.
    GetGatherProfileProgress {
        /// The capture.
        id: GatherId,
    },
    /// Answers [`ToParent::AskedWaits`].
    NamedWaits {
        /// The waits whose holders were looked up; not necessarily all.
        waits: Vec<NamedWait>,
    },
}

/// A message from a child to the parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToParent {
    /// Identifies the child. Always the first message, and sent only once.
    Hello(Hello),
    /// A request has been carried out.
    Done {
        /// The request.
        request: RequestId,
    },
    /// The state of the child's memory.
    ChunkManagerUpdate(ManagerUpdate),
    /// The outcome of a capture.
    Profile {
        /// The capture.
        id: GatherId,
        /// The outcome.
        outcome: GatherOutcome,
    },
    /// The progress of the writing.
    GatherProgress {
        /// The capture.
        id: GatherId,
        /// The written proportion; [`Proportion::INVALID`] if the child is not writing.
        proportion: Proportion,
        /// The part of the profile that it is writing.
        location: String,
    },
    /// The child is about to end, and its part of the profile is in the part file.
    ShutdownProfile {
        /// Bytes of JSON in the part file.
        length: u64,
    },
    /// Asks for whom threads of the child wait. A child asks again only after the answer,
    /// [`ToChild::NamedWaits`], and not at once.
    AskedWaits {
        /// The threads.
        waits: Vec<AskedWait>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proportion_above_one_is_invalid() {
        assert!(Proportion::COMPLETE.is_valid());
        assert_eq!(Proportion::from_raw(1 << 30).as_f64(), Some(0.5));
        assert!(!Proportion::from_raw((1 << 31) + 1).is_valid());
        assert_eq!(Proportion::INVALID.as_f64(), None);
        assert_eq!(Proportion::INVALID.to_string(), "invalid");
    }
}
