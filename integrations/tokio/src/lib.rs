//! The runtime and the tasks of tokio in the profiler.
