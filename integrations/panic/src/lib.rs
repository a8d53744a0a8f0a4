//! Panics as markers of the profiler, and in its verdicts on processes.
