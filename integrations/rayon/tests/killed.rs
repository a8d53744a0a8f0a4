//! The jobs of a process that is killed.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use profiler_core::group;
use profiler_parent::Session;
use profiler_parent::groups::GroupKind;
use profiler_rayon::{JobContext, job_site};
use test_support::own_process;
use test_support::patience::until;

use crate::support::pool;

/// The variable with the file that the child makes when its jobs have run.
const READY: &str = "RAYON_TEST_READY";

/// The child: runs three jobs, and waits in a fourth one until it is killed.
fn run_jobs_and_wait(ready: &Path) -> ! {
    profiler_child::init();
    let pool = pool("mortal", 2);
    let context = JobContext::of([group!("ended jobs")]);
    let ended = context.clone().named(job_site!("ended job")).intervals();
    pool.scope(|scope| (0..3).for_each(|_| scope.spawn(|_| ended.run(|| ()))));
    let open = JobContext::new().named(job_site!("open job")).intervals();
    open.install(&pool, || {
        File::create(ready).unwrap();
        loop {
            std::thread::park();
        }
    })
}

#[test]
fn the_jobs_of_a_killed_process_are_in_the_profile() {
    own_process!();
    if let Some(ready) = std::env::var_os(READY) {
        run_jobs_and_wait(Path::new(&ready));
    }
    let directory = tempfile::tempdir().unwrap();
    let [ready, profile] = ["ready", "profile.json"].map(|name| directory.path().join(name));
    let session = Session::builder().start().unwrap();
    let mut child = session.spawn("killed", this_test(&ready)).unwrap();
    assert!(until(|| ready.exists()), "the child has no jobs");
    child.kill().unwrap();
    child.wait().unwrap();
    let groups = session.groups();
    let jobs = groups.process("killed").unwrap();
    let jobs = jobs.group(GroupKind::Component, "ended jobs").unwrap();
    assert_eq!(jobs.totals.ticks, 3);
    session.capture().save(&profile).unwrap();
    let text = std::fs::read_to_string(profile).unwrap();
    for expected in ["\"ended job\"", "\"open job\"", "\"Span rayon job\""] {
        assert!(text.contains(expected), "no {expected} in the profile");
    }
    let workers = ["\"mortal worker 0\"", "\"mortal worker 1\""];
    assert!(workers.iter().any(|name| text.contains(name)), "no worker");
}

/// A command that runs this test as the child.
fn this_test(ready: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = "killed::the_jobs_of_a_killed_process_are_in_the_profile";
    command
        .args(["--exact", name, "--nocapture"])
        .env(READY, ready);
    command
}
