//! A pool that stays for the life of the process, as children have it: sessions follow each other
//! in the same tables. One test function per process, because a pool is attached for good.

use crate::support::{self, Worker, snapshot};
use profiler_core::internal::pool::{self};
use profiler_core::internal::reader::{Snapshot, ThreadInfo};
use profiler_core::marker;
use profiler_core::session::{self, SessionParams, StartOptions};
use test_support::own_process;
use test_support::patience::until;

fn start(params: SessionParams) {
    session::start(params, StartOptions::default()).unwrap();
}

fn named<'a>(snapshot: &'a Snapshot, name: &str) -> &'a ThreadInfo {
    snapshot.threads.iter().find(|thread| thread.name == name).unwrap()
}

#[test]
fn a_thread_of_an_earlier_session_does_not_end_anothers_row() {
    own_process!();
    let params = SessionParams::default();
    let spec = support::pool_spec(&params);
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
    assert!(until(|| named(&snapshot(), "third").ended.is_some()), "the third thread's end is never seen");
    assert_eq!(named(&snapshot(), "new").ended, None);
    new.end();
    session::stop();
}
