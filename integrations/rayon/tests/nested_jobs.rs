//! Jobs on top of each other, deeper than the core nests loops.

use profiler_core::group;
use profiler_core::groups::GroupKind;
use profiler_rayon::{JobContext, job_site};
use test_support::own_process;

use crate::support::{MeasuredSession, labels_at, mark, work};

/// Runs jobs of two contexts by turns on top of each other. Each works before and after the next.
fn run_nested(contexts: [&JobContext; 2], depth: u32) {
    if depth == 0 {
        mark("innermost");
        return;
    }
    let [context, next] = contexts;
    context.run(|| {
        work();
        assert_eq!(JobContext::current().groups(), 1);
        run_nested([next, context], depth - 1);
        work();
    });
}

#[test]
fn no_time_counts_twice_however_deep_jobs_are_inside_each_other() {
    own_process!();
    let session = MeasuredSession::start();
    let even = JobContext::of([group!("even")]);
    let odd = JobContext::of([group!("odd")]);
    run_nested([&even, &odd], 20);
    let [even, odd] = ["even", "odd"].map(|name| session.totals(GroupKind::Component, name));
    let rounding = 100; // each run is rounded
    let process = session.process_ns();
    let sum = even.wall_ns + odd.wall_ns;
    assert!(sum <= process + rounding, "{sum} ns of {process} ns");
    assert!(process <= sum + rounding, "{sum} ns of {process} ns");
    // Seven are nested loops. Each of the others interrupts the one around it, which enters its
    // group again.
    let ticks = even.ticks + odd.ticks;
    assert_eq!((ticks, even.nested + odd.nested), (7 + 2 * 13, 6));
}

#[test]
fn the_time_of_a_deep_job_is_not_that_of_the_job_around_it() {
    own_process!();
    let session = MeasuredSession::start();
    let shallow = JobContext::of([group!("shallow")]);
    let deep = JobContext::of([group!("deep")]);
    fn nest(depth: u32, shallow: &JobContext, innermost: &dyn Fn()) {
        match depth {
            0 => innermost(),
            _ => shallow.run(|| nest(depth - 1, shallow, innermost)),
        }
    }
    nest(9, &shallow, &|| deep.run(|| (0..20).for_each(|_| work())));
    let [shallow, deep] =
        ["shallow", "deep"].map(|name| session.totals(GroupKind::Component, name));
    assert_eq!((deep.ticks, deep.runs), (1, 1));
    assert!(shallow.wall_ns + deep.wall_ns <= session.process_ns() + 100);
    assert!(deep.wall_ns > shallow.wall_ns, "only the deep job works");
}

#[test]
fn a_job_that_a_job_makes_is_no_other_job_in_a_stack() {
    own_process!();
    let _session = MeasuredSession::start();
    let context = JobContext::new().named(job_site!("outer")).intervals();
    context.run(|| {
        let inner = JobContext::current().named(job_site!("inner"));
        inner.run(|| mark("inside"));
        JobContext::new().run(|| mark("other"));
    });
    assert_eq!(labels_at("inside"), ["outer", "inner"]);
    assert_eq!(labels_at("other"), ["outer", "job inside another job"]);
}

#[test]
fn a_job_in_an_empty_context_counts_for_no_group() {
    own_process!();
    let session = MeasuredSession::start();
    let context = JobContext::of([group!("full")]);
    context.run(|| {
        JobContext::new().run(|| {
            assert_eq!(JobContext::current().groups(), 0);
            work();
        });
    });
    let full = session.totals(GroupKind::Component, "full");
    assert_eq!((full.ticks, full.nested), (1, 1));
}
