//! Samples of other processes, taken by the system: events of `perf_event_open(2)`, the rings into
//! which the system writes their records, and the decoder of these records.
//!
//! Used by the session's reader of observed programs, for processes that have no file of their own.
//! Each thread has one event for each processor; all events of a processor write into one ring,
//! because the memory of rings is limited for each user. An event fires after each interval of
//! processor time that its thread has used. Its record has the registers of the program and a piece
//! of its stack.
//!
//! Invariants: nothing in the sampled process changes; the number of descriptors and the memory of
//! the rings are bounded; a record is checked before any value of it is used.

#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod event;
mod process_events;
mod record;
mod registers;
mod ring;

pub use event::{EventError, Sampling};
pub use process_events::ProcessEvents;
pub use record::{Record, Records, StackSample};
pub use registers::UserRegisters;
pub use ring::Rings;
