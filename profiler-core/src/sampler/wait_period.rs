//! What is known of a thread's wait.
//!
//! A thread that waits takes no samples. The sampler looks at the thread from time to time. A look
//! reads the thread's state if the thread has used processor time since the last look, or if its
//! wait is not named yet or is asked for again. When
//! the thread begins to wait, an entry records where it waits. When it runs again, another entry
//! records how long it waited. In between there is one entry every [`LONGEST_UNRECORDED`], so that
//! a profile of a process that was killed contains the thread.
//!
//! The time between two looks at a thread that stays idle grows in proportion to its wait, up to
//! [`RAREST_LOOK`]: see [`look_pause`]. It is longer while no thread of the program runs
//! (`quiet_period`).

use std::time::{Duration, Instant};

use super::callers::Callers;
use super::covered_time::CoveredTime;
use crate::entry::stack::Frame;
use crate::entry::trace::SampleContext;
use crate::sys::native::tasks::Wait;
use crate::time::Timestamp;

/// The longest time of a wait without an entry.
const LONGEST_UNRECORDED: Duration = Duration::from_secs(300);
/// The shortest time between two looks at an idle thread. It is shorter than the time between two
/// passes.
const FIRST_LOOK: Duration = Duration::from_millis(2);
/// The longest time between two looks at an idle thread while threads of the program run.
const RAREST_LOOK: Duration = Duration::from_millis(400);
/// The time between two looks is this part of the time for which the thread has waited.
const LOOK_PART: u32 = 8;

/// The time until the next look, or the next pass, if nothing has run for `idle`.
///
/// A look gives the time since the last look to the waits that the two have found. If looks become
/// rare during a long wait, the next wait gets a part of the time of that wait. This rule bounds
/// the part: about an eighth, or one shortest pause if that is more.
pub(super) fn look_pause(idle: Duration, shortest: Duration, longest: Duration) -> Duration {
    (idle / LOOK_PART).max(shortest).min(longest)
}

/// The place of a recorded wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitPlace {
    /// A system call or a page fault.
    Known(Wait),
    /// The system does not report it.
    Unknown,
}

/// The facts that distinguish two waits at the same place. A look at threads of its own process
/// does not compare the callers. One at threads of other processes does not know what they carry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WaitContext {
    /// The functions that called the waiting call.
    pub(super) callers: Callers,
    /// For whom the thread waits.
    pub(super) label: Option<Frame>,
    /// What the thread works for.
    pub(super) carried: SampleContext,
}

/// A wait that is shown by the last entry of its thread.
#[derive(Clone, Copy, Debug)]
struct RecordedWait {
    place: WaitPlace,
    context: WaitContext,
    /// The last time at which the thread was known to wait: the last look that found this wait, or
    /// a later pass before which no thread had run.
    until: Timestamp,
    /// When its entry was made.
    begun: Instant,
    /// When the last entry of the wait was recorded.
    recorded: Instant,
    /// Whether the thread was known not to run for a part of the wait.
    is_still: bool,
    /// Whether the session was asked for whom the thread waits since it has waited for long.
    is_asked_anew: bool,
}

/// The waits of one thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitPeriod {
    /// The present wait, if the thread's last entry shows it.
    now: Option<RecordedWait>,
    /// The part of the thread's life that its samples stand for.
    pub(super) time: CoveredTime,
    /// Whether the thread's state at the last look is recorded.
    is_settled: bool,
    /// The time of the last look, if that look found that the thread waits.
    looked: Option<Instant>,
    /// When the next look is due; `None` if it is due now.
    next_look: Option<Instant>,
    /// The first look that found the present state.
    found: Option<Instant>,
}

impl WaitPeriod {
    /// A thread that has not been looked at.
    pub(super) const fn new() -> Self {
        Self {
            now: None,
            time: CoveredTime::NONE,
            is_settled: false,
            looked: None,
            next_look: None,
            found: None,
        }
    }

    /// Whether a look is due.
    pub(super) fn is_due(&self, moment: Instant) -> bool {
        self.next_look.is_none_or(|next| next <= moment)
    }

    /// Whether the last look found that the thread waits, and was not before this moment.
    pub(super) fn was_seen_since(&self, moment: Instant) -> bool {
        self.looked.is_some_and(|looked| looked >= moment)
    }

    /// Notes that the thread has not run between the last look and this time.
    pub(super) fn lasts_until(&mut self, at: Timestamp) {
        if let Some(now) = self.now.as_mut().filter(|now| now.until < at) {
            (now.until, now.is_still) = (at, true);
        }
    }

