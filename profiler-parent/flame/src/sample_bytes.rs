//! Encodes samples for tests, as `profiler_core::internal::entry` describes them.

use profiler_core::internal::entry::sample::SampleEntry;
use profiler_core::internal::entry::{Entry, decode};

/// A sample to encode.
#[derive(Clone, Debug, Default)]
pub(crate) struct TestSample {
    pub(crate) thread: u64,
    pub(crate) at: u64,
    pub(crate) shared: u16,
    /// Encoded frames.
    pub(crate) own: Vec<u64>,
    pub(crate) cpu_ns: u64,
    pub(crate) is_cut: bool,
    pub(crate) waits: bool,
    pub(crate) more_ticks: u32,
}

impl TestSample {
    /// The bytes of the entry.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        const KIND: u64 = 3 << 28;
        const TAIL: u64 = 1 << 26;
        const FOREIGN: u64 = 1 << 27;
        let flags = u64::from(self.is_cut) << 16 | u64::from(self.waits) << 18;
        let first = u64::from(self.shared) | flags | u64::from(self.more_ticks) << 24;
        let mut payload = vec![first, self.cpu_ns, self.own.len() as u64];
        payload.extend(&self.own);
        let lengths = (payload.len() as u64 * 8) << 32;
        let len = 4 + payload.len() as u64;
        let mut words = vec![KIND | TAIL | FOREIGN | len, self.at, self.thread, lengths];
        words.extend(payload);
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// Passes the decoded sample to `then`.
    pub(crate) fn with<T>(&self, then: impl FnOnce(&SampleEntry<'_>) -> T) -> T {
        match decode(&self.bytes()) {
            Ok((Entry::Sample(sample), _)) => then(&sample),
            other => panic!("not a sample: {other:?}"),
        }
    }
}
