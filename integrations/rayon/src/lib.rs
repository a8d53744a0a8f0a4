//! The workers and jobs of rayon in the profiler.
