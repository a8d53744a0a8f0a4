//! The tasks that are open, by their numbers, with the times of their polls.
//!
//! Used by the hooks of runtimes: tokio passes them the number of a task, and nothing of ours.
//! Lock-free; a thread waits only while another one stores the pointer of a new level. tokio counts
//! its tasks, so the lower bits of a number are its place, and the places of the latest tasks are
//! all different. A place that is taken by a task that lives long is skipped.
//!
//! Invariants: a task is in one place. tokio calls the hook after a poll when another worker may
//! already poll the task again, or have ended it. So the times of polls are added atomically, and
//! only while the key of the place is the number of the task: a call that comes too late adds
//! nothing. There are at most 349,524 places, of 64 bytes each. Tasks that live long at regular
//! distances find fewer.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use profiler_core::time::Timestamp;

use crate::task_marks::{PollTimes, RecordedTask};

/// The places that need no memory before tasks are recorded.
const FIRST: usize = 1 << 12;
/// The places of the levels that are made when the ones before are full.
const FURTHER: [usize; 3] = [1 << 14, 1 << 16, 1 << 18];
/// The places in which a task may be.
const WINDOW: usize = 8;

/// The open tasks of the process.
#[cfg(tokio_unstable)]
pub(crate) static OPEN_TASKS: TaskTable = TaskTable::new();

/// A table of open tasks.
#[derive(Debug)]
pub(crate) struct TaskTable {
    first: [TaskPlace; FIRST],
    further: [OnceLock<Box<[TaskPlace]>>; FURTHER.len()],
    /// Places in use.
    used: AtomicU64,
}

/// The place of a task.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct TaskPlace {
    /// The number of the task; 0 in a free place.
    key: AtomicU64,
    span: AtomicU64,
    parent: AtomicU64,
    by: AtomicU64,
    spawned: AtomicU64,
    /// The session that has seen the start of the span.
    session: AtomicU32,
    polls: AtomicU32,
    total_ns: AtomicU64,
    longest_ns: AtomicU64,
}

impl TaskTable {
    pub(crate) const fn new() -> Self {
        Self {
            first: [const { TaskPlace::new() }; FIRST],
            further: [const { OnceLock::new() }; FURTHER.len()],
            used: AtomicU64::new(0),
        }
    }

