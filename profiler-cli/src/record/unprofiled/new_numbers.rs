//! The process numbers that the system has assigned since the last call.
//!
//! Used by the thread that looks for processes that do not record. The system gives numbers in
//! ascending order, to processes and threads, and begins again after the largest one. The last
//! number is in `/proc/loadavg`, so the cost of finding new processes grows with the numbers that
//! are new, and not with the processes that run. Invariant: at most [`MAX_NEW`] numbers are
//! returned.

use std::fs;
use std::ops::RangeInclusive;

/// The maximum count of numbers that are returned. If more are new, looking at all processes costs
/// less.
const MAX_NEW: u32 = 1024;
/// The first number that the system gives again after the largest one.
const FIRST_AGAIN: u32 = 300;

/// The numbers that the system has assigned since the last call of [`Self::take`].
#[derive(Debug)]
pub(super) struct NewNumbers {
    last: u32,
    largest: u32,
}

impl NewNumbers {
    /// Begins with the number that the system has given last. `None` if the system does not tell.
    pub(super) fn begin() -> Option<Self> {
        let largest = fs::read_to_string("/proc/sys/kernel/pid_max").ok()?;
        Some(Self {
            last: last_number()?,
            largest: largest.trim().parse().ok()?,
        })
    }

    /// The numbers that were given since the last call, in the order in which they were given.
    /// `None` if there are too many, or the system does not tell.
    pub(super) fn take(&mut self) -> Option<impl Iterator<Item = u32> + use<>> {
        let now = last_number()?;
        let last = std::mem::replace(&mut self.last, now);
        let [first, again] = given(last, now, self.largest);
        let count = first.clone().count() + again.clone().count();
        (count <= MAX_NEW as usize).then(|| first.chain(again))
    }
}

/// The numbers after `last` up to `now`, in two ranges: the second one has the numbers after the
/// system has begun again, and is empty if it has not.
fn given(last: u32, now: u32, largest: u32) -> [RangeInclusive<u32>; 2] {
    let next = last.saturating_add(1);
    #[allow(clippy::reversed_empty_ranges)] // it is meant to be empty
    let nothing = 1..=0;
    if now >= last {
        [next..=now, nothing]
    } else {
        [next..=largest, FIRST_AGAIN..=now]
    }
}

/// The number that the system has given last, the fifth field of `/proc/loadavg`.
fn last_number() -> Option<u32> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_ascii_whitespace().nth(4)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn numbers(last: u32, now: u32) -> Vec<u32> {
        given(last, now, 1000).into_iter().flatten().collect()
    }

    #[test]
    fn the_numbers_since_the_last_question_are_given_also_beyond_the_largest_one() {
        assert!(numbers(500, 500).is_empty());
        assert_eq!(numbers(500, 503), [501, 502, 503]);
        assert_eq!(numbers(998, 301), [999, 1000, 300, 301]);
        assert_eq!(numbers(1000, 300), [300]);
    }

    #[test]
    fn a_new_process_is_among_the_new_numbers() {
        // Other programs of the machine may take many numbers meanwhile.
        let is_found = |_| {
            let mut all = NewNumbers::begin().unwrap();
            let mut child = Command::new("true").spawn().unwrap();
            let found = all
                .take()
                .is_some_and(|mut new| new.any(|one| one == child.id()));
            child.wait().unwrap();
            found
        };
        assert!((0..50).any(is_found));
    }
}
