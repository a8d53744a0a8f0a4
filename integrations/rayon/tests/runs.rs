//! The runs of groups: one for each job, on any worker.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use profiler_core::group;
use profiler_core::groups::{Group, GroupKind};
use profiler_rayon::{JobContext, JobScope, PoolProfile, TooManyGroupsError, job_site};
use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use test_support::own_process;

use crate::support::{MeasuredSession, labels_at, mark, pool};

#[test]
fn each_job_is_one_run_of_each_group_of_its_context() {
    own_process!();
    let session = MeasuredSession::start();
    let both = JobContext::of([group!("common"), group!("first")]);
    let one = JobContext::of([group!("common")]);
    pool("runs", 2).scope(|scope| {
        for number in 0..50 {
            let context = if number < 30 { &both } else { &one };
            scope.spawn(|_| context.run(|| ()));
        }
    });
    assert_eq!(session.counts("first"), (30, 30));
    assert_eq!(session.counts("common"), (50, 50));
}

#[test]
fn chunks_of_a_parallel_iterator_are_runs() {
    own_process!();
    let session = MeasuredSession::start();
    let context = JobContext::of([group!("chunks")]);
    let items: Vec<u64> = (0..1000).collect();
    let sum: u64 = pool("iterator", 2).install(|| {
        let chunks = items.par_chunks(10);
        chunks
            .map(|chunk| context.run(|| chunk.iter().sum::<u64>()))
            .sum()
    });
    assert_eq!(sum, 499_500);
    assert_eq!(session.counts("chunks"), (100, 100));
}

#[test]
fn jobs_in_contexts_count_for_the_group_of_their_pool() {
    own_process!();
    let session = MeasuredSession::start();
    let build = |name: &'static str| {
        let group = Group::register(GroupKind::Component, name);
        let builder = ThreadPoolBuilder::new().num_threads(2);
        PoolProfile::new(name).group(group).build(builder).unwrap()
    };
    let [outer, inner] = ["outer pool", "inner pool"].map(build);
    let context = JobContext::of([group!("for both")]);
    context.install(&outer, || {
        let context = JobContext::current();
        assert_eq!(context.groups(), 1, "of a context, not of the pool");
        context.install(&inner, || JobContext::current().run(|| ()));
    });
    assert_eq!(session.counts("outer pool").0, 1);
    assert_eq!(session.counts("inner pool").0, 2);
    assert_eq!(session.counts("for both").0, 3);
    let waits = session.totals(GroupKind::Blocking, "rayon");
    assert_eq!(
        waits.ticks, 2,
        "the main thread, and the worker of the other pool"
    );
}

#[test]
fn a_scope_carries_its_context_into_jobs_that_jobs_spawn() {
    own_process!();
    let session = MeasuredSession::start();
    let context = JobContext::of([group!("tree")]);
    let leaves = AtomicU64::new(0);
    context.scope(|scope| tree(scope, 3, &leaves));
    assert_eq!(leaves.load(Ordering::Relaxed), 8);
    // The scope's own closure, and 2 + 4 + 8 jobs.
    assert_eq!(session.counts("tree"), (15, 15));
}

fn tree<'scope>(scope: &JobScope<'_, 'scope>, depth: u32, leaves: &'scope AtomicU64) {
    assert_eq!(JobContext::current().groups(), 1);
    if depth == 0 {
        leaves.fetch_add(1, Ordering::Relaxed);
        return;
    }
    for _ in 0..2 {
        scope.spawn(move |scope| tree(scope, depth - 1, leaves));
    }
}

#[test]
fn both_jobs_of_a_join_are_in_the_context() {
    own_process!();
    let session = MeasuredSession::start();
    let context = JobContext::of([group!("sum")]);
    let pool = pool("join", 2);
    let sum = context.install(&pool, || sum_of(&context, 1, 1000));
    assert_eq!(sum, 500_500);
    assert_eq!(pool.install(|| JobContext::current().groups()), 0);
    assert!(session.counts("sum").0 > 0);
}

/// The sum of a range, by many joins inside each other.
fn sum_of(context: &JobContext, first: u64, last: u64) -> u64 {
    assert_eq!(JobContext::current().groups(), 1);
    if first == last {
        return first;
    }
    let middle = first.midpoint(last);
    let (low, high) = context.join(
        || sum_of(context, first, middle),
        || sum_of(context, middle + 1, last),
    );
    low + high
}

#[test]
fn a_panic_in_a_job_leaves_no_group_and_no_label() {
    own_process!();
    let session = MeasuredSession::start();
    let fails = JobContext::of([group!("fails")])
        .named(job_site!("fails"))
        .intervals();
    let next = JobContext::of([group!("next")]).named(job_site!("next"));
    let pool = pool("panics", 1);
    let caught = catch_unwind(AssertUnwindSafe(|| {
        fails.install(&pool, || panic!("a job"))
    }));
    assert!(caught.is_err());
    next.install(&pool, || mark("after the panic"));
    pool.install(|| mark("outside"));
    assert_eq!(labels_at("after the panic"), ["next"]);
    assert!(labels_at("outside").is_empty());
    assert_eq!(
        [session.counts("fails"), session.counts("next")],
        [(1, 1); 2]
    );
    assert_eq!(session.totals(GroupKind::Component, "fails").nested, 0);
}

#[test]
fn a_context_has_a_bound_for_groups() {
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| Group::register(GroupKind::Other, name));
    let full = JobContext::of([&a, &b, &c]).with_group(&d).unwrap();
    assert_eq!(full.groups(), 4);
    assert_eq!(full.with_group(&a).unwrap_err(), TooManyGroupsError);
}

#[test]
fn a_spawned_job_runs_in_its_context() {
    own_process!();
    let session = MeasuredSession::start();
    let (sender, receiver) = std::sync::mpsc::channel();
    let context = JobContext::of([group!("spawned")]);
    context.spawn(move || sender.send(JobContext::current().groups()).unwrap());
    assert_eq!(receiver.recv(), Ok(1));
    assert!(test_support::patience::until(
        || session.counts("spawned") == (1, 1)
    ));
}
