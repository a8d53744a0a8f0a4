//! More call sites than the profiler has room for.

use std::sync::OnceLock;

use profiler_tracing::subscriber;
use recorded_session::{Phase, dropped, markers, wait_for_room};
use test_support::own_process;
use tracing::callsite::{Callsite, Identifier};
use tracing::field::FieldSet;
use tracing::metadata::Kind;
use tracing::subscriber::Interest;
use tracing::{Level, Metadata, Span};

use crate::support::start_with;

/// Call sites with room, as the documentation of the crate says.
const MAX: u64 = 8191;
const MORE: u64 = 10;

/// A call site that is made at run time.
#[derive(Default)]
struct MadeSite(OnceLock<Metadata<'static>>);

impl Callsite for MadeSite {
    fn set_interest(&self, _: Interest) {}
    fn metadata(&self) -> &Metadata<'_> {
        self.0.get().unwrap()
    }
}

/// A span of a call site of its own.
fn span_of_new_site() -> Span {
    let site: &'static MadeSite = Box::leak(Box::default());
    let metadata = site.0.get_or_init(|| {
        let fields = FieldSet::new(&[], Identifier(site));
        Metadata::new(
            "made",
            "many_sites",
            Level::INFO,
            None,
            None,
            None,
            fields,
            Kind::SPAN,
        )
    });
    tracing::callsite::register(site);
    Span::new(metadata, &metadata.fields().value_set(&[]))
}

#[test]
fn spans_of_call_sites_without_room_are_counted_and_the_others_are_recorded() {
    own_process!();
    let _session = start_with(subscriber());
    for span in 0..MAX + MORE {
        if span % 512 == 0 {
            wait_for_room();
        }
        span_of_new_site().in_scope(|| ());
    }
    let all = markers();
    let count = |phase| {
        let made = all.iter().filter(|seen| seen.name == "made");
        made.filter(|seen| seen.phase == phase).count() as u64
    };
    // Some call sites of other crates have room, too.
    let recorded = count(Phase::Start);
    assert!((MAX - 100..=MAX).contains(&recorded), "{recorded}");
    assert_eq!(count(Phase::End), recorded);
    let lost = MAX + MORE - recorded;
    assert_eq!(dropped(), 2 * lost, "the start and the end of each");
}
