//! The console of the command, which shows nothing here: the lines are made, and dropped.

/// Drops a line.
pub(crate) const fn say(_: &str) {}
