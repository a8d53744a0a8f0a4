//! Processes that exit after a panic, or go on.

use std::panic::catch_unwind;
use std::process::exit;
use std::thread::Builder;

use profiler_core::marker;
use test_support::own_process;

use crate::children::{begin, ended};

fn fall_over() -> ! {
    panic!("told to fall over");
}

#[test]
fn a_caught_panic_changes_no_verdict() {
    own_process!();
    let ended = ended(|| {
        begin();
        let _ = catch_unwind(|| fall_over());
        exit(0);
    });
    assert_eq!(ended.verdict, "complete");
    assert_eq!(ended.panics().len(), 1);
}

#[test]
fn an_exit_code_after_a_caught_panic_is_no_panic() {
    own_process!();
    let ended = ended(|| {
        begin();
        let _ = catch_unwind(|| fall_over());
        exit(3);
    });
    assert_eq!(ended.verdict, "complete");
}

#[test]
fn a_thread_that_panics_alone_changes_no_verdict() {
    own_process!();
    let ended = ended(|| {
        begin();
        let worker = Builder::new().name("worker".to_owned());
        let _ = worker.spawn(|| fall_over()).unwrap().join();
        marker!("the program goes on");
        exit(101);
    });
    assert_eq!(
        (ended.status.code(), ended.verdict.as_str()),
        (Some(101), "complete")
    );
    let panics = ended.panics();
    assert_eq!((panics.len(), &panics[0]["thread"]), (1, &"worker".into()));
}

#[test]
fn a_hook_that_exits_is_named_with_the_thread_that_panicked() {
    own_process!();
    let ended = ended(|| {
        std::panic::set_hook(Box::new(|_| exit(7)));
        begin();
        let worker = Builder::new().name("worker".to_owned());
        let _ = worker.spawn(|| fall_over()).unwrap().join();
    });
    let told = "recovered: exited with code 7: worker panicked at ";
    assert!(ended.verdict.starts_with(told), "{}", ended.verdict);
}
