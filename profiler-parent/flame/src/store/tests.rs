//! Tests of the store and of the passes over the pools.

use std::collections::BTreeMap;
use std::sync::Arc;

use profiler_core::groups::GroupKind;
use profiler_core::ids::{ByteLimit, ProcessId};
use profiler_core::internal::pool::{self, PoolSpec};
use profiler_core::internal::reader::groups::Peak;
use profiler_core::session::SessionParams;
use profiler_core::time::SessionClock;
use profiler_http::Query;
use profiler_sys::OwnFile;

use super::*;
use crate::answer;
use crate::process::test_pool::TestPool;
use crate::process::test_process::{sample, unchanged};
use crate::sample_bytes::TestSample;
use crate::selection::Selection;
use crate::sources::ProcessToSample;

/// The processes of a session, by their pools.
#[derive(Debug)]
struct ListedProcesses {
    clock: SessionClock,
    all: Mutex<BTreeMap<PoolId, ListedProcess>>,
}

#[derive(Debug)]
struct ListedProcess {
    pool: Option<Arc<OwnFile>>,
    is_over: bool,
}

impl FlameSources for ListedProcesses {
    fn clock(&self) -> SessionClock {
        self.clock
    }

    fn for_each_process(&self, each: &mut dyn FnMut(ProcessToSample<'_>)) {
        for (order, (key, process)) in (0..).zip(&*self.all.lock().unwrap()) {
            each(ProcessToSample {
                key: *key,
                order,
                pid: ProcessId::new(1),
                name: "p",
                is_over: process.is_over,
                died: None,
                pool: process.pool.as_ref(),
            });
        }
    }

    fn longest_runs(&self, _kind: GroupKind, _name: &str) -> Vec<(PoolId, Peak)> {
        Vec::new()
    }
}

/// A session with pools that contain nothing.
struct Tester {
    processes: ListedProcesses,
    store: FlameStore,
}

impl Tester {
    fn new() -> Self {
        Self {
            processes: ListedProcesses {
                clock: SessionClock::start_now(),
                all: Mutex::default(),
            },
            store: FlameStore::new(),
        }
    }

    /// Adds a process with this pool.
    fn add(&self, id: PoolId, pool: Arc<OwnFile>) {
        let process = ListedProcess {
            pool: Some(pool),
            is_over: false,
        };
        self.processes.all.lock().unwrap().insert(id, process);
    }

    /// Changes a process.
    fn change(&self, id: PoolId, change: impl FnOnce(&mut ListedProcess)) {
        change(self.processes.all.lock().unwrap().get_mut(&id).unwrap());
    }

    /// Adds a process.
    fn start(&self) -> PoolId {
        let id = pool::new_id().unwrap();
        let limit = ByteLimit::new(64 * 1024);
        let spec = PoolSpec {
            id,
            limit,
            allowance: limit,
            clock: self.processes.clock,
            params: SessionParams::default(),
            name: String::new(),
        };
        let pool = OwnFile::from(spec.create_pool().unwrap());
        self.add(id, Arc::new(pool));
        id
    }

