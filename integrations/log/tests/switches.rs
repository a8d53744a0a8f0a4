//! The level of `log` follows the sessions, and the program has the last word.

use log::{Level, LevelFilter, debug, log_enabled, trace};
use profiler_log::{RecordingRules, alone};
use recorded_session::RunningSession;
use test_support::own_process;
use test_support::patience::until;

use crate::support::{Noting, messages};

fn is_level(level: LevelFilter) -> bool {
    until(|| log::max_level() == level)
}

#[test]
fn a_session_raises_the_level_and_its_end_restores_it() {
    own_process!();
    Noting::installed(LevelFilter::Warn, LevelFilter::Warn);
    for _ in 0..3 {
        assert_eq!(log::max_level(), LevelFilter::Warn);
        let session = RunningSession::start();
        assert!(is_level(LevelFilter::Debug));
        debug!("in a session");
        assert_eq!(messages(), ["in a session"]);
        drop(session);
        assert!(is_level(LevelFilter::Warn));
    }
}

#[test]
fn a_level_finer_than_the_recorded_one_is_never_lowered() {
    own_process!();
    let noting = Noting::up_to(LevelFilter::Trace);
    let rules = RecordingRules::default().max_level(LevelFilter::Info);
    rules
        .around(noting.clone())
        .install(LevelFilter::Trace)
        .unwrap();
    let session = RunningSession::start();
    assert_eq!(log::max_level(), LevelFilter::Trace);
    trace!("for the program");
    assert_eq!(noting.take(), ["TRACE for the program"]);
    assert!(messages().is_empty());
    drop(session);
    assert!(is_level(LevelFilter::Trace));
}

#[test]
fn a_level_that_the_program_sets_during_a_session_stays() {
    own_process!();
    let noting = Noting::installed(LevelFilter::Trace, LevelFilter::Warn);
    let session = RunningSession::start();
    assert!(is_level(LevelFilter::Debug));
    log::set_max_level(LevelFilter::Trace);
    trace!("the program's own");
    assert_eq!(noting.take(), ["TRACE the program's own"]);
    drop(session);
    let session = RunningSession::start();
    drop(session);
    let again = RunningSession::start();
    assert!(is_level(LevelFilter::Trace));
    log::set_max_level(LevelFilter::Error);
    drop(again);
    let last = RunningSession::start();
    assert!(
        is_level(LevelFilter::Debug),
        "raised from the program's own"
    );
    drop(last);
    assert!(is_level(LevelFilter::Error));
}

#[test]
fn a_level_that_is_set_through_this_crate_applies_to_the_inner_logger_at_once() {
    own_process!();
    let noting = Noting::installed(LevelFilter::Trace, LevelFilter::Warn);
    let session = RunningSession::start();
    assert!(is_level(LevelFilter::Debug));
    // The level that the session has set: `log::set_max_level` would change nothing.
    profiler_log::set_max_level(LevelFilter::Debug);
    debug!("now for both");
    assert_eq!(noting.take(), ["DEBUG now for both"]);
    profiler_log::set_max_level(LevelFilter::Off);
    debug!("for the profiler");
    assert!(noting.take().is_empty());
    assert_eq!(messages(), ["now for both", "for the profiler"]);
    drop(session);
    assert!(is_level(LevelFilter::Off));
}

#[test]
fn a_logger_that_is_installed_during_a_session_records_at_once() {
    own_process!();
    let session = RunningSession::start();
    alone().install(LevelFilter::Off).unwrap();
    assert!(log_enabled!(Level::Debug));
    debug!("recorded");
    assert_eq!(messages(), ["recorded"]);
    drop(session);
    assert!(is_level(LevelFilter::Off));
}

#[test]
fn levels_that_threads_set_at_switches_are_not_lost() {
    own_process!();
    alone().install(LevelFilter::Off).unwrap();
    for _ in 0..50 {
        let session = RunningSession::start();
        std::thread::scope(|scope| {
            for level in [LevelFilter::Warn, LevelFilter::Trace] {
                scope.spawn(move || profiler_log::set_max_level(level));
            }
            drop(session);
        });
        profiler_log::set_max_level(LevelFilter::Info);
        assert!(is_level(LevelFilter::Info));
    }
}
