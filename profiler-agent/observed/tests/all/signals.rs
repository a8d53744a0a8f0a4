//! What programs do with signals and with filters of system calls.

use std::process::Output;

use profiler_observed::layout::Notes;

use crate::observed::{Program, Session, run_until};

fn run(arguments: &[&str]) -> (Output, Program) {
    let (output, mut programs) = Session::new().run(arguments);
    assert!(output.status.success(), "{:?}", output.status);
    (output, programs.remove(0))
}

/// The same for a program of which a thread has samples of at least half of its 100 ms.
fn run_sampled(arguments: &[&str], row: u32) -> (Output, Program) {
    let is_sampled = |programs: &[Program]| is_sampled(&programs[0], row);
    let (output, mut programs) = run_until(is_sampled, || Session::new().run(arguments));
    assert!(output.status.success(), "{:?}", output.status);
    assert!(is_sampled(&programs));
    (output, programs.remove(0))
}

fn is_sampled(program: &Program, row: u32) -> bool {
    program.sampled_ns(row) >= 50_000_000
}

fn has_note(program: &Program, note: Notes) -> bool {
    program.header.notes & note.0 != 0
}

#[test]
fn a_mask_of_all_signals_holds_no_sample_back_and_does_not_show_the_signal() {
    let (output, _) = run_sampled(&["blocked"], 0);
    assert!(String::from_utf8_lossy(&output.stdout).contains("blocked 0"));
    run_sampled(&["thread-blocked"], 1);
}

#[test]
fn a_program_that_uses_the_signal_gets_its_own_and_is_sampled() {
    let (output, program) = run_sampled(&["own-handler"], 0);
    assert!(String::from_utf8_lossy(&output.stdout).contains("received 1, kept 1"));
    assert!(has_note(&program, Notes::WANTS_SIGNAL));
}

#[test]
fn a_filter_that_allows_the_handler_leaves_the_samples() {
    for kind in ["prctl", "syscall", "tsync"] {
        let (_, program) = run_sampled(&["filter", kind], 0);
        assert!(has_note(&program, Notes::FILTERED) && !has_note(&program, Notes::FORBIDDEN));
    }
}

#[test]
fn a_filter_that_would_kill_the_handler_ends_the_samples_and_not_the_program() {
    for kind in ["strict", "mode"] {
        let (_, program) = run(&["filter", kind]);
        assert!(has_note(&program, Notes::FORBIDDEN), "{kind}");
    }
}

#[test]
fn a_second_filter_for_all_threads_ends_the_samples_of_the_others_too() {
    let (_, program) = run(&["filter", "twice"]);
    assert!(has_note(&program, Notes::FILTERED) && has_note(&program, Notes::FORBIDDEN));
}

#[test]
fn asking_with_a_null_pointer_whether_filters_exist_changes_nothing() {
    let (_, program) = run_sampled(&["filter", "null"], 0);
    assert_eq!(program.header.notes, 0);
}

#[test]
fn a_thread_with_the_alternate_stack_of_rust_is_sampled() {
    let (_, program) = run_sampled(&["usual-stack"], 0);
    assert!(!has_note(&program, Notes::SMALL_STACK));
}

#[test]
fn a_thread_with_a_small_alternate_stack_gets_no_signal() {
    let (_, program) = run(&["small-stack"]);
    assert!(has_note(&program, Notes::SMALL_STACK));
    assert!(!is_sampled(&program, 0));
}
