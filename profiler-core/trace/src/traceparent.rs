//! The header `traceparent` of W3C Trace Context, levels 1 and 2.
//!
//! Used by [`crate::TraceContext`], and by the flows of `profiler-core`.
//!
//! ```text
//! 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
//! │  trace id, 32 digits              parent id        flags
//! └─ version
//! ```
//!
//! Invariants: digits are in lower case, as the specification requires; a header of a later version
//! may only have more parts at its end.

use std::num::{NonZeroU64, NonZeroU128};
use std::{error, fmt};

/// The digits of the version and of the flags.
const BYTE_LEN: usize = 2;
const TRACE_ID_LEN: usize = 32;
const PARENT_ID_LEN: usize = 16;
/// The version that this crate writes.
const VERSION: &str = "00";
/// The version that the specification forbids.
const NO_VERSION: &str = "ff";

/// Why a text is not a `traceparent` of the W3C.
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

/// Written by hand, because this crate has no dependencies.
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

/// The numbers of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traceparent {
    /// The trace id.
    pub trace_id: NonZeroU128,
    /// The parent id: the span of the sender.
    pub parent_id: NonZeroU64,
    /// The flags.
    pub flags: u8,
}

impl Traceparent {
    /// Reads a header.
    ///
    /// # Errors
    /// [`TraceparentError`], if the specification says that the header must not be used.
    pub fn parse(header: &str) -> Result<Self, TraceparentError> {
        let parts = Parts::of(header).ok_or(TraceparentError::Malformed)?;
        if parts.version == NO_VERSION {
            return Err(TraceparentError::ForbiddenVersion);
        }
        let ends = parts.rest.is_empty();
        if !ends && (parts.version == VERSION || !parts.rest.starts_with('-')) {
            return Err(TraceparentError::Malformed);
        }
        let trace_id = u128::from_str_radix(parts.trace_id, 16).ok();
        let parent_id = u64::from_str_radix(parts.parent_id, 16).ok();
        let flags = u8::from_str_radix(parts.flags, 16);
        Ok(Self {
            trace_id: trace_id
                .and_then(NonZeroU128::new)
                .ok_or(TraceparentError::NoTraceId)?,
            parent_id: parent_id
                .and_then(NonZeroU64::new)
                .ok_or(TraceparentError::NoParentId)?,
            flags: flags.map_err(|_| TraceparentError::Malformed)?,
        })
    }
}

/// The header of these numbers, in version `00`.
impl fmt::Display for Traceparent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            trace_id,
            parent_id,
            flags,
        } = self;
        write!(
            out,
            "{VERSION}-{trace_id:032x}-{parent_id:016x}-{flags:02x}"
        )
    }
}

/// The parts of a header.
struct Parts<'a> {
    version: &'a str,
    trace_id: &'a str,
    parent_id: &'a str,
    flags: &'a str,
    /// What follows the flags.
    rest: &'a str,
}

impl<'a> Parts<'a> {
    fn of(header: &'a str) -> Option<Self> {
        let (version, rest) = digits(header, BYTE_LEN)?;
        let (trace_id, rest) = digits(rest.strip_prefix('-')?, TRACE_ID_LEN)?;
        let (parent_id, rest) = digits(rest.strip_prefix('-')?, PARENT_ID_LEN)?;
        let (flags, rest) = digits(rest.strip_prefix('-')?, BYTE_LEN)?;
        Some(Self {
            version,
            trace_id,
            parent_id,
            flags,
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

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_header_is_read_and_written() {
        let read = Traceparent::parse(HEADER).unwrap();
        assert_eq!(
            read.trace_id.get(),
            0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736
        );
        assert_eq!(
            (read.parent_id.get(), read.flags),
            (0x00f0_67aa_0ba9_02b7, 1)
        );
        assert_eq!(read.to_string(), HEADER);
    }

    #[test]
    fn a_later_version_may_have_more_parts_at_its_end() {
        let later = HEADER.replacen("00", "cc", 1);
        assert!(Traceparent::parse(&later).is_ok());
        assert!(Traceparent::parse(&format!("{later}-more")).is_ok());
        let malformed = Err(TraceparentError::Malformed);
        assert_eq!(Traceparent::parse(&format!("{later}more")), malformed);
        assert_eq!(Traceparent::parse(&format!("{HEADER}-more")), malformed);
    }

    #[test]
    fn what_the_specification_forbids_is_refused() {
        let refused = |header: &str| Traceparent::parse(header).unwrap_err();
        let forbidden = HEADER.replacen("00", "ff", 1);
        assert_eq!(refused(&forbidden), TraceparentError::ForbiddenVersion);
        let no_trace = format!("00-{:032x}-00f067aa0ba902b7-01", 0);
        assert_eq!(refused(&no_trace), TraceparentError::NoTraceId);
        let no_parent = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{:016x}-01", 0);
        assert_eq!(refused(&no_parent), TraceparentError::NoParentId);
        for malformed in [&HEADER.to_uppercase(), "", "00", "é0-", &HEADER[..54]] {
            assert_eq!(
                refused(malformed),
                TraceparentError::Malformed,
                "{malformed}"
            );
        }
    }
}
