//! Jobs as intervals: their parents, and the flow that connects them with their origin.

use profiler_core::span;
use profiler_rayon::{JobContext, job_site};
use rayon::prelude::*;
use recorded_session::{Phase, Seen, named};
use test_support::own_process;

use crate::support::{MeasuredSession, pool};

fn of_type<'a>(seen: &'a [Seen], type_name: &str, phase: Phase) -> Vec<&'a Seen> {
    let are = |seen: &&Seen| seen.type_name == type_name && seen.phase == phase;
    seen.iter().filter(are).collect()
}

const JOB: &str = "Span rayon job";

#[test]
fn each_job_is_an_interval_with_its_parent_and_the_flow_of_its_origin() {
    own_process!();
    let _session = MeasuredSession::start();
    let request = span!("request");
    let context = JobContext::current()
        .named(job_site!("part"))
        .parent(request.id())
        .intervals();
    pool("parts", 2).install(|| (0..10).into_par_iter().for_each(|_| context.run(|| ())));
    let seen = named("part");
    let [origin] = of_type(&seen, "rayon jobs", Phase::Instant)[..] else {
        panic!("{seen:?}");
    };
    let [starts, ends] = [Phase::Start, Phase::End].map(|phase| of_type(&seen, JOB, phase));
    assert_eq!((starts.len(), ends.len()), (10, 10));
    assert!(origin.number("flow").is_some());
    assert_eq!(origin.number("parent"), request.id());
    for start in starts {
        assert_eq!(start.number("flow"), origin.number("flow"));
        assert_eq!(start.number("parent"), request.id());
        let number = start.number("span");
        assert!(ends.iter().any(|end| end.number("span") == number));
    }
}

#[test]
fn a_job_is_the_parent_of_the_jobs_that_it_makes() {
    own_process!();
    let _session = MeasuredSession::start();
    let outer = JobContext::current().named(job_site!("outer")).intervals();
    outer.run(|| {
        let inner = JobContext::current();
        inner.run(|| ());
        inner.named(job_site!("inner")).intervals().run(|| ());
    });
    let [outer, inner] = ["outer", "inner"].map(named);
    let outer = of_type(&outer, JOB, Phase::Start);
    let inner = of_type(&inner, JOB, Phase::Start);
    assert_eq!(
        (outer.len(), inner.len()),
        (1, 1),
        "intervals are not carried on"
    );
    assert_eq!(inner[0].number("parent"), outer[0].number("span"));
    assert_ne!(inner[0].number("flow"), outer[0].number("flow"));
}
