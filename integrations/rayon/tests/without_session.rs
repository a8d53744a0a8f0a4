//! Jobs while no session runs, and jobs that a start or a stop interrupts.

use profiler_core::group;
use profiler_core::marker::{MarkerOptions, category};
use profiler_core::session::{self, SessionParams, StartOptions};
use profiler_rayon::{JobContext, job_site};
use recorded_session::named;
use test_support::own_process;

use crate::support::{MeasuredSession, labels_at, mark, pool};

#[test]
fn without_a_session_jobs_run_and_nothing_is_kept() {
    own_process!();
    let context = JobContext::of([group!("before")])
        .named(job_site!("job"))
        .intervals();
    let pool = pool("none", 2);
    let groups = context.install(&pool, || JobContext::current().groups());
    assert_eq!(groups, 0, "a context of no session");
    let session = MeasuredSession::start();
    assert_eq!(session.counts("before"), (0, 0));
    assert!(named("job").is_empty());
    context.install(&pool, || mark("in a session"));
    assert_eq!(session.counts("before"), (1, 1));
    assert_eq!(labels_at("in a session"), ["job"]);
    assert_eq!(named("job").len(), 2, "a job that has no flow");
}

#[test]
fn a_job_that_a_stop_and_a_start_interrupt_leaves_nothing_open() {
    own_process!();
    let start = || session::start(SessionParams::default(), StartOptions::default()).unwrap();
    let context = JobContext::of([group!("interrupted")])
        .named(job_site!("interrupted"))
        .intervals();
    start();
    context.run(|| {
        session::stop();
        start();
    });
    let options = MarkerOptions::default();
    profiler_core::marker::add_untyped_marker("plain", &category::OTHER, options);
    mark("after the job");
    assert!(labels_at("after the job").is_empty());
    assert_eq!(JobContext::current().groups(), 0);
    context.run(|| mark("next"));
    assert_eq!(labels_at("next"), ["interrupted"]);
    session::stop();
    context.run(start);
    mark("after a job without a session");
    assert!(labels_at("after a job without a session").is_empty());
    session::stop();
}
