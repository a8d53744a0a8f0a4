//! Crashes in places where little is possible: in the allocator, in the recorder, in a handler, and
//! in two threads at once.

use std::sync::Barrier;

use profiler_core::{label, marker};
use test_support::own_process;

use crate::children::{crashed, ran, stack};
use crate::ways::{crash, fall, wait_for_both};

#[test]
fn a_crash_in_the_allocator_waits_for_nothing() {
    own_process!();
    let ended = crashed(|| {}, || crash("allocator"));
    let crash = ended.crash();
    assert_eq!((crash.address.as_str(), ended.signal()), ("0x10", Some(11)));
    assert!(crash.has_function("alloc"), "{crash:?}");
}

#[test]
fn a_crash_within_an_entry_is_recorded_and_the_entry_is_unfinished() {
    own_process!();
    let ended = crashed(
        || {},
        || {
            marker!("before the crash");
            crash("recorder");
        },
    );
    let crash = ended.crash();
    assert_eq!(crash.address, "0x20");
    assert!(crash.has_function("crash_in_recorder"), "{crash:?}");
    assert!(ended.profile.to_string().contains("before the crash"));
}

#[test]
fn a_crash_in_a_handler_shows_the_handler() {
    own_process!();
    let ended = crashed(|| {}, || crash("handler"));
    let crash = ended.crash();
    assert_eq!(crash.address, "0x30");
    assert!(crash.has_function("on_signal"), "{crash:?}");
}

#[test]
fn two_threads_that_crash_at_once_are_recorded() {
    own_process!();
    if own_process::role().is_some() {
        wait_for_both();
    }
    let ended = ran(|| crash("two threads"));
    // Either may end the process first.
    assert!(
        [Some(4), Some(11)].contains(&ended.signal()),
        "{:?}",
        ended.status
    );
    let crashes = ended.crashes();
    assert_eq!(crashes.len(), 2, "{crashes:?}");
    assert!(ended.verdict.contains(": SIG"), "{}", ended.verdict);
}

#[test]
fn the_open_labels_of_all_threads_are_recorded() {
    own_process!();
    let ended = crashed(
        || {},
        || {
            let barrier = Barrier::new(2);
            std::thread::scope(|scope| {
                let other = std::thread::Builder::new().name("other".to_owned());
                let body = || {
                    marker!("begins");
                    let _label = label!("other work");
                    barrier.wait();
                    barrier.wait();
                };
                other.spawn_scoped(scope, body).unwrap();
                let _label = label!("own work");
                barrier.wait();
                fall(0x50);
            });
        },
    );
    assert!(ended.crash().has_function("own work"));
    let threads = ended.profile["threads"].as_array().unwrap();
    let other = threads.iter().find(|thread| thread["name"] == "other");
    let payloads = other.unwrap()["markers"]["data"].as_array().unwrap();
    let open = payloads
        .iter()
        .find(|data| data["cause"]["stack"].is_number());
    let labels = stack(&ended.profile, &open.unwrap()["cause"]["stack"]);
    assert_eq!(labels, ["other work"]);
}
