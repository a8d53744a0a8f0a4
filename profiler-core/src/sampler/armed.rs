//! The armed threads: those with a trigger. Each has a place of [`super::armed_places`].
//!
//! A thread that joins a session arms itself ([`arm_own`]); the sampler's thread arms all others,
//! and all threads of the program if their triggers take descriptors of the profiler's own table.
//!
//! Invariants: a thread takes a trigger out of its place atomically, and then deletes it. So only
//! one thread deletes it. A trigger is not deleted if a new filter of system calls may not allow
//! that (`timer_rights`), unless its thread has a small alternate stack ([`arm_own`]). If a thread
//! arms itself while a session ends, either [`close`] finds the trigger, or the thread sees that
//! the session has ended and deletes the trigger. Each of the two stores before it loads, and these
//! accesses are sequentially consistent.

use std::io;
use std::time::Duration;

use super::armed_places::{self, Armed, NO_SAMPLE, take, taken};
use super::timer_rights;
use super::trigger::signal_of;
use crate::ids::ThreadId;
use crate::label::LabelStack;
use crate::params::SampleSource;
use crate::record::session_state;
use crate::sync::fixed::{AtomicU64, Ordering};
use crate::sys::native::timer;
use crate::sys::native::{alternate_stack, signal, tasks};
use profiler_sys::DescriptorTable;

/// The first expiry of a thread that arms itself: the system's next tick.
const NEXT_TICK: Duration = Duration::from_nanos(1);

/// The interval of the triggers of the running session in nanoseconds; 0 while no samples are
/// taken.
static INTERVAL_NS: AtomicU64 = AtomicU64::new(0);
/// [`SampleSource::to_word`] of the running session.
static SOURCE: AtomicU64 = AtomicU64::new(0);
/// The system's tick in nanoseconds: the weight of a first sample.
static TICK_NS: AtomicU64 = AtomicU64::new(0);
/// Grows whenever a thread has armed itself.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// Lets threads arm themselves from now on, with triggers of this source.
pub(super) fn open(source: SampleSource, interval: Duration) {
    let nanos = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    let tick = u64::try_from(timer::tick().as_nanos()).unwrap_or(u64::MAX);
    TICK_NS.store(tick, Ordering::Relaxed);
    SOURCE.store(source.to_word(), Ordering::Relaxed);
    INTERVAL_NS.store(nanos, Ordering::SeqCst);
}

/// The source of the running session.
fn source() -> SampleSource {
    SampleSource::from_word(SOURCE.load(Ordering::Relaxed)).unwrap_or(SampleSource::Timer)
}

/// Gives all triggers another interval. The first sample of each trigger is due once its thread has
/// used the processor time that `first` returns. Does nothing while no samples are taken. Called by
/// the sampler's thread.
///
/// A thread that arms itself at the same time is found here, or sees that the interval has changed.
pub(super) fn set_interval(interval: Duration, mut first: impl FnMut() -> Duration) {
    let nanos = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    let before = INTERVAL_NS.load(Ordering::SeqCst);
    if before == 0 {
        return;
    }
    // Another thread may call `suspend` at the same time.
    let set = INTERVAL_NS.compare_exchange(before, nanos, Ordering::SeqCst, Ordering::Relaxed);
    if set.is_ok() {
        taken().for_each(|armed| armed.set_interval(first(), interval));
    }
}

/// Stops samples until [`open`] is called. Keeps the triggers.
pub(super) fn suspend() {
    INTERVAL_NS.store(0, Ordering::SeqCst);
}

/// Stops samples and deletes all triggers. A thread that arms itself at the same time notices this.
pub(super) fn close() {
    suspend();
    for armed in taken() {
        if let Some(trigger) = armed.take_trigger() {
            trigger.delete_if_allowed();
        }
    }
}

/// Frees all places whose threads have a number. Called at the end of a session, after [`close`]
/// and after the last samples have been read.
pub(super) fn release_all() {
    taken()
        .filter(|armed| armed.tid().get() != 0)
        .for_each(Armed::release);
}

/// In a forked child that begins anew: forgets all triggers. The timers do not exist in this
/// process, and other timers may have their numbers; the events belong to threads of the parent.
pub(super) fn forget_parent() {
    suspend();
    armed_places::forget_parent();
}

/// Whether samples are taken. For signal handlers.
pub(super) fn is_open() -> bool {
    INTERVAL_NS.load(Ordering::Relaxed) != 0
}

/// The weight of the first sample of a thread that armed itself, in nanoseconds. The sample is
/// taken at one of the system's ticks, so it stands for the time between two ticks.
pub(super) fn first_weight_ns() -> u64 {
    TICK_NS.load(Ordering::Relaxed)
}

/// A number that changes whenever a thread has armed itself.
pub(super) fn changes() -> u64 {
    CHANGES.load(Ordering::Acquire)
}

/// The threads that armed themselves.
pub(super) fn self_armed() -> impl Iterator<Item = Armed> {
    taken().filter(|armed| armed.is_by_itself())
}

