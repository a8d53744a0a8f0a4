//! The counters, gauges and histograms of the crate metrics in the profiler.
