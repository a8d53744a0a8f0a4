//! The records of the crate log as markers of the profiler.