    /// The processes that are read in a pass, and how often.
    fn turns(&self, is_regular: bool) -> Vec<(PoolId, usize)> {
        let mut samples = self.store.lock();
        samples.update(&self.processes);
        let mut turns = samples.turns(is_regular);
        turns.retain(|(_, budgets)| *budgets > 0);
        turns
    }
}

#[test]
fn what_a_new_process_has_recorded_is_read_without_a_pause_beside_processes_that_are_known() {
    let tester = Tester::new();
    let first = tester.start();
    assert_eq!(tester.turns(true), [(first, 1)]);
    let has_more = read_once(&tester.processes, &tester.store);
    assert!(!has_more, "the pool is empty");
    assert!(!tester.store.lock().is_behind);
    let second = tester.start();
    assert_eq!(tester.turns(false), [(second, 1)]);
    let turns = tester.turns(true);
    let of = |key| turns.iter().find(|(known, _)| *known == key).unwrap().1;
    assert!(of(first) > of(second));
    read_once(&tester.processes, &tester.store);
    assert!(tester.turns(false).is_empty());
}

#[test]
fn an_answer_during_the_first_pass_covers_the_present_and_says_that_it_is_incomplete() {
    let tester = Tester::new();
    tester.start();
    let now_ns = PassTimes::now(&tester.processes, &tester.store).now_ns;
    let look = || {
        let selection = Selection::parse(&Query::parse(""));
        let answer = answer::answer(&tester.store.lock(), &selection, None);
        let answer = serde_json::to_value(answer).unwrap();
        let at_ns = answer["at_ns"].as_i64().unwrap();
        (answer["is_behind"].as_bool().unwrap(), at_ns)
    };
    let processes = &tester.processes;
    tester.store.lock().begin_pass(processes, now_ns);
    assert_eq!(look(), (true, now_ns), "no sample would be in its window");
    read_once(&tester.processes, &tester.store);
    let (is_behind, at_ns) = look();
    assert!(!is_behind && at_ns >= now_ns);
    tester.start();
    tester.store.lock().begin_pass(processes, at_ns + 1);
    assert_eq!(look(), (false, at_ns), "it started after this time");
}

#[test]
fn an_answer_covers_the_time_up_to_the_last_pass_that_read_all_processes() {
    let tester = Tester::new();
    tester.start();
    let mut times = PassTimes::now(&tester.processes, &tester.store);
    let mut read = |is_regular| {
        times.now_ns += 1;
        pass(&tester.processes, &tester.store, times, is_regular);
        tester.store.lock().read_ns - times.now_ns
    };
    assert_eq!(read(true), 0);
    assert_eq!([read(false), read(false)], [-1, -2]);
    assert_eq!(read(true), 0);
}

#[test]
fn samples_are_whole_when_all_processes_have_been_read() {
    let tester = Tester::new();
    let whole_since_ns = || tester.store.lock().whole_since_ns();
    assert_eq!(whole_since_ns(), None);
    tester.start();
    let processes = &tester.processes;
    tester.store.lock().begin_pass(processes, 1);
    assert_eq!(whole_since_ns(), None, "it has not been read");
    read_once(&tester.processes, &tester.store);
    assert_eq!(whole_since_ns(), Some(i64::MIN));
}

#[test]
fn a_window_is_complete_when_it_is_read_although_older_samples_are_not() {
    const S: u64 = 1_000_000_000;
    let runs = |at| TestSample {
        at,
        ..sample(8, &[1, 2], 1000)
    };
    // Chunks of 12 s, each larger than the first budgets. Thread 9 waits from 40 s to 55 s.
    let chunk = |start: u64| (0..1200).map(move |number| runs(start * S + number * (S / 100)));
    let mut chunks: Vec<Vec<_>> = (0..5).map(|number| chunk(12 * number).collect()).collect();
    for (chunk, at_s, waits) in [(3, 40, true), (4, 55, false)] {
        let at = at_s * S;
        let edge = TestSample {
            at,
            waits,
            ..sample(9, &[1, 3], 0)
        };
        let chunk: &mut Vec<TestSample> = &mut chunks[chunk];
        chunk.insert(chunk.partition_point(|sample| sample.at < at), edge);
    }
    let pool = TestPool::of(&chunks);
    let tester = Tester::new();
    tester.add(pool.id, Arc::clone(&pool.file));
    let times = PassTimes {
        converter: unchanged(),
        now_ns: 60 * S.cast_signed(),
        keeps_recent: false,
    };
    let look = |window: &str| {
        let selection = Selection::parse(&Query::parse(&format!("window={window}&time=all")));
        let answer = answer::answer(&tester.store.lock(), &selection, None);
        let answer = serde_json::to_value(answer).unwrap();
        let is = |key: &str| answer[key].as_bool().unwrap();
        let [on, off] = ["on_cpu_ns", "off_cpu_ns"].map(|key| answer[key].as_u64().unwrap());
        ((is("is_window_read"), is("is_behind")), (on, off))
    };
    assert_eq!(look("10s").0, (false, true));
    let has_more = pass(&tester.processes, &tester.store, times, true);
    let newest = look("10s");
    assert!(has_more && newest.0 == (true, true), "{newest:?}");
    assert_eq!(look("start").0, (false, true));
    let passes = (0..100).take_while(|_| pass(&tester.processes, &tester.store, times, false));
    assert_eq!(passes.count(), 2);
    let (is_read, sums) = look("10s");
    assert_eq!((is_read, sums), ((true, false), newest.1));
    assert_eq!(look("start"), ((true, false), (5 * 1200 * 1000, 15 * S)));
}

#[test]
fn processes_that_record_faster_than_they_are_read_share_the_budgets_of_one() {
    let tester = Tester::new();
    let [one, other, slow] = [(); 3].map(|()| tester.start());
    read_once(&tester.processes, &tester.store);
    for key in [one, other] {
        let mut samples = tester.store.lock();
        let pool = samples.open.get_mut(key).unwrap();
        pool.process.progress.is_behind = true;
    }
    let turns = tester.turns(true);
    let of = |key| turns.iter().find(|(known, _)| *known == key).unwrap().1;
    assert_eq!([of(one), of(other)], [of(slow) / 2; 2]);
    assert!(tester.turns(false).is_empty());
}

#[test]
fn an_ended_process_is_read_to_its_end_in_any_pass() {
    let tester = Tester::new();
    let key = tester.start();
    read_once(&tester.processes, &tester.store);
    tester.change(key, |process| process.is_over = true);
    assert_eq!(tester.turns(false), [(key, 1)]);
    read_once(&tester.processes, &tester.store);
    assert!(tester.turns(true).is_empty());
}

#[test]
fn a_process_is_met_once_and_ends_once() {
    let tester = Tester::new();
    let key = tester.start();
    assert_eq!(tester.turns(true).len(), 1);
    assert_eq!(tester.turns(true).len(), 1, "it is added again");
    tester.change(key, |process| process.pool = None);
    read_once(&tester.processes, &tester.store);
    let followed = tester.store.lock().open.iter().count();
    assert_eq!(followed, 0, "without a pool it is over");
    let empty = Arc::new(OwnFile::from(tempfile::tempfile().unwrap()));
    tester.change(key, |process| process.pool = Some(empty));
    assert!(
        tester.turns(true).is_empty(),
        "it is added again after its end"
    );
    let listed = tester.processes.all.lock().unwrap().remove(&key);
    assert!(tester.turns(true).is_empty());
    tester
        .processes
        .all
        .lock()
        .unwrap()
        .insert(key, listed.unwrap());
    assert_eq!(
        tester.turns(true).len(),
        1,
        "processes that left the session are kept"
    );
}

#[test]
fn a_process_that_is_not_listed_any_more_is_read_to_its_end() {
    let tester = Tester::new();
    let key = tester.start();
    read_once(&tester.processes, &tester.store);
    tester.processes.all.lock().unwrap().clear();
    assert_eq!(tester.turns(false), [(key, 1)]);
    read_once(&tester.processes, &tester.store);
    assert!(tester.turns(true).is_empty());
}

#[test]
fn a_thread_that_panics_is_named_with_the_text_of_its_panic() {
    let store = FlameStore::new();
    store.run_thread(FlameThread::Reader, || ());
    assert!(store.lock().stopped.reader.is_none());
    store.run_thread(FlameThread::Reader, || {
        let _samples = store.lock();
        panic!("no more")
    });
    let number = store.lock().passes;
    store.run_thread(FlameThread::Names, || {
        panic!("{number} {}", "é".repeat(1000))
    });
    let StoppedThreads { reader, names } = store.lock().stopped.clone();
    assert_eq!(reader.unwrap(), "the reader has stopped: no more");
    let names = names.unwrap();
    assert!(
        names.starts_with("the look-up of names has stopped: 0 é"),
        "{names}"
    );
    assert!(names.len() < LONGEST_PANIC + 50);
}
