//! Unusual panics of processes that die: payloads of any type, messages of any length, panics
//! within an entry.

use std::panic::panic_any;

use profiler_core::marker;
use test_support::own_process;

use crate::children::{begin_with_aborting_hook, ended};
use crate::markers::record_fragile;

#[test]
fn a_payload_that_is_no_text_is_named_like_the_standard_library_does() {
    own_process!();
    let ended = ended(|| {
        begin_with_aborting_hook();
        panic_any(42);
    });
    assert!(
        ended.verdict.ends_with(": Box<dyn Any>"),
        "{}",
        ended.verdict
    );
    assert_eq!(ended.panics()[0]["message"], "Box<dyn Any>");
}

#[test]
fn a_message_of_a_mebibyte_is_cut() {
    own_process!();
    let ended = ended(|| {
        begin_with_aborting_hook();
        panic!("{}", "ä".repeat(1 << 19));
    });
    let message = ended.panics()[0]["message"].as_str().unwrap();
    assert!(
        message.len() <= 4096 && message.ends_with("ä…"),
        "{}",
        message.len()
    );
    assert!(ended.verdict.ends_with("ää"), "{}", ended.verdict);
    let told = ended.verdict.matches('ä').count();
    assert_eq!(told, 128, "256 bytes");
}

#[test]
fn a_panic_within_an_entry_is_named() {
    own_process!();
    let ended = ended(|| {
        begin_with_aborting_hook();
        // A process without any entry is missing in the profile.
        marker!("up");
        record_fragile();
    });
    let told = ": within an entry";
    assert!(
        ended.has_aborted() && ended.verdict.ends_with(told),
        "{}",
        ended.verdict
    );
    assert_eq!(ended.panics().len(), 0, "the recorder was busy");
}
