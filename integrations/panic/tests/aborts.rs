//! Processes that abort after a panic.

use std::panic::catch_unwind;
use std::process::abort;

use profiler_core::marker;
use test_support::own_process;

use crate::children::{Ended, begin, begin_with_aborting_hook, ended};

fn fall_over() -> ! {
    panic!("told to fall over");
}

/// Whether the verdict names this panic as the cause of the abort.
fn names(ended: &Ended, message: &str) -> bool {
    let place = format!("panicked at {}:", file!());
    ended.has_aborted()
        && ended
            .verdict
            .starts_with("recovered: crashed with signal 6 (SIGABRT")
        && ended.verdict.contains("): aborts::")
        && ended.verdict.contains(&place)
        && ended.verdict.ends_with(message)
}

#[inline(never)]
fn die_in_hook() {
    fall_over();
}

#[test]
fn a_panic_whose_hook_aborts_is_named_and_its_marker_has_the_stack() {
    own_process!();
    let ended = ended(|| {
        begin_with_aborting_hook();
        marker!("before the panic");
        die_in_hook();
    });
    assert!(names(&ended, ": told to fall over"), "{}", ended.verdict);
    let panics = ended.panics();
    assert_eq!(panics.len(), 1);
    let has_stack = panics[0]["cause"]["stack"].is_number();
    assert!(
        has_stack && ended.text.contains("die_in_hook"),
        "{panics:?}"
    );
    assert!(ended.text.contains("before the panic"));
}

struct PanicsToo;

impl Drop for PanicsToo {
    fn drop(&mut self) {
        panic!("told to fall over again");
    }
}

#[test]
fn a_panic_in_a_drop_during_the_unwinding_is_named() {
    own_process!();
    let ended = ended(|| {
        begin();
        let _too = PanicsToo;
        fall_over();
    });
    assert!(
        names(&ended, ": told to fall over again"),
        "{}",
        ended.verdict
    );
    let messages: Vec<_> = ended.panics().iter().map(|one| &one["message"]).collect();
    assert_eq!(messages[0], "told to fall over");
    assert_eq!(messages[1], "told to fall over again");
}

extern "C" fn may_not_unwind() {
    fall_over();
}

#[test]
fn a_panic_in_a_function_that_cannot_unwind_is_named_with_its_own_place() {
    own_process!();
    let ended = ended(|| {
        begin();
        may_not_unwind();
    });
    assert!(names(&ended, ": told to fall over"), "{}", ended.verdict);
}

#[test]
fn an_abort_right_after_a_caught_panic_is_said_to_be_after_it() {
    own_process!();
    let ended = ended(|| {
        begin();
        let _ = catch_unwind(|| fall_over());
        abort();
    });
    let told = format!(" panicked at {}:", file!());
    let is_told = ended.verdict.contains(") after aborts::") && ended.verdict.contains(&told);
    assert!(ended.has_aborted() && is_told, "{}", ended.verdict);
}

#[test]
fn an_abort_of_a_thread_that_went_on_after_a_panic_is_no_panic() {
    own_process!();
    let ended = ended(|| {
        begin();
        let _ = catch_unwind(|| fall_over());
        marker!("the thread goes on");
        abort();
    });
    assert!(
        ended.has_aborted() && !ended.verdict.contains("panicked"),
        "{}",
        ended.verdict
    );
    assert_eq!(ended.panics().len(), 1);
}

#[test]
fn an_abort_after_the_end_of_the_thread_that_panicked_is_no_panic() {
    own_process!();
    let ended = ended(|| {
        begin();
        let ending = std::thread::Builder::new().spawn(|| fall_over());
        let _ = ending.unwrap().join();
        abort();
    });
    assert!(
        ended.has_aborted() && !ended.verdict.contains("panicked"),
        "{}",
        ended.verdict
    );
}
