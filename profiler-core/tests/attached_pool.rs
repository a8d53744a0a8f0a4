//! Test of a pool that stays attached for the life of the process, as in a child: successive
//! sessions use the same tables.

use crate::support::{self, Worker, snapshot};
use profiler_core::internal::reader::{Snapshot, ThreadInfo};
use profiler_core::marker;
use profiler_core::session::{self, SessionParams, StartError, StartOptions};
use test_support::own_process;
use test_support::patience::until;

fn start(params: SessionParams) {
    session::start(params, StartOptions::default()).unwrap();
}

fn named<'a>(snapshot: &'a Snapshot, name: &str) -> &'a ThreadInfo {
    snapshot
        .threads
        .iter()
        .find(|thread| thread.name == name)
        .unwrap()
}

#[test]
fn a_thread_of_an_earlier_session_does_not_end_the_row_of_another_thread() {
    own_process!();
    let params = SessionParams::default();
    let spec = support::pool_spec(&params);
    let pool = spec.create_pool().unwrap();
    session::attach(pool).unwrap();
    start(SessionParams::default());
    let old = Worker::new("old");
    old.run(|| marker!("first session"));
    start(SessionParams {
        interval_ns: 2_000_000,
        ..SessionParams::default()
    });
    let new = Worker::new("new");
    new.run(|| marker!("second session"));
    old.end(); // its former row now belongs to the new thread
    let third = Worker::new("third");
    third.run(|| marker!("second session"));
    third.end();
    assert!(
        until(|| named(&snapshot(), "third").ended.is_some()),
        "the end of the third thread is never recorded"
    );
    assert_eq!(named(&snapshot(), "new").ended, None);
    new.end();
    session::stop();
}

#[test]
fn a_pool_that_comes_while_an_own_session_runs_is_refused() {
    own_process!();
    let params = SessionParams::default();
    let pool = support::pool_spec(&params).create_pool().unwrap();
    start(params);
    let refused = session::attach(pool);
    assert!(
        matches!(refused, Err(StartError::OwnSession)),
        "{refused:?}"
    );
    marker!("into the own pool");
    assert_eq!(snapshot().counts().delivered, 1);
    session::stop();
}
