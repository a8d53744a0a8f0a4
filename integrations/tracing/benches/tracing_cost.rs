//! Figures: the cost of spans and events with this crate's subscribers, with an empty one, and in a
//! program that has a registry.
//!
//! ```text
//! cargo bench -p profiler-tracing
//! name<TAB>value<TAB>unit<TAB>promise
//! ```
//!
//! A process has one default subscriber, so each subject is measured in a process of its own, which
//! this program starts. The subjects take turns, and the smallest value of all turns counts. The
//! first row is the cost without a session. `peers` measures other profilers in the same run.

#[path = "cost/figures.rs"]
mod figures;
#[path = "cost/operations.rs"]
mod operations;
#[path = "cost/subjects.rs"]
mod subjects;

use std::process::ExitCode;

fn main() -> ExitCode {
    figures::run(subjects::SUBJECTS)
}
