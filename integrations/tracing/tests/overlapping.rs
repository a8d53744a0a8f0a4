//! Spans of one name that overlap on one thread have their own ends in a profile.

use std::path::Path;

use profiler_parent::{Format, Session};
use profiler_tracing::subscriber;
use test_support::own_process;
use tracing::{Span, info_span};

use crate::saved_profile::SavedProfile;
use crate::support::on_a_thread;

/// The spans `number` 1, 2 and 3 of the name "request" begin one after the other. They end in the
/// order 1, 3, 2: the first on this thread, the third on another one.
fn overlap() {
    let [first, second, third] = [1, 2, 3].map(|number| info_span!("request", number));
    drop(first);
    on_a_thread(move || drop(third));
    drop(second);
}

fn check(profile: &Path, still_open: &str) {
    let profile = SavedProfile::read(profile);
    let mut spans = profile.named("request");
    spans.sort_by_key(|span| span.data["number"].as_u64());
    let times = spans
        .iter()
        .map(|span| (span.start.unwrap(), span.end.unwrap()));
    let [first, second, third] = times.collect::<Vec<_>>()[..] else {
        panic!("{spans:?}")
    };
    assert!(first.0 < second.0 && second.0 < third.0, "{spans:?}");
    assert!(
        third.0 < first.1 && first.1 < third.1 && third.1 < second.1,
        "{spans:?}"
    );
    let [open] = &profile.named(still_open)[..] else {
        panic!("{profile:?}")
    };
    assert!(open.start.is_some() && open.end.is_none(), "{open:?}");
}

#[test]
fn overlapping_spans_of_one_name_have_their_own_ends_in_both_formats() {
    own_process!();
    tracing::subscriber::set_global_default(subscriber()).unwrap();
    let session = Session::builder().start().unwrap();
    overlap();
    let open: Span = info_span!("still open");
    let directory = tempfile::tempdir().unwrap();
    let profile = directory.path().join("profile.json");
    for format in [Format::Processed, Format::Gecko] {
        session.capture().format(format).save(&profile).unwrap();
        check(&profile, "still open");
    }
    drop(open);
}
