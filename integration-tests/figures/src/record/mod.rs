//! Group `record`: the cost of recording for the thread that records.
//!
//! One file per question: `kinds` (each kind of marker, and recording off), `threads` (two threads
//! at the same time), `sustained` (memory that was never touched before), `quiet` (system calls and
//! allocations), `peers` (the same scope in other libraries).

mod kinds;
mod peers;
mod quiet;
mod sustained;
mod syscalls;
mod threads;

use integration_tests::figure::Report;

/// Measures the group.
pub(crate) fn measure(report: &mut Report) -> anyhow::Result<()> {
    kinds::measure(report)?;
    threads::measure(report)?;
    sustained::measure(report)?;
    quiet::measure(report)?;
    peers::measure(report)
}
