//! A process that ended its profiler: the parent's word may come later, and what the pool holds
//! must stay. One test function per process, because a pool is closed for good.

use profiler_core::marker;
use profiler_core::pool::{self, PoolSpec};
use profiler_core::reader::PoolReader;
use profiler_core::session::{self, SessionParams, StartError, StartOptions};
use profiler_core::time::SessionClock;

#[test]
fn a_start_that_comes_after_the_end_destroys_nothing() {
    let params = SessionParams::default();
    let spec = PoolSpec {
        id: pool::new_id().unwrap(),
        limit: params.limit,
        allowance: params.limit,
        clock: SessionClock::start_now(),
        params: params.clone(),
        name: String::new(),
    };
    session::attach(pool::create(&spec).unwrap()).unwrap();
    session::start(params.clone(), StartOptions::default()).unwrap();
    marker!("kept");
    session::close_pool();
    marker!("too late");
    let refused = |result| matches!(result, Err(StartError::Closed));
    assert!(refused(session::ensure_started(params.clone(), StartOptions::default())));
    assert!(refused(session::start(params, StartOptions::default())));
    session::stop();
    let reader = PoolReader::open(session::pool_file().unwrap()).unwrap();
    assert_eq!(reader.snapshot().unwrap().counts().delivered, 1);
}
