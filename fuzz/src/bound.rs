//! The bound on the time that a target may take for an input: it is proportional to the length of
//! the input.
//!
//! `main.rs` checks every input of every target with [`check_within`]. The processor time of the
//! process is counted, with all of its threads, because an export writes its output on a thread of
//! its own. Wall-clock time is not counted, so that other work on the machine does not break the
//! bound. A target that makes a longer input from that of the fuzzer adds its length with
//! [`add_input`].

use std::cell::Cell;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The time that every input may take, also the shortest one. Under the address sanitizer, the
/// slowest inputs of the regression corpus take less than a thirtieth of it.
const FLOOR: Duration = Duration::from_secs(10);
/// The additional time for each byte. Under the sanitizer, work on a profile takes about a tenth of
/// it.
const PER_BYTE: Duration = Duration::from_micros(20);

thread_local! {
    /// The bytes that the target has made from the present input.
    static ADDED: Cell<u64> = const { Cell::new(0) };
}

/// Adds the length of what the target has made from its input.
pub(crate) fn add_input(bytes: usize) {
    ADDED.set(ADDED.get() + bytes as u64);
}

/// The processor time that this process has used.
pub(crate) fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// Checks an input with a target.
///
/// # Panics
/// If the target panics, or takes more time than an input of this length may take.
pub(crate) fn check_within(input: &[u8], check_input: impl FnOnce(&[u8])) {
    ADDED.set(0);
    let before = processor_time();
    check_input(input);
    let took = processor_time().saturating_sub(before);
    let bytes = input.len() as u64 + ADDED.get();
    let most = most(bytes);
    assert!(
        took <= most,
        "{took:?} of processor time for {bytes} bytes, at most {most:?}"
    );
}

/// The longest time for an input of this length.
fn most(bytes: u64) -> Duration {
    FLOOR.saturating_add(PER_BYTE.saturating_mul(u32::try_from(bytes).unwrap_or(u32::MAX)))
}
