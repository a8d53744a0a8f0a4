//! Test of a process that has ended its profiler: a start request of the parent that arrives later
//! must not destroy the data in the pool.

use crate::support::{self};
use profiler_core::marker;
use profiler_core::session::{self, SessionParams, StartError, StartOptions};
use test_support::own_process;

#[test]
fn a_start_after_the_end_of_the_profiler_destroys_nothing() {
    own_process!();
    let params = SessionParams::default();
    let spec = support::pool_spec(&params);
    session::attach(spec.create_pool().unwrap()).unwrap();
    session::start(params.clone(), StartOptions::default()).unwrap();
    marker!("kept");
    session::close_pool();
    marker!("too late");
    let refused = |result| matches!(result, Err(StartError::Closed));
    assert!(refused(session::ensure_started(
        params.clone(),
        StartOptions::default()
    )));
    assert!(refused(session::start(params, StartOptions::default())));
    session::stop();
    let reader = support::pool();
    assert_eq!(reader.snapshot().unwrap().counts().delivered, 1);
}
