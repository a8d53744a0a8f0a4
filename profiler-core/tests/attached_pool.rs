//! A pool that stays for the life of the process, as children have it: sessions follow each other
//! in the same tables. One test function per process, because a pool is attached for good.

use std::sync::mpsc;
use std::time::Duration;

use profiler_core::marker;
use profiler_core::pool::{self, PoolSpec};
use profiler_core::reader::{PoolReader, Snapshot, ThreadInfo};
use profiler_core::session::{self, SessionParams, StartOptions};
use profiler_core::time::SessionClock;

fn start(params: SessionParams) {
    session::start(params, StartOptions::default()).unwrap();
}

fn snapshot() -> Snapshot {
    PoolReader::open(session::pool_file().unwrap()).unwrap().snapshot().unwrap()
}

fn named<'a>(snapshot: &'a Snapshot, name: &str) -> &'a ThreadInfo {
    snapshot.threads.iter().find(|thread| thread.name == name).unwrap()
}

/// A thread that does what it is sent, and says when it is done.
struct Worker {
    jobs: mpsc::Sender<fn()>,
    done: mpsc::Receiver<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Worker {
    fn new(name: &str) -> Self {
        let (jobs, todo) = mpsc::channel::<fn()>();
        let (say, done) = mpsc::channel();
        let body = move || {
            for job in todo {
                job();
                say.send(()).unwrap();
            }
        };
        Self { jobs, done, thread: std::thread::Builder::new().name(name.to_owned()).spawn(body).unwrap() }
    }

    fn run(&self, job: fn()) {
        self.jobs.send(job).unwrap();
        self.done.recv().unwrap();
    }

    fn end(self) {
        drop(self.jobs);
        self.thread.join().unwrap();
    }
}

/// Waits for the maintenance thread to have looked at everything once more.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..120_000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{what}");
}

#[test]
fn a_thread_of_an_earlier_session_does_not_end_anothers_row() {
    let params = SessionParams::default();
    let spec = PoolSpec {
        id: pool::new_id().unwrap(),
        limit: params.limit,
        allowance: params.limit,
        clock: SessionClock::start_now(),
        params,
        name: String::new(),
    };
    let pool = pool::create(&spec).unwrap();
    session::attach(pool).unwrap();
    start(SessionParams::default());
    let old = Worker::new("old");
    old.run(|| marker!("first session"));
    start(SessionParams { interval_ns: 2_000_000, ..SessionParams::default() });
    let new = Worker::new("new");
    new.run(|| marker!("second session"));
    old.end(); // it had the row that is the new thread's now
    let third = Worker::new("third");
    third.run(|| marker!("second session"));
    third.end();
    until("the third thread's end is never seen", || named(&snapshot(), "third").ended.is_some());
    assert_eq!(named(&snapshot(), "new").ended, None);
    new.end();
    session::stop();
}
