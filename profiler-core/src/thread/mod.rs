//! Threads: registration and selection.

mod filter;

pub use filter::ThreadFilter;
