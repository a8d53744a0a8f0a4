//! A flag that any code of the application may raise, also a signal handler.

use std::sync::atomic::{AtomicU64, Ordering};

/// A flag for [`CaptureTrigger::flag`](super::CaptureTrigger::flag).
///
/// ```
/// use profiler_parent::CaptureFlag;
///
/// static CAPTURE: CaptureFlag = CaptureFlag::new();
///
/// extern "C" fn handler(_signal: i32) {
///     CAPTURE.raise(); // the program's own handler of a signal
/// }
/// # handler(12);
/// ```
#[derive(Debug, Default)]
pub struct CaptureFlag(AtomicU64);

impl CaptureFlag {
    /// A flag that was never raised.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Raises the flag: one sign for each trigger with this flag. One atomic addition, which is
    /// async-signal-safe. Without a trigger it has no effect.
    pub fn raise(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    /// How often it was raised.
    pub(super) fn raised(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}
