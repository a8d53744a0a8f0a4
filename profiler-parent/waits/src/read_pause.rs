//! When something may be read again that takes long to read. Used by `resolver`.
//!
//! Invariant: the readings use at most 1/[`READ_SHARE`] of a processor, unless one takes more than
//! two seconds.

use std::time::{Duration, Instant};

use crate::clock::{now, processor_time};

/// The shortest and the longest pause between two readings.
const READ_PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(60));
/// How many times longer a pause is than the processor time of the reading before it.
const READ_SHARE: u32 = 25;
/// The age at which what was read may no longer be right.
const OLD: Duration = Duration::from_secs(2);

/// The pause before the next reading.
#[derive(Debug)]
pub(crate) struct ReadPause {
    next: Instant,
    /// When it was read last.
    read: Option<Instant>,
    /// Whether it was read for the present wait.
    is_fresh: bool,
    has_no_pause: bool,
}

impl ReadPause {
    /// A reading that was not made yet. Without a pause, it may be made whenever it is needed.
    pub(crate) fn new(has_pause: bool) -> Self {
        Self {
            next: now(),
            read: None,
            is_fresh: false,
            has_no_pause: !has_pause,
        }
    }

    /// Notes that another wait is looked up.
    pub(crate) const fn begin_wait(&mut self) {
        self.is_fresh = false;
    }

    /// Whether what was read may no longer be right.
    pub(crate) fn is_old(&self) -> bool {
        self.read.is_some_and(|read| read.elapsed() >= OLD)
    }

    /// Calls `read`, unless this was done for the present wait. `None` if it is too early for that.
    pub(crate) fn read(&mut self, read: impl FnOnce()) -> Option<()> {
        if self.is_fresh {
            return Some(());
        }
        if now() < self.next && !self.has_no_pause {
            return None;
        }
        self.is_fresh = true;
        let begin = processor_time();
        read();
        let cost = processor_time().saturating_sub(begin);
        let (least, most) = READ_PAUSE;
        let end = now();
        self.read = Some(end);
        self.next = end + cost.saturating_mul(READ_SHARE).clamp(least, most);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wait_needs_one_reading_and_the_next_wait_must_not_read_at_once() {
        let mut pause = ReadPause::new(true);
        let mut readings = 0;
        assert_eq!(pause.read(|| readings += 1), Some(()));
        assert_eq!(pause.read(|| readings += 1), Some(()), "for the same wait");
        assert_eq!(readings, 1);
        pause.next = now() + Duration::from_secs(60);
        pause.begin_wait();
        assert_eq!(pause.read(|| readings += 1), None);
        assert_eq!(readings, 1);
        let mut unlimited = ReadPause::new(false);
        for _ in 0..3 {
            unlimited.begin_wait();
            assert_eq!(unlimited.read(|| readings += 1), Some(()));
        }
        assert_eq!(readings, 4);
    }
}
