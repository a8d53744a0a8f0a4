//! Tests of threads that end within an entry, a session or their destructors.

use super::super::join::join;
use super::super::writer::Waiting;
use super::*;
use crate::params::{Features, SessionParams};
use crate::session::{self, StartOptions};
use test_support::threads::on_thread;

#[test]
fn a_thread_that_ends_within_an_entry_is_not_waited_for() {
    let body = || {
        let recorder = make_recorder().unwrap();
        let is_listed = || {
            recorder_list::recorders()
                .iter()
                .any(|listed| Arc::ptr_eq(listed, &recorder))
        };
        assert!(is_listed());
        recorder.within_an_entry(give_up_recorder);
        assert!(
            !is_listed(),
            "every later stop waits for the end of this entry"
        );
    };
    on_thread(body);
}

#[test]
fn the_systems_thread_name_is_not_kept_outside_the_allocator() {
    let _alone = session::alone_in_tests();
    let params = SessionParams {
        features: Features::NO_SAMPLING,
        ..SessionParams::default()
    };
    session::start(params, StartOptions::default()).unwrap();
    let name_after = |is_in_allocator: bool| {
        let word = session_state::word();
        let epoch = session_state::epoch_of(word);
        let name = "the system's".to_owned();
        let mut waiting = Some(Waiting {
            epoch,
            name,
            is_named_by_system: true,
        });
        IN_ALLOCATOR.set(is_in_allocator);
        let home = join(&Recorder::new(sys::current_thread_id()), word, &mut waiting);
        IN_ALLOCATOR.set(false);
        home.ok()
            .and_then(|home| Some(home.row()?.shown_name()))
            .unwrap()
    };
    assert_eq!(name_after(true), "the system's");
    assert_ne!(name_after(false), "the system's");
    session::stop();
}
