//! The jobs of a process that is killed.

use std::path::PathBuf;

use profiler_core::group;
use profiler_parent::groups::GroupKind;
use profiler_rayon::{JobContext, job_site};
use recorded_session::{KilledChild, wait_to_be_killed};
use test_support::own_process;

use crate::support::pool;

/// The child: runs three jobs, and waits in a fourth one until it is killed.
fn run_jobs_and_wait(ready: PathBuf) -> ! {
    profiler_child::init();
    let pool = pool("mortal", 2);
    let context = JobContext::of([group!("ended jobs")]);
    let ended = context.clone().named(job_site!("ended job")).intervals();
    pool.scope(|scope| (0..3).for_each(|_| scope.spawn(|_| ended.run(|| ()))));
    let open = JobContext::new().named(job_site!("open job")).intervals();
    open.install(&pool, || wait_to_be_killed(ready))
}

#[test]
fn the_jobs_of_a_killed_process_are_in_the_profile() {
    own_process!();
    let killed = KilledChild::of_this_test(run_jobs_and_wait);
    let groups = killed.session.groups();
    let jobs = groups.process("killed").unwrap();
    let jobs = jobs.group(GroupKind::Component, "ended jobs").unwrap();
    assert_eq!(jobs.totals.ticks, 3);
    let text = killed.profile();
    for expected in ["\"ended job\"", "\"open job\"", "\"Span rayon job\""] {
        assert!(text.contains(expected), "no {expected} in the profile");
    }
    let workers = ["\"mortal worker 0\"", "\"mortal worker 1\""];
    assert!(workers.iter().any(|name| text.contains(name)), "no worker");
}
