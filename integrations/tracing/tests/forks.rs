//! The spans of a forked child that begins anew.

#![allow(unsafe_code)]

use profiler_child::Status;
use profiler_parent::Session;
use profiler_tracing::subscriber;
use test_support::forks::in_forked_child;
use test_support::own_process;
use test_support::patience::LONG;
use tracing::info_span;

use crate::saved_profile::SavedProfile;

/// Forks; the forked process begins anew and records a span.
fn fork() {
    profiler_child::init();
    tracing::subscriber::set_global_default(subscriber()).unwrap();
    info_span!("before the fork").in_scope(|| ());
    let in_child = || {
        // SAFETY: the thread that forked is the only one that uses locks: the harness waits.
        let status = unsafe { profiler_child::after_fork_within(LONG) };
        info_span!("after the fork").in_scope(|| ());
        i32::from(!matches!(status, Status::Recording))
    };
    // SAFETY: the forked process calls only what `after_fork` allows.
    assert_eq!(unsafe { in_forked_child(in_child) }, 0);
}

#[test]
fn a_forked_child_records_spans_of_its_own() {
    own_process!();
    if own_process::role().is_some() {
        return fork();
    }
    let session = Session::builder().start().unwrap();
    let mut child = session.spawn("forks", own_process::child("forks")).unwrap();
    assert!(child.wait().unwrap().success());
    let directory = tempfile::tempdir().unwrap();
    let profile = directory.path().join("profile.json");
    let report = session.capture().save(&profile).unwrap();
    assert_eq!(report.processes.len(), 3, "{:?}", report.processes);
    let profile = SavedProfile::read(&profile);
    let process_of = |name| match &profile.named(name)[..] {
        [span] if span.start.is_some() && span.end.is_some() => span.pid.clone(),
        spans => panic!("{spans:?}"),
    };
    assert_ne!(process_of("before the fork"), process_of("after the fork"));
}
