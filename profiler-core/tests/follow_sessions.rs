//! Test of a follower of a pool that is used by successive sessions, as in a child.

use profiler_core::internal::entry::{Entry, MarkerEntry};
use profiler_core::internal::reader::{Followed, Follower, Progress};
use profiler_core::marker;
use profiler_core::session::{self, Features, SessionParams, StartOptions};
use test_support::own_process;

use crate::support;

fn start(interval_ns: u64) {
    let params = SessionParams {
        interval_ns,
        features: Features::NONE,
        ..SessionParams::default()
    };
    session::start(params, StartOptions::default()).unwrap();
}

/// The names of the markers that an advance delivers, and its progress.
fn names(follower: &mut Follower<std::fs::File>) -> (Vec<String>, Progress) {
    let mut names = Vec::new();
    let take = |found: &Followed<'_>| {
        let Entry::Marker(MarkerEntry { site, .. }) = found.entry else {
            return;
        };
        names.push(found.definitions.site(site).unwrap().name.clone());
    };
    let progress = follower.advance(take).unwrap();
    (names, progress)
}

/// Makes a pool that successive sessions use.
fn attach() {
    let spec = support::pool_spec(&SessionParams::default());
    session::attach(spec.create_pool().unwrap()).unwrap();
}

#[test]
fn entries_that_were_put_off_are_not_delivered_in_the_next_session() {
    own_process!();
    attach();
    start(1_000_000);
    (0..1000).for_each(|_| marker!("before"));
    let mut follower = Follower::open_newest_first(session::pool_file().unwrap()).unwrap();
    assert!(names(&mut follower).1.entries < 1000);
    assert!(follower.older_until().is_some(), "nothing was put off");
    start(2_000_000);
    marker!("second");
    assert_eq!(names(&mut follower).0, ["second"]);
    let older = follower.advance_backward(|_| panic!("of an earlier session"));
    assert_eq!(older.unwrap(), None);
    session::stop();
}

#[test]
fn unread_entries_of_an_earlier_session_are_neither_delivered_nor_missed_in_the_next() {
    own_process!();
    attach();
    start(1_000_000);
    marker!("first");
    let mut follower = Follower::open(session::pool_file().unwrap()).unwrap();
    assert_eq!(names(&mut follower).0, ["first"]);
    marker!("unread");
    start(2_000_000);
    marker!("second");
    for expected in [&["second"][..], &[], &[]] {
        let (names, progress) = names(&mut follower);
        assert_eq!(
            (names, progress.missed),
            (expected.iter().map(|name| (*name).to_owned()).collect(), 0)
        );
    }
    marker!("third");
    assert_eq!(names(&mut follower).0, ["third"]);
    session::stop();
}
