//! The number that `tracing` knows a span by, for spans that only the profiler wants.
//!
//! ```text
//! bits 62–63  1 1                    no counter and no pointer has these bits
//! bits 49–61  number of the call site
//! bits 37–48  number of the span, upper part
//! bits 34–36  1 1 1                  no index of `tracing-subscriber`'s registry has these bits
//! bits  0–33  number of the span, lower part
//! ```
//!
//! So the profiler needs no table to find the call site and the number of such a span. The marks
//! distinguish it from spans of the inner subscriber, which have numbers of that subscriber's. The
//! registry puts a generation, a shard and an index of 38 bits into its numbers; an index of more
//! than 34 bits would need a registry of terabytes.

use tracing_core::span;

/// Bits that are set in every number.
const MARKS: u64 = (0b11 << 62) | (0b111 << 34);
const LOW_BITS: u32 = 34;
const HIGH_SHIFT: u32 = 37;
const HIGH_BITS: u32 = 12;
const SITE_SHIFT: u32 = 49;
const SITE_BITS: u32 = 13;

/// The largest number of a call site.
pub(crate) const MAX_SITE: u64 = (1 << SITE_BITS) - 1;

/// The call site and the number of a recorded span, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordedSpan(u64);

impl RecordedSpan {
    /// A span that is not recorded. Its call site does not exist.
    pub(crate) const NOT_RECORDED: Self = Self(MARKS);

    /// A span with this number, of the call site with this number.
    pub(crate) const fn new(site: u64, number: u64) -> Self {
        let low = number & ((1 << LOW_BITS) - 1);
        let high = (number >> LOW_BITS) & ((1 << HIGH_BITS) - 1);
        Self(MARKS | (site << SITE_SHIFT) | (high << HIGH_SHIFT) | low)
    }

    /// The span of a number of `tracing`; `None` if the inner subscriber has made the number.
    #[inline]
    pub(crate) fn of_id(id: &span::Id) -> Option<Self> {
        Self::from_word(id.into_u64())
    }

    /// The span of a word; `None` if the word is not a span's.
    #[inline]
    pub(crate) const fn from_word(word: u64) -> Option<Self> {
        if word & MARKS == MARKS {
            Some(Self(word))
        } else {
            None
        }
    }

    /// The word itself, which is never 0.
    pub(crate) const fn word(self) -> u64 {
        self.0
    }

    /// The number that `tracing` knows the span by.
    pub(crate) fn id(self) -> span::Id {
        span::Id::from_u64(self.0)
    }

    /// The number of its call site; 0 if it is not recorded.
    pub(crate) const fn site(self) -> u64 {
        (self.0 >> SITE_SHIFT) & MAX_SITE
    }

    /// Whether it is recorded.
    pub(crate) const fn is_recorded(self) -> bool {
        self.site() != 0
    }

    /// Its own number.
    pub(crate) const fn number(self) -> u64 {
        let low = self.0 & ((1 << LOW_BITS) - 1);
        let high = (self.0 >> HIGH_SHIFT) & ((1 << HIGH_BITS) - 1);
        (high << LOW_BITS) | low
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn site_and_number_are_in_the_id(site in 0..=MAX_SITE, number in 0_u64..1 << 46) {
            let span = RecordedSpan::new(site, number);
            prop_assert_eq!((span.site(), span.number()), (site, number));
            prop_assert_eq!(RecordedSpan::of_id(&span.id()), Some(span));
        }

        #[test]
        fn counters_pointers_and_indexes_of_a_registry_are_no_ids_of_ours(
            low in 1_u64..1 << 48, index in 1_u64..1 << 34, top in 0_u64..1 << 26
        ) {
            prop_assert_eq!(RecordedSpan::from_word(low), None, "a counter or a pointer");
            prop_assert_eq!(RecordedSpan::from_word(top << 38 | index), None, "a registry's");
        }
    }

    #[test]
    fn a_span_that_is_not_recorded_has_no_site() {
        assert_eq!(RecordedSpan::NOT_RECORDED.site(), 0);
    }
}
