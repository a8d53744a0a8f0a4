//! The period in which no thread of the program has run, as the process's clock shows.
//!
//! A thread that was seen to wait in the period needs no look (`looking`). Its wait lasts at least
//! until the last pass of the period. A thread that uses less than [`super::activity::MOMENT`] of
//! processor time does not end the period. Therefore each thread is still looked at after
//! [`LONGEST_WITHOUT_LOOK`].
//!
//! ```text
//! pass   clock read: a thread has run   clock read: none has run     clock read: none has run
//!        ├─ since ──────────────────────┼────────────────────────────┼─ until
//!          looks: all due threads         looks: other due threads     no looks
//! ```

use std::time::{Duration, Instant};

use super::wait_period::WaitPeriod;
use crate::time::Timestamp;

/// The time after which a thread is looked at again although no thread has run. Once all threads
/// were seen to wait, the next check of all threads comes after this time. So the time between two
/// looks at a thread may be twice as long.
const LONGEST_WITHOUT_LOOK: Duration = Duration::from_secs(2);

/// The present or the last period in which no thread has run.
#[derive(Debug)]
pub(super) struct QuietPeriod {
    /// When the process's clock was read in the last pass in which a thread had run.
    since: Instant,
    /// The last pass of the period; `None` if there was none.
    until: Option<Timestamp>,
    /// Whether the present pass belongs to the period.
    is_now: bool,
    /// The number of threads and the time of the next look; `None` until all threads were seen to
    /// wait in the period.
    settled: Option<(usize, Instant)>,
}

impl QuietPeriod {
    pub(super) const fn new(since: Instant) -> Self {
        Self {
            since,
            until: None,
            is_now: false,
            settled: None,
        }
    }

    /// Begins a pass. `has_run` is true if any thread has run since the period began. `at` is a
    /// time before the process's clock was read.
    pub(super) const fn begin_pass(&mut self, has_run: bool, at: Timestamp) {
        self.is_now = !has_run;
        if self.is_now {
            self.until = Some(at);
        }
    }

    /// Ends a pass. If a thread has run, a new period begins at `read`, a moment after the
    /// process's clock was read and before the first look.
    pub(super) const fn end_pass(&mut self, read: Instant) {
        if !self.is_now {
            self.since = read;
            (self.until, self.settled) = (None, None);
        }
    }

    /// Whether a thread was seen to wait in the period.
    pub(super) fn covers(&self, waits: &WaitPeriod) -> bool {
        waits.was_seen_since(self.since)
    }

    /// Prolongs a wait until the last pass of the period, if the thread was seen to wait in the
    /// period.
    pub(super) fn prolong(&self, waits: &mut WaitPeriod) {
        if let Some(until) = self.until.filter(|_| self.covers(waits)) {
            waits.lasts_until(until);
        }
    }

    /// Whether a thread needs no look now.
    pub(super) fn spares(&self, waits: &WaitPeriod, moment: Instant) -> bool {
        let longest = moment.checked_sub(LONGEST_WITHOUT_LOOK);
        self.is_now
            && self.covers(waits)
            && longest.is_none_or(|longest| waits.was_seen_since(longest))
    }

    /// Whether no thread needs a look now. `threads` is the present number of threads.
    pub(super) fn spares_all(&self, threads: usize, moment: Instant) -> bool {
        self.is_now
            && self
                .settled
                .is_some_and(|(all, next)| all == threads && moment < next)
    }

    /// Notes that a thread may have run, or that targets were removed.
    pub(super) const fn unsettle(&mut self) {
        self.settled = None;
    }

    /// Notes a pass: `settled` of the `threads` threads need no further look for now.
    pub(super) fn note_settled(&mut self, settled: usize, threads: usize, moment: Instant) {
        let next = moment + LONGEST_WITHOUT_LOOK;
        self.settled = (settled == threads).then_some((threads, next));
    }
}

#[cfg(test)]
mod tests {
    use super::super::covered_time::CoveredTime;
    use super::super::schedule::now;
    use super::super::wait_period::WaitPlace;
    use super::*;

    const TICK: u64 = 10;

    fn at(raw: u64) -> Timestamp {
        Timestamp::from_raw(raw)
    }

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_thread_that_was_seen_to_wait_while_none_ran_needs_no_look() {
        let start = now();
        let mut quiet = QuietPeriod::new(start);
        let mut early = WaitPeriod::new();
        let mut late = WaitPeriod::new();
        early.begin(WaitPlace::Unknown, at(0), start, CoveredTime::since(at(0)));
        quiet.begin_pass(true, at(100));
        late.begin(
            WaitPlace::Unknown,
            at(100),
            start + ms(11),
            CoveredTime::since(at(100)),
        );
        quiet.end_pass(start + ms(10));
        quiet.begin_pass(false, at(200));
        assert!(quiet.spares(&late, start + ms(20)));
        assert!(
            !quiet.spares(&early, start + ms(20)),
            "it may have run before the period"
        );
        assert!(
            !quiet.spares(&late, start + ms(12) + LONGEST_WITHOUT_LOOK),
            "the clock does not show a short run"
        );
        quiet.begin_pass(true, at(300));
        assert!(!quiet.spares(&late, start + ms(30)), "a thread has run");
    }

    #[test]
    fn a_wait_lasts_until_the_last_pass_before_a_thread_ran() {
        let start = now();
        let mut quiet = QuietPeriod::new(start);
        let mut early = WaitPeriod::new();
        let mut late = WaitPeriod::new();
        early.begin(WaitPlace::Unknown, at(0), start, CoveredTime::since(at(0)));
        quiet.begin_pass(true, at(100));
        quiet.end_pass(start + ms(10));
        late.begin(
            WaitPlace::Unknown,
            at(100),
            start + ms(10),
            CoveredTime::since(at(100)),
        );
        quiet.begin_pass(false, at(200));
        quiet.end_pass(start + ms(20));
        quiet.begin_pass(true, at(300));
        quiet.prolong(&mut early);
        quiet.prolong(&mut late);
        assert_eq!(early.end(None, TICK), None);
        assert_eq!(late.end(None, TICK), Some((10, at(200))));
        quiet.end_pass(start + ms(30));
        late.begin(
            WaitPlace::Unknown,
            at(350),
            start + ms(31),
            CoveredTime::since(at(350)),
        );
        quiet.prolong(&mut late);
        assert_eq!(late.end(None, TICK), None, "of the period before");
    }

    #[test]
    fn no_thread_is_looked_at_once_all_were_seen_to_wait() {
        let start = now();
        let mut quiet = QuietPeriod::new(start);
        quiet.begin_pass(false, at(100));
        quiet.note_settled(6, 7, start);
        assert!(!quiet.spares_all(7, start));
        quiet.note_settled(7, 7, start);
        assert!(quiet.spares_all(7, start));
        assert!(!quiet.spares_all(8, start), "a new thread");
        assert!(!quiet.spares_all(7, start + LONGEST_WITHOUT_LOOK));
        quiet.unsettle();
        assert!(!quiet.spares_all(7, start), "a thread may have run");
        quiet.note_settled(7, 7, start);
        quiet.begin_pass(true, at(200));
        assert!(!quiet.spares_all(7, start));
        quiet.end_pass(start + ms(10));
        quiet.begin_pass(false, at(300));
        assert!(!quiet.spares_all(7, start), "of the period before");
    }
}
