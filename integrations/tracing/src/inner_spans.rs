//! The recorded spans that keep the number of an inner subscriber.
//!
//! Used by the subscriber for spans that its inner subscriber wants too, and by the layer for all.
//! All instances share one table. Different inner subscribers may use the same number, so each
//! instance changes the numbers in a way of its own.

use std::sync::atomic::{AtomicU64, Ordering};

use profiler_core::internal::runtime_site::count_without_site;
use tracing_core::span;

use crate::span_id::RecordedSpan;
use crate::span_map::SpanMap;

static SPANS: SpanMap = SpanMap::new();
/// The number of instances that were made.
static MADE: AtomicU64 = AtomicU64::new(0);

/// The recorded spans of one inner subscriber.
#[derive(Debug)]
pub(crate) struct InnerSpans {
    salt: u64,
}

impl InnerSpans {
    pub(crate) fn new() -> Self {
        let earlier = MADE.fetch_add(1, Ordering::Relaxed);
        Self {
            salt: earlier.wrapping_mul(0xd6e8_feb8_6659_fd93),
        }
    }

    fn key(&self, id: &span::Id) -> u64 {
        (id.into_u64() ^ self.salt).max(1)
    }

    /// Adds a span that is about to begin. False without a place for it: then it must not begin,
    /// and its start and its end are counted as lost.
    pub(crate) fn insert(&self, id: &span::Id, span: RecordedSpan) -> bool {
        let is_added = SPANS.insert(self.key(id), span);
        if !is_added {
            count_without_site();
            count_without_site();
        }
        is_added
    }

    #[inline]
    pub(crate) fn find(&self, id: &span::Id) -> Option<RecordedSpan> {
        SPANS.find(self.key(id))
    }

    /// Removes this span. True if it was there.
    pub(crate) fn remove(&self, id: &span::Id, span: RecordedSpan) -> bool {
        SPANS.remove(self.key(id), span)
    }
}
