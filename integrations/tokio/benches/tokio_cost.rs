//! Figures: what a task and a poll cost without this crate, and with it.
//!
//! ```text
//! cargo bench -p profiler-tokio
//! RUSTFLAGS="--cfg tokio_unstable" cargo bench -p profiler-tokio
//! name<TAB>value<TAB>unit<TAB>promise
//! ```
//!
//! Each subject is measured in processes of its own, which this program starts; they take turns.
//! The smallest value of each process counts, and of the processes the median. The first rows are
//! the cost without a session.

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