    /// Notes that a look finds the thread in another wait at `found`. When the recorded wait ended
    /// is not known: each of the two waits gets half of the time since it was last seen, without
    /// the thread's processor time that is in no sample (`unsampled`) and its run delay.
    pub(super) fn ends_halfway_to(&mut self, found: Timestamp, unsampled: u64) {
        let delayed = self.time.delayed();
        if let Some(now) = &mut self.now {
            let unknown = found.raw().saturating_sub(now.until.raw());
            let waited = unknown.saturating_sub(unsampled.saturating_add(delayed));
            // The end of a wait is counted without the run delay.
            let until = now
                .until
                .raw()
                .saturating_add(delayed)
                .saturating_add(waited / 2);
            now.until = Timestamp::from_raw(until).min(found);
        }
    }

    /// Whether the last look found the same state as the look before it.
    pub(super) const fn is_idle(&self) -> bool {
        self.next_look.is_some()
    }

    /// Whether the thread's state need not be read again if the thread has not run since the last
    /// look.
    pub(super) const fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Whether the thread's last entry shows that it waits.
    pub(super) const fn is_open(&self) -> bool {
        self.now.is_some()
    }

    /// The last time at which the thread was known to wait; `None` if its last entry shows no wait.
    pub(super) fn last_seen(&self) -> Option<Timestamp> {
        self.now.map(|now| now.until)
    }

    /// The context of the recorded wait, if that is at this place.
    pub(super) fn context_at(&self, place: WaitPlace) -> Option<WaitContext> {
        let now = self.now.filter(|now| now.place == place)?;
        Some(now.context)
    }

    /// Sets the context of the recorded wait.
    pub(super) fn set_context(&mut self, context: WaitContext) {
        if let Some(now) = &mut self.now {
            now.context = context;
        }
    }

    /// Ends the time of the present entry, because a further entry of the same wait gets that time.
    pub(super) fn replace(&mut self) {
        if let Some(now) = &mut self.now {
            now.until = Timestamp::ZERO;
        }
    }

    /// When the entry of the present wait was made.
    pub(super) fn begun(&self) -> Option<Instant> {
        self.now.map(|now| now.begun)
    }

    /// The place of the present wait, if its entry is at least this old and the session was not
    /// asked again since that entry.
    pub(super) fn long_place(&self, least: Duration, moment: Instant) -> Option<WaitPlace> {
        let now = self.now.filter(|now| !now.is_asked_anew)?;
        (moment.saturating_duration_since(now.begun) >= least).then_some(now.place)
    }

    /// Notes that the session was asked again about the present wait.
    pub(super) fn set_asked_anew(&mut self) {
        if let Some(now) = &mut self.now {
            now.is_asked_anew = true;
        }
    }

    /// Makes the next look read the thread's state, even if the thread has not run.
    pub(super) const fn unsettle(&mut self) {
        self.is_settled = false;
    }

    /// Notes a look that found a thread that has not run.
    pub(super) fn goes_on(&mut self, at: Timestamp, moment: Instant) {
        self.found_again((at, true), moment);
    }

    /// Notes a look that found a thread that has run, and waits again where it waited before. Only
    /// a sample of its trigger shows what it did in between.
    pub(super) fn waits_again(&mut self, at: Timestamp, moment: Instant) {
        self.has_run(true);
        self.found_again((at, false), moment);
    }

    fn found_again(&mut self, (at, is_still): (Timestamp, bool), moment: Instant) {
        if let Some(now) = &mut self.now {
            (now.until, now.is_still) = (at, is_still);
        }
        self.looked = Some(moment);
        let found = *self.found.get_or_insert(moment);
        let idle = moment.saturating_duration_since(found);
        self.next_look = Some(moment + look_pause(idle, FIRST_LOOK, RAREST_LOOK));
    }

    /// Notes a look at a thread that has run.
    pub(super) fn has_run(&mut self, is_settled: bool) {
        (self.is_settled, self.looked) = (is_settled, None);
        (self.next_look, self.found) = (None, None);
    }

    /// Makes the next look due in the next pass, even if the thread does not run.
    pub(super) fn look_again(&mut self) {
        (self.is_settled, self.looked, self.next_look) = (false, None, None);
    }

