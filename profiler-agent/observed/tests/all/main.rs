//! Tests of the preloaded library with real programs, which are read as a session reads them.

mod forks;
mod library;
mod observed;
mod same;
mod samples;
mod signals;
mod unwinding;
