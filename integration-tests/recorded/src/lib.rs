//! Test tools of the integrations: a session of this process, and what is recorded in its pool.
//!
//! [`RunningSession`] is the session of a test, [`markers`] and [`named`] decode the markers in its
//! pool, [`counter`] and [`dropped`] read its counts, and [`KilledChild`] captures what a killed
//! child has recorded. Each test that uses them runs in a separate process
//! ([`test_support::own_process!`]), because a session belongs to a process.
//!
//! Errors are failures of the test, so the functions panic.

mod killed;
mod markers;
mod session;

pub use killed::{KilledChild, wait_to_be_killed};
pub use markers::{Phase, Seen, Value, for_each_marker, markers, named};
pub use session::{RunningSession, counter, dropped, dropped_for, pool, wait_for_room};