/// Arms a thread: its first sample is due once it has used `first` of processor time. `labels`
/// returns its label stack. Called by the sampler's thread.
///
/// # Errors
/// Errors of the system, as for [`super::trigger::Trigger::create`]; [`io::ErrorKind::OutOfMemory`]
/// if no place is free; [`io::ErrorKind::AlreadyExists`] if the thread arms itself.
pub(super) fn arm(
    thread: ThreadId,
    (first, interval): (Duration, Duration),
    labels: impl FnOnce() -> Option<&'static LabelStack>,
) -> io::Result<Armed> {
    let armed = take().ok_or(io::ErrorKind::OutOfMemory)?;
    armed.prepare(tasks::cpu_ns(thread).unwrap_or(0), false);
    let started = if armed.claim(thread, Armed::is_by_itself) {
        if let Some(labels) = labels() {
            armed.thread.set_labels(labels);
        }
        armed.start(source(), thread, first, interval)
    } else {
        Err(io::ErrorKind::AlreadyExists.into())
    };
    if started.is_err() {
        armed.release();
    }
    started.map(|()| armed)
}

/// Arms the calling thread, whose number is `thread`, if a session takes samples by triggers of the
/// system. Called when a thread joins a session, before the thread has a row. So the thread is
/// armed before the sampler finds it by its row.
pub(crate) fn arm_own(thread: ThreadId) {
    let nanos = INTERVAL_NS.load(Ordering::SeqCst);
    if nanos == 0 || source() == SampleSource::Signal {
        return;
    }
    let may_create = timer_rights::may_create() && may_make_own();
    for armed in taken().filter(|armed| armed.tid() == thread) {
        if alternate_stack::is_small(thread) {
            // The small stack has just been noted. The next signal would end the process, so the
            // trigger is deleted even if a filter may not allow it.
            if let Some(trigger) = armed.take_trigger() {
                trigger.delete();
            }
        } else if !may_create || !may_arm_own(thread) || armed.is_of_living_thread() {
            return; // the sampler's thread armed it, or it joined before
        } else if !armed.is_by_itself() && armed.has_no_trigger() {
            return; // the sampler's thread arms it now
        } else {
            armed.release(); // of an ended thread with the same number
        }
    }
    if !may_create || !may_arm_own(thread) {
        return;
    }
    let Some(armed) = take() else { return };
    // A timer fires at the next tick. An event has no such first sample: its time counts from now.
    let is_timer = source() == SampleSource::Timer;
    let cpu_ns = if is_timer {
        NO_SAMPLE
    } else {
        tasks::own_cpu_ns()
    };
    armed.prepare(cpu_ns, true);
    if !armed.claim(thread, |_| true) {
        return armed.release(); // the sampler's thread arms it at the same time
    }
    let started = armed.start(source(), thread, NEXT_TICK, Duration::from_nanos(nanos));
    if started.is_err() || INTERVAL_NS.load(Ordering::SeqCst) != nanos {
        return armed.release(); // the session has ended, or the sampler's thread arms it anew
    }
    CHANGES.fetch_add(1, Ordering::Release);
}

/// Whether the calling thread can make a trigger: a perf event takes a descriptor of the profiler.
fn may_make_own() -> bool {
    source() != SampleSource::Sigtrap || DescriptorTable::is_that_of_profiler()
}

/// Whether a signal to the calling thread is harmless.
fn may_arm_own(thread: ThreadId) -> bool {
    !alternate_stack::is_small(thread)
        && !session_state::is_forking()
        && !signal::is_blocked_here(signal_of(source()))
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::super::armed_places::{MAGIC, armed_of, of_word};
    use super::*;
    use crate::sys;

    #[test]
    fn a_word_names_a_thread_until_its_place_is_released() {
        let hour = Duration::from_secs(3600);
        let own = sys::current_thread_id();
        let armed = arm(own, (hour, hour), || None).unwrap();
        assert_eq!(armed.tid(), own);
        let place = of_word(armed.word).unwrap().unwrap();
        assert!(ptr::eq(place, armed.thread) && place.enter(armed.word));
        place.leave();
        armed.release();
        assert!(!place.enter(armed.word), "an old generation");
        assert!(armed_of(armed.word).is_none());
        assert!(of_word(armed.word & !(MAGIC << 48)).is_none(), "not ours");
    }

    #[test]
    fn a_thread_that_arms_itself_is_not_armed_a_second_time() {
        let hour = Duration::from_secs(3600);
        let own = sys::current_thread_id();
        let by_itself = take().unwrap();
        by_itself.prepare(0, true);
        assert!(by_itself.claim(own, |_| true));
        let refused = arm(own, (hour, hour), || None).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        by_itself.release();
        let armed = arm(own, (hour, hour), || None).unwrap();
        let late = take().unwrap();
        late.prepare(0, true);
        assert!(!late.claim(own, |_| true), "it sees the sampler's thread");
        late.release();
        armed.release();
    }

    #[test]
    fn a_thousand_threads_have_places_of_their_own() {
        let hour = Duration::from_secs(3600);
        let own = sys::current_thread_id();
        let all: Vec<_> = (0..1000)
            .map_while(|_| arm(own, (hour, hour), || None).ok())
            .collect();
        let mut words: Vec<_> = all.iter().map(|armed| armed.word).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), all.len());
        assert!(all.len() > 100, "{} timers", all.len());
        all.into_iter().for_each(Armed::release);
    }
}
