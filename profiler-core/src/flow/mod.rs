//! Flows: arrows in a profile that go from marker to marker, also between processes and machines.
//!
//! Called by applications. One process begins a flow and sends its text along with a request; the
//! others record a step, or the end, when they have received it. Viewers draw an arrow from each
//! marker of a flow to the next one.
//!
//! ```
//! use profiler_core::flow;
//! use profiler_core::flow::Flow;
//!
//! // In the process that sends a request:
//! let request = Flow::new();
//! flow!(begin request, "request sent", url = "index.html");
//! let header = request.to_string();
//!
//! // In the process that has received it:
//! if let Ok(request) = header.parse::<Flow>() {
//!     flow!(step request, "request received");
//!     flow!(end request, "answered");
//! }
//! ```
//!
//! A flow can travel in the header `traceparent` of the W3C: see [`Flow::to_traceparent`] and
//! [`Flow::from_traceparent`].
//!
//! Compiled with and without the feature `engine`. Invariant: [`Flow::new`] returns another flow
//! for each call in both builds, because the processes that receive the flow may record it. The
//! macro compiles to nothing without the feature `enabled`.

mod marks;
mod serial;
mod traceparent;

use std::num::NonZeroU64;
use std::str::FromStr;
use std::{error, fmt};

use crate::flow_ids::flow_of;
#[cfg(all(feature = "engine", unix))]
use crate::marker::span_number::draw_span_number;

#[doc(hidden)]
pub use marks::{FlowBegin, FlowEnd, FlowStep};
pub use profiler_trace::TraceparentError;

/// The length of the text of a flow: a number of 64 bits in hexadecimal digits.
const TEXT_LEN: usize = 16;

/// The identifier of a flow: a number of 64 bits that is not zero and looks random.
///
/// Processes pass it to each other as a text of 16 hexadecimal digits ([`Display`](fmt::Display),
/// [`FromStr`]), with serde, or as a number. The profile shows the same text. `serde` writes the
/// text in formats for humans, such as JSON, and the number in others.
///
/// ```
/// use profiler_core::flow::Flow;
///
/// let flow = Flow::new();
/// assert_eq!(flow.to_string().parse(), Ok(flow));
/// ```
///
/// The macro [`crate::flow!`] records the markers of a flow. A flow is also a value for the fields
/// of other macros, `marker!("request", flow = flow)`, and for the payloads of your own marker
/// types, with [`Format::FlowId`](crate::marker::schema::Format::FlowId).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow(NonZeroU64);

impl Flow {
    /// A new flow, which no other process has.
    ///
    /// Costs a hash and a system call, also without a session and without the feature `enabled`:
    /// other processes may record what this one sends.
    #[allow(clippy::new_without_default)] // each call returns another value
    pub fn new() -> Self {
        let number = flow_of(draw_span_number());
        Self(NonZeroU64::new(number).unwrap_or(NonZeroU64::MIN))
    }

    /// The number of the flow.
    pub const fn number(self) -> NonZeroU64 {
        self.0
    }
}

/// Draws a number. With the engine it also belongs to no span of this process.
#[cfg(not(all(feature = "engine", unix)))]
fn draw_span_number() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl From<NonZeroU64> for Flow {
    fn from(number: NonZeroU64) -> Self {
        Self(number)
    }
}

impl From<Flow> for NonZeroU64 {
    fn from(flow: Flow) -> Self {
        flow.0
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:016x}", self.0)
    }
}

impl FromStr for Flow {
    type Err = ParseFlowError;

    /// Reads 16 hexadecimal digits, in lower or upper case.
    fn from_str(text: &str) -> Result<Self, ParseFlowError> {
        let is_plain = text.len() == TEXT_LEN && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u64::from_str_radix(text, 16).ok().and_then(NonZeroU64::new);
        number
            .filter(|_| is_plain)
            .map(Self)
            .ok_or(ParseFlowError(()))
    }
}

/// A text is not that of a [`Flow`]: 16 hexadecimal digits that are not all zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseFlowError(());

/// Written by hand, because `thiserror` is not available without the feature `engine`.
impl fmt::Display for ParseFlowError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("not a flow: 16 hexadecimal digits that are not all zero")
    }
}

impl error::Error for ParseFlowError {}