    /// Notes an entry that shows where the thread waits. `time` is what the thread's samples stand
    /// for with this entry.
    pub(super) fn begin(
        &mut self,
        place: WaitPlace,
        at: Timestamp,
        moment: Instant,
        time: CoveredTime,
    ) {
        self.time = time;
        self.now = Some(RecordedWait {
            place,
            context: WaitContext::default(),
            until: at,
            begun: moment,
            recorded: moment,
            is_still: false,
            is_asked_anew: false,
        });
        self.has_run(true);
        (self.looked, self.found) = (Some(moment), Some(moment));
    }

    /// Ends the wait. Returns the number of ticks of the length `tick` that are not recorded yet,
    /// and the time of the last one. The wait ends at `ran`, when the thread began to run. If `ran`
    /// is `None`, the wait ends at the last time at which the thread was known to wait.
    pub(super) fn end(&mut self, ran: Option<Timestamp>, tick: u64) -> Option<(u64, Timestamp)> {
        let now = self.now.take()?;
        self.has_run(false);
        self.take_ticks(ran.unwrap_or(now.until), tick)
    }

    /// Ends the wait like [`Self::end`], because the thread has a sample. Before the sample, the
    /// thread began to run at `ran`. If it was known not to run for a part of the wait, the wait
    /// lasted until `ran`. Otherwise, the thread may have waited elsewhere since the last look, and
    /// the wait that the next look finds gets the time. The time of a sample depends on what the
    /// thread does. If the two waits shared the time at the sample, waits before and after code
    /// that takes samples would get too much or too little.
    pub(super) fn end_at_sample(&mut self, ran: Timestamp, tick: u64) -> Option<(u64, Timestamp)> {
        let is_still = self.now.is_some_and(|now| now.is_still);
        let ran = is_still.then_some(ran);
        self.end(ran, tick)
    }

    /// The number of ticks of the present wait that are not recorded yet, and the time of the last
    /// one, if an entry is due or `is_asked`.
    pub(super) fn take_unrecorded(
        &mut self,
        is_asked: bool,
        moment: Instant,
        tick: u64,
    ) -> Option<(u64, Timestamp)> {
        let now = self.now.as_mut()?;
        let is_due = moment.saturating_duration_since(now.recorded) >= LONGEST_UNRECORDED;
        if !is_due && !is_asked {
            return None;
        }
        now.recorded = moment;
        let until = now.until;
        self.take_ticks(until, tick)
    }

    fn take_ticks(&mut self, until: Timestamp, tick: u64) -> Option<(u64, Timestamp)> {
        let ticks = self.time.wait(until, 0, tick);
        (ticks > 0).then_some((ticks, until))
    }
}

#[cfg(test)]
mod tests {
    use super::super::schedule::now;
    use super::*;

    const TICK: u64 = 10;

    fn at(raw: u64) -> Timestamp {
        Timestamp::from_raw(raw)
    }

    /// Begins a wait of a thread of which everything before is covered.
    fn begin(waits: &mut WaitPeriod, from: u64, moment: Instant) {
        let time = CoveredTime::since(at(from));
        waits.begin(WaitPlace::Unknown, at(from), moment, time);
    }

    #[test]
    fn a_wait_is_recorded_once_and_up_to_the_time_at_which_the_thread_ran() {
        let moment = now();
        let mut waits = WaitPeriod::new();
        assert_eq!(waits.end(Some(at(5)), TICK), None);
        begin(&mut waits, 100, moment);
        assert!(waits.context_at(WaitPlace::Unknown).is_some() && waits.is_settled());
        waits.goes_on(at(200), moment);
        assert_eq!(waits.take_unrecorded(false, moment, TICK), None);
        assert_eq!(
            waits.take_unrecorded(true, moment, TICK),
            Some((10, at(200)))
        );
        assert_eq!(waits.take_unrecorded(true, moment, TICK), None, "once");
        assert_eq!(waits.end(Some(at(250)), TICK), Some((5, at(250))));
        assert_eq!(waits.end(Some(at(300)), TICK), None);
    }

    #[test]
    fn a_sample_after_a_wait_that_was_seen_once_leaves_the_time_to_the_next_wait() {
        let moment = now();
        let mut waits = WaitPeriod::new();
        begin(&mut waits, 100, moment);
        assert_eq!(waits.end_at_sample(at(250), TICK), None);
        assert_eq!(waits.time.run(at(270), 20, TICK), 2);
        assert_eq!(waits.time.begin_wait(at(300), 0, TICK), 18);
        begin(&mut waits, 300, moment);
        waits.goes_on(at(340), moment);
        waits.waits_again(at(400), moment);
        assert_eq!(waits.end_at_sample(at(450), TICK), Some((10, at(400))));
    }

