//! The spans of a process that is killed.

use std::path::PathBuf;

use profiler_tracing::subscriber;
use recorded_session::{KilledChild, wait_to_be_killed};
use test_support::own_process;
use tracing::info_span;

use crate::saved_profile::SavedProfile;

/// The child: opens a span, and waits inside it until it is killed.
fn open_span_and_wait(ready: PathBuf) -> ! {
    profiler_child::init();
    tracing::subscriber::set_global_default(subscriber()).unwrap();
    drop(info_span!("closed").entered());
    let _open = info_span!("open request", path = "/the/path", bytes = 4711).entered();
    wait_to_be_killed(ready)
}

#[test]
fn an_open_span_of_a_killed_process_is_in_the_profile_with_its_fields() {
    own_process!();
    let killed = KilledChild::of_this_test(open_span_and_wait);
    let profile = SavedProfile::read(&killed.capture());
    let [open] = &profile.named("open request")[..] else {
        panic!("{profile:?}")
    };
    assert_eq!(open.process, "killed");
    assert!(open.start.is_some() && open.end.is_none(), "{open:?}");
    assert_eq!(open.data["path"], "/the/path");
    assert_eq!(open.data["bytes"], 4711);
    let [closed] = &profile.named("closed")[..] else {
        panic!("{profile:?}")
    };
    assert!(closed.start.is_some() && closed.end.is_some(), "{closed:?}");
}
