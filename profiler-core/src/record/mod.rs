//! What a thread does to add an entry.

pub mod losses;
