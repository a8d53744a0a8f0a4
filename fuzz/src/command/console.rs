//! The console of the command, which drops all lines.

/// Drops a line.
pub(crate) const fn say(_: &str) {}