    /// Whether no task is open.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.used.load(Ordering::Relaxed) == 0
    }

    /// Adds a task. `None` if there is no place for it.
    #[inline]
    pub(crate) fn insert(&self, task: &RecordedTask, session: u32) -> Option<&TaskPlace> {
        let place = self.claim(task.task)?;
        place.fill(task, session);
        self.used.fetch_add(1, Ordering::Relaxed);
        Some(place)
    }

    fn claim(&self, number: u64) -> Option<&TaskPlace> {
        let free = |level| window(level, number).find(|place| place.claim(number));
        free(&self.first).or_else(|| {
            let further = self.further.iter().zip(FURTHER);
            further
                .map(|(level, places)| grown(level, places))
                .find_map(free)
        })
    }

    /// The place of a task.
    #[inline]
    pub(crate) fn find(&self, number: u64) -> Option<&TaskPlace> {
        if self.is_empty() {
            return None;
        }
        let its = |level| window(level, number).find(|place| place.is_of(number));
        its(&self.first).or_else(|| {
            let further = self.further.iter().map_while(OnceLock::get);
            further.into_iter().find_map(|level| its(level))
        })
    }

    /// Removes a task. Its place must not be used any more.
    #[inline]
    pub(crate) fn remove(&self, place: &TaskPlace) {
        place.key.store(0, Ordering::Release);
        self.used.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A further level; makes it if it is missing.
fn grown(level: &OnceLock<Box<[TaskPlace]>>, places: usize) -> &[TaskPlace] {
    if level.get().is_none() {
        // Made before it is stored, so that no thread waits for the memory.
        let _ = level.set((0..places).map(|_| TaskPlace::new()).collect());
    }
    level.get().map_or(&[], |places| places)
}

/// The places in which a task may be. The number of places is a power of two.
#[inline]
fn window(level: &[TaskPlace], number: u64) -> impl Iterator<Item = &TaskPlace> {
    let mask = level.len().wrapping_sub(1);
    let first = usize::try_from(number).unwrap_or(0);
    (0..WINDOW).filter_map(move |step| level.get(first.wrapping_add(step) & mask))
}

impl TaskPlace {
    const fn new() -> Self {
        Self {
            key: AtomicU64::new(0),
            span: AtomicU64::new(0),
            parent: AtomicU64::new(0),
            by: AtomicU64::new(0),
            spawned: AtomicU64::new(0),
            session: AtomicU32::new(0),
            polls: AtomicU32::new(0),
            total_ns: AtomicU64::new(0),
            longest_ns: AtomicU64::new(0),
        }
    }

    #[inline]
    fn claim(&self, number: u64) -> bool {
        self.key.load(Ordering::Relaxed) == 0
            && self
                .key
                .compare_exchange(0, number, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// Whether this is the place of a task.
    #[inline]
    pub(crate) fn is_of(&self, number: u64) -> bool {
        self.key.load(Ordering::Acquire) == number
    }

    /// Stores a task that has had no poll, in a session.
    #[inline]
    pub(crate) fn fill(&self, task: &RecordedTask, session: u32) {
        self.span.store(task.span, Ordering::Relaxed);
        self.parent.store(task.parent, Ordering::Relaxed);
        self.by.store(task.by, Ordering::Relaxed);
        self.spawned.store(task.spawned.raw(), Ordering::Relaxed);
        self.session.store(session, Ordering::Relaxed);
        self.polls.store(0, Ordering::Relaxed);
        self.total_ns.store(0, Ordering::Relaxed);
        self.longest_ns.store(0, Ordering::Relaxed);
    }

    /// The task. Its number is the one that the place was found by.
    #[inline]
    pub(crate) fn task(&self, number: u64) -> RecordedTask {
        RecordedTask {
            span: self.span.load(Ordering::Relaxed),
            task: number,
            parent: self.parent.load(Ordering::Relaxed),
            by: self.by.load(Ordering::Relaxed),
            spawned: Timestamp::from_raw(self.spawned.load(Ordering::Relaxed)),
        }
    }

    /// The session that has seen the start of its span.
    #[inline]
    pub(crate) fn session(&self) -> u32 {
        self.session.load(Ordering::Relaxed)
    }

    /// The times of its polls.
    #[inline]
    pub(crate) fn times(&self) -> PollTimes {
        PollTimes {
            polls: u64::from(self.polls.load(Ordering::Relaxed)),
            total_ns: self.total_ns.load(Ordering::Relaxed),
            longest_ns: self.longest_ns.load(Ordering::Relaxed),
        }
    }

    /// Adds a poll of the task with this number, if it is still the place of this task.
    #[inline]
    pub(crate) fn add_poll(&self, number: u64, poll_ns: u64) {
        if self.is_of(number) {
            self.polls.fetch_add(1, Ordering::Relaxed);
            self.total_ns.fetch_add(poll_ns, Ordering::Relaxed);
            self.longest_ns.fetch_max(poll_ns, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: u64 = (FIRST + FURTHER[0] + FURTHER[1] + FURTHER[2]) as u64;

    fn table() -> &'static TaskTable {
        Box::leak(Box::new(TaskTable::new()))
    }

    fn task(number: u64) -> RecordedTask {
        RecordedTask {
            span: number + 1,
            task: number,
            parent: number + 2,
            by: number + 3,
            spawned: Timestamp::from_raw(number + 4),
        }
    }

    fn insert(table: &TaskTable, number: u64) -> bool {
        table.insert(&task(number), 7).is_some()
    }

    #[test]
    fn a_task_is_found_with_what_is_known_of_it_until_it_is_removed() {
        let table = table();
        assert!(insert(table, 5) && insert(table, 5 + FIRST as u64));
        let place = table.find(5).unwrap();
        assert_eq!((place.task(5), place.session()), (task(5), 7));
        for ns in [10, 30, 20] {
            place.add_poll(5, ns);
        }
        place.add_poll(6, 1000); // of a task that has ended
        let times = PollTimes {
            polls: 3,
            total_ns: 60,
            longest_ns: 30,
        };
        assert_eq!(table.find(5).unwrap().times(), times);
        table.remove(place);
        assert!(table.find(5).is_none() && !place.is_of(5));
        assert!(
            table.find(5 + FIRST as u64).is_some(),
            "behind a free place"
        );
    }

    #[test]
    fn tasks_in_a_row_fill_all_places_and_the_next_one_is_refused() {
        let table = table();
        assert!((1..=PLACES).all(|number| insert(table, number)));
        assert!(!insert(table, PLACES + 1));
        assert!((1..=PLACES).all(|number| table.find(number).is_some()));
        (1..=PLACES).for_each(|number| table.remove(table.find(number).unwrap()));
        assert!(table.is_empty() && insert(table, PLACES + 1));
    }

    #[test]
    fn a_task_that_stays_takes_no_place_of_the_latest_ones() {
        let table = table();
        assert!(insert(table, 1));
        for number in 2..3 * FIRST as u64 {
            assert!(insert(table, number));
            table.remove(table.find(number).unwrap());
        }
        assert!(table.further[0].get().is_none(), "a further level was made");
    }

    #[test]
    fn two_threads_never_get_one_place() {
        let table = table();
        let half = |odd: u64| move || (0..9000).all(|step| insert(table, 2 * step + odd + 1));
        let threads = [0, 1].map(|odd| std::thread::Builder::new().spawn(half(odd)).unwrap());
        assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
        for number in 1..=18_000 {
            assert_eq!(table.find(number).unwrap().task(number), task(number));
        }
    }
}
