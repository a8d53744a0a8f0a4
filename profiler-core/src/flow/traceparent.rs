//! Flows in the header `traceparent` of W3C Trace Context, levels 1 and 2.
//!
//! Called by applications. The flow is the parent id of the header.
//!
//! ```text
//! 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
//! │  trace id, 32 digits              flow, 16 digits   flags
//! └─ version
//! ```
//!
//! Invariants: digits are in lower case, as the specification requires; a header of a later version
//! may only have more parts at its end.

use std::{error, fmt};

use super::{Flow, TEXT_LEN};

/// The digits of the version and of the flags.
const BYTE_LEN: usize = 2;
const TRACE_ID_LEN: usize = 32;
/// The version that is written.
const VERSION: &str = "00";
/// The version that the specification forbids.
const NO_VERSION: &str = "ff";
/// The sender may have recorded the request.
const SAMPLED: &str = "01";

/// Why a text is not a `traceparent` of the W3C, or has no flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceparentError {
    /// The text does not consist of version, trace id, parent id and flags, in digits of the right
    /// number and in lower case, with `-` between them.
    Malformed,
    /// The version is `ff`, which the specification forbids.
    ForbiddenVersion,
    /// The trace id is zero, which the specification forbids.
    NoTraceId,
    /// The parent id is zero, which the specification forbids.
    NoParentId,
}

/// Written by hand, because `thiserror` is not available without the feature `engine`.
impl fmt::Display for TraceparentError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Malformed => "a traceparent is `version-trace id-parent id-flags` in lower case",
            Self::ForbiddenVersion => "a traceparent must not have the version ff",
            Self::NoTraceId => "the trace id of a traceparent must not be zero",
            Self::NoParentId => "the parent id of a traceparent must not be zero",
        })
    }
}

impl error::Error for TraceparentError {}

impl Flow {
    /// The flow of a header `traceparent`: its parent id.
    ///
    /// An application that already sends this header with its requests need not change it: sender
    /// and receiver both read the flow from the header.
    ///
    /// ```
    /// use profiler_core::flow;
    /// use profiler_core::flow::Flow;
    ///
    /// let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// // In the sender:
    /// if let Ok(request) = Flow::from_traceparent(header) {
    ///     flow!(begin request, "request sent");
    /// }
    /// // In the receiver:
    /// if let Ok(request) = Flow::from_traceparent(header) {
    ///     flow!(end request, "request received");
    /// }
    /// ```
    ///
    /// Versions after `00` are read as the specification says: they may have more parts at the end.
    ///
    /// # Errors
    /// [`TraceparentError`], if the specification says that the header must not be used.
    pub fn from_traceparent(header: &str) -> Result<Self, TraceparentError> {
        let parts = Parts::of(header).ok_or(TraceparentError::Malformed)?;
        if parts.version == NO_VERSION {
            return Err(TraceparentError::ForbiddenVersion);
        }
        let ends = parts.rest.is_empty();
        if !ends && (parts.version == VERSION || !parts.rest.starts_with('-')) {
            return Err(TraceparentError::Malformed);
        }
        if parts.trace_id.bytes().all(|digit| digit == b'0') {
            return Err(TraceparentError::NoTraceId);
        }
        parts
            .parent_id
            .parse()
            .map_err(|_| TraceparentError::NoParentId)
    }

    /// A header `traceparent` for this flow: version `00`, the flow as the parent id, and the flag
    /// "sampled". The trace id is derived from the flow.
    ///
    /// For applications that have no traces. One that has traces sends its own header
    /// ([`Self::from_traceparent`] reads the flow from it), or keeps its trace id
    /// ([`Self::to_traceparent_of`]).
    ///
    /// ```
    /// use profiler_core::flow::Flow;
    ///
    /// let flow = Flow::new();
    /// assert_eq!(Flow::from_traceparent(&flow.to_traceparent()), Ok(flow));
    /// ```
    pub fn to_traceparent(self) -> String {
        self.to_traceparent_of(self.trace_id())
    }

    /// Like [`Self::to_traceparent`], with the trace id of the application. The receiver's spans
    /// then belong to the trace, and their parent is the flow, which is no span of the trace. Zero
    /// is no trace id: it stands for the one that is derived from the flow.
    pub fn to_traceparent_of(self, trace_id: u128) -> String {
        let trace_id = match trace_id {
            0 => self.trace_id(),
            of_application => of_application,
        };
        format!("{VERSION}-{trace_id:032x}-{self}-{SAMPLED}")
    }

    /// The trace id of this flow. Its lower half is the flow, because some receivers keep only that
    /// half.
    fn trace_id(self) -> u128 {
        let flow = self.0.get();
        (u128::from(mixed(flow)) << 64) | u128::from(flow)
    }
}

/// Another number that looks random: the finalizer of `splitmix64`.
const fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The parts of a header.
struct Parts<'a> {
    version: &'a str,
    trace_id: &'a str,
    parent_id: &'a str,
    /// What follows the flags.
    rest: &'a str,
}

impl<'a> Parts<'a> {
    fn of(header: &'a str) -> Option<Self> {
        let (version, rest) = digits(header, BYTE_LEN)?;
        let (trace_id, rest) = digits(rest.strip_prefix('-')?, TRACE_ID_LEN)?;
        let (parent_id, rest) = digits(rest.strip_prefix('-')?, TEXT_LEN)?;
        let (_, rest) = digits(rest.strip_prefix('-')?, BYTE_LEN)?;
        Some(Self {
            version,
            trace_id,
            parent_id,
            rest,
        })
    }
}

/// The first `count` characters, which must be digits in lower case, and the rest.
fn digits(text: &str, count: usize) -> Option<(&str, &str)> {
    let (digits, rest) = text.split_at_checked(count)?;
    let are_digits = digits
        .bytes()
        .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    are_digits.then_some((digits, rest))
}