    #[test]
    fn a_thread_that_was_seen_not_to_run_has_waited_until_its_sample() {
        let moment = now();
        let mut waits = WaitPeriod::new();
        begin(&mut waits, 100, moment);
        waits.goes_on(at(200), moment);
        assert_eq!(waits.end_at_sample(at(250), TICK), Some((15, at(250))));
        begin(&mut waits, 300, moment);
        waits.lasts_until(at(320));
        assert_eq!(waits.end_at_sample(at(350), TICK), Some((5, at(350))));
    }

    #[test]
    fn a_thread_that_ran_before_its_wait_was_recorded_has_no_ticks() {
        let mut waits = WaitPeriod::new();
        begin(&mut waits, 100, now());
        assert_eq!(waits.end(Some(at(90)), TICK), None);
    }

    #[test]
    fn a_long_wait_gets_an_entry_from_time_to_time() {
        let moment = now();
        let mut waits = WaitPeriod::new();
        begin(&mut waits, 0, moment);
        waits.goes_on(at(1000), moment);
        let later = moment + LONGEST_UNRECORDED;
        assert_eq!(
            waits.take_unrecorded(false, later, TICK),
            Some((100, at(1000)))
        );
        assert_eq!(waits.take_unrecorded(false, later, TICK), None);
    }

    #[test]
    fn a_wait_lasts_until_the_time_up_to_which_no_thread_has_run() {
        let moment = now();
        let mut waits = WaitPeriod::new();
        assert!(!waits.was_seen_since(moment));
        begin(&mut waits, 100, moment);
        assert!(waits.was_seen_since(moment));
        assert!(!waits.was_seen_since(moment + Duration::from_millis(1)));
        waits.lasts_until(at(150));
        waits.lasts_until(at(120));
        assert_eq!(waits.end(None, TICK), Some((5, at(150))));
        assert!(!waits.was_seen_since(moment), "it has run");
    }

    #[test]
    fn a_wait_gets_half_of_the_time_in_which_it_ended() {
        let moment = now();
        let mut waits = WaitPeriod::new();
        waits.ends_halfway_to(at(10), 0);
        assert!(!waits.is_open());
        begin(&mut waits, 100, moment);
        waits.goes_on(at(200), moment);
        waits.ends_halfway_to(at(300), 0);
        assert_eq!(waits.end(None, TICK), Some((15, at(250))));
    }

    #[test]
    fn processor_time_and_run_delay_are_in_neither_half() {
        let moment = now();
        let mut waits = WaitPeriod::new();
        begin(&mut waits, 100, moment);
        waits.goes_on(at(200), moment);
        waits.time.delay(40);
        waits.ends_halfway_to(at(300), 20);
        let (ticks, _) = waits.end(None, TICK).unwrap();
        assert_eq!(ticks, 10 + 2, "of 40 that are left");
        let mut time = waits.time;
        assert_eq!(time.begin_wait(at(300), 20, TICK), 2);
    }

    #[test]
    fn pauses_grow_with_the_idle_time_within_their_bounds() {
        let ms = Duration::from_millis;
        let pause = |idle| look_pause(ms(idle), ms(40), ms(400));
        assert_eq!([0, 320, 800].map(pause), [40, 40, 100].map(ms));
        assert_eq!([3200, 60_000].map(pause), [400, 400].map(ms));
    }

    #[test]
    fn looks_at_an_idle_thread_become_rarer_until_it_runs() {
        let begun = now();
        let mut waits = WaitPeriod::new();
        assert!(waits.is_due(begun));
        let mut moment = begun;
        while waits.is_due(moment) || moment < begun + RAREST_LOOK * 20 {
            let idle = moment - begun;
            if waits.is_due(moment) {
                waits.goes_on(at(1), moment);
                let next = (idle / LOOK_PART).clamp(FIRST_LOOK, RAREST_LOOK);
                assert!(!waits.is_due(moment + next - Duration::from_nanos(1)));
                assert!(waits.is_due(moment + next), "{idle:?}");
            }
            moment += FIRST_LOOK;
        }
        assert!(!waits.is_due(moment));
        waits.has_run(false);
        assert!(waits.is_due(moment));
        waits.goes_on(at(2), moment);
        assert!(waits.is_due(moment + FIRST_LOOK), "as for a new wait");
    }
}
