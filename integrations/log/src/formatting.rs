//! Whether the calling thread formats a record for the profiler.
//!
//! Used by the logger. A `Display` of the host may log. Without the profiler it runs when the
//! program's own logger formats the record, and only then. So records that it makes while the
//! profiler formats never reach the program's logger.

use std::cell::Cell;

/// What becomes of the record that is formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Formatting {
    /// No record is formatted.
    Nothing,
    /// The program's own logger gets the record afterwards, and formats it again.
    ForBoth,
    /// The program's own logger does not get the record.
    ForProfiler,
}

thread_local! {
    static FORMATTING: Cell<Formatting> = const { Cell::new(Formatting::Nothing) };
}

/// What the calling thread formats.
#[inline]
pub(crate) fn present() -> Formatting {
    FORMATTING.get()
}

/// The time in which a record is formatted for the profiler. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct FormattingScope(Formatting);

impl FormattingScope {
    #[inline]
    pub(crate) fn enter(formatting: Formatting) -> Self {
        Self(FORMATTING.replace(formatting))
    }
}

impl Drop for FormattingScope {
    #[inline]
    fn drop(&mut self) {
        FORMATTING.set(self.0);
    }
}
