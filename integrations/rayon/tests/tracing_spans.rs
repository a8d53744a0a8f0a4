//! Spans of the crate `tracing` in jobs.

use profiler_rayon::JobContext;
use profiler_tracing::subscriber;
use recorded_session::{Phase, Seen, named};
use test_support::own_process;
use test_support::patience::until;
use tracing::subscriber::set_global_default;
use tracing::{Span, info_span};

use crate::support::{MeasuredSession, labels_at, mark, pool};

fn start() -> MeasuredSession {
    set_global_default(subscriber()).unwrap();
    let session = MeasuredSession::start();
    assert!(until(|| tracing::enabled!(tracing::Level::INFO)));
    session
}

fn only_start(name: &str) -> Seen {
    let starts = named(name);
    let mut starts = starts.into_iter().filter(|seen| seen.phase == Phase::Start);
    starts.next().unwrap()
}

#[test]
fn a_span_that_the_program_enters_in_a_job_is_the_parent_of_the_spans_of_the_job() {
    own_process!();
    let _session = start();
    let request = info_span!("request");
    let job = || drop(info_span!("part"));
    pool("spans", 1).install(|| JobContext::current().run(|| request.in_scope(job)));
    let request = only_start("request").number("span");
    assert!(request.is_some());
    assert_eq!(only_start("part").number("parent"), request);
}

#[test]
#[cfg(feature = "tracing")]
fn a_context_carries_the_current_span() {
    own_process!();
    let _session = start();
    let pool = pool("carried", 1);
    let request = info_span!("request");
    let context = request.in_scope(JobContext::current);
    let job = || {
        mark("in the job");
        drop(info_span!("part"));
    };
    pool.install(|| context.run(job));
    assert!(pool.install(|| Span::current().is_none()), "it is left");
    let request = only_start("request").number("span");
    assert_eq!(only_start("part").number("parent"), request);
    assert_eq!(labels_at("in the job"), ["request"]);
}

#[test]
#[cfg(feature = "tracing")]
fn a_context_carries_the_current_span_without_a_session() {
    own_process!();
    let subscriber = tracing_subscriber::registry();
    set_global_default(subscriber).unwrap();
    let request = info_span!("request");
    let context = request.in_scope(JobContext::current);
    let in_job = pool("carried", 1).install(|| context.run(|| Span::current().id()));
    assert_eq!(in_job, request.id());
}

#[test]
#[cfg(not(feature = "tracing"))]
fn without_the_feature_no_span_is_entered() {
    own_process!();
    let _session = start();
    let context = info_span!("request").in_scope(JobContext::current);
    assert!(context.run(|| Span::current().is_none()));
    context.run(|| mark("in the job"));
    assert!(labels_at("in the job").is_empty());
}
