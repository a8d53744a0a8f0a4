//! The trace and the span that work belongs to.
//!
//! Made by applications. Invariant: neither identifier is zero.

use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};
use std::str::FromStr;

use super::traceparent::{Traceparent, TraceparentError};

/// The trace and the span for which a thread works, as W3C Trace Context defines them.
///
/// ```
/// use profiler_trace::TraceContext;
///
/// let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let context: TraceContext = header.parse()?;
/// assert_eq!(context.span_id().get(), 0x00f0_67aa_0ba9_02b7);
/// assert_eq!(context.to_string(), header);
/// # Ok::<(), profiler_trace::TraceparentError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace_id: NonZeroU128,
    span_id: NonZeroU64,
    flags: u8,
}

impl TraceContext {
    /// The context with these identifiers and flags.
    pub const fn new(trace_id: NonZeroU128, span_id: NonZeroU64, flags: u8) -> Self {
        Self {
            trace_id,
            span_id,
            flags,
        }
    }

    /// The context with these identifiers, in the order of their bytes in the header; `None` if one
    /// of them is zero. OpenTelemetry's `TraceId::to_bytes` and `SpanId::to_bytes` have this form.
    pub const fn from_bytes(trace_id: [u8; 16], span_id: [u8; 8], flags: u8) -> Option<Self> {
        let trace_id = NonZeroU128::new(u128::from_be_bytes(trace_id));
        let span_id = NonZeroU64::new(u64::from_be_bytes(span_id));
        match (trace_id, span_id) {
            (Some(trace_id), Some(span_id)) => Some(Self::new(trace_id, span_id, flags)),
            _ => None,
        }
    }

    /// The trace.
    pub const fn trace_id(self) -> NonZeroU128 {
        self.trace_id
    }

    /// The span in the trace.
    pub const fn span_id(self) -> NonZeroU64 {
        self.span_id
    }

    /// The flags of the trace. Bit 0 says that the sender may have recorded the trace.
    pub const fn flags(self) -> u8 {
        self.flags
    }

    /// The identifiers as three words: the halves of the trace id, and the span id.
    #[doc(hidden)]
    pub const fn to_words(self) -> [u64; 3] {
        #[allow(clippy::cast_possible_truncation)] // the halves
        let halves = [
            (self.trace_id.get() >> 64) as u64,
            self.trace_id.get() as u64,
        ];
        [halves[0], halves[1], self.span_id.get()]
    }

    /// The context of [`Self::to_words`] and flags.
    #[doc(hidden)]
    pub const fn from_words([high, low, span]: [u64; 3], flags: u8) -> Option<Self> {
        let trace_id = NonZeroU128::new(((high as u128) << 64) | low as u128);
        match (trace_id, NonZeroU64::new(span)) {
            (Some(trace_id), Some(span_id)) => Some(Self::new(trace_id, span_id, flags)),
            _ => None,
        }
    }
}

/// The header `traceparent`, in version `00`.
impl fmt::Display for TraceContext {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = Traceparent {
            trace_id: self.trace_id,
            parent_id: self.span_id,
            flags: self.flags,
        };
        header.fmt(out)
    }
}

impl FromStr for TraceContext {
    type Err = TraceparentError;

    /// Reads a header `traceparent`. Versions after `00` are read as the specification says: they
    /// may have more parts at the end.
    fn from_str(header: &str) -> Result<Self, TraceparentError> {
        let read = Traceparent::parse(header)?;
        Ok(Self::new(read.trace_id, read.parent_id, read.flags))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_words_and_text_are_the_same_context() {
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03";
        let read: TraceContext = header.parse().unwrap();
        let trace = read.trace_id().get().to_be_bytes();
        let span = read.span_id().get().to_be_bytes();
        assert_eq!(TraceContext::from_bytes(trace, span, 3), Some(read));
        assert_eq!(TraceContext::from_words(read.to_words(), 3), Some(read));
        assert_eq!(TraceContext::from_bytes([0; 16], span, 3), None);
        assert_eq!(TraceContext::from_bytes(trace, [0; 8], 3), None);
    }
}
