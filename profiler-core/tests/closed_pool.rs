//! A process that ended its profiler: the parent's word may come later, and what the pool holds
//! must stay. One test function per process, because a pool is closed for good.

use crate::support::{self};
use profiler_core::internal::pool::{self};
use profiler_core::marker;
use profiler_core::session::{self, SessionParams, StartError, StartOptions};
use test_support::own_process;

#[test]
fn a_start_that_comes_after_the_end_destroys_nothing() {
    own_process!();
    let params = SessionParams::default();
    let spec = support::pool_spec(&params);
    session::attach(pool::create(&spec).unwrap()).unwrap();
    session::start(params.clone(), StartOptions::default()).unwrap();
    marker!("kept");
    session::close_pool();
    marker!("too late");
    let refused = |result| matches!(result, Err(StartError::Closed));
    assert!(refused(session::ensure_started(params.clone(), StartOptions::default())));
    assert!(refused(session::start(params, StartOptions::default())));
    session::stop();
    let reader = support::pool();
    assert_eq!(reader.snapshot().unwrap().counts().delivered, 1);
}
