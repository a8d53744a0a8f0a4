//! Flows in the header `traceparent` of W3C Trace Context.
//!
//! Called by applications. The flow is the parent id of the header.

use std::num::NonZeroU128;

use profiler_trace::{Traceparent, TraceparentError};

use super::Flow;

/// The sender may have recorded the request.
const SAMPLED: u8 = 1;

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
        Traceparent::parse(header).map(|read| Self(read.parent_id))
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
        self.to_traceparent_of(0)
    }

    /// Like [`Self::to_traceparent`], with the trace id of the application. The receiver's spans
    /// then belong to the trace, and their parent is the flow, which is no span of the trace. Zero
    /// is no trace id: it stands for the one that is derived from the flow.
    pub fn to_traceparent_of(self, trace_id: u128) -> String {
        let of_application = NonZeroU128::new(trace_id);
        let header = Traceparent {
            trace_id: of_application.unwrap_or_else(|| self.trace_id()),
            parent_id: self.0,
            flags: SAMPLED,
        };
        header.to_string()
    }

    /// The trace id of this flow. Its lower half is the flow, because some receivers keep only that
    /// half.
    fn trace_id(self) -> NonZeroU128 {
        let mixed = u128::from(mixed(self.0.get())) << 64;
        NonZeroU128::from(self.0) | mixed
    }
}

/// Another number that looks random: the finalizer of `splitmix64`.
const fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
