//! Values whose code belongs to the program: it may panic, emit events, or never end.

use std::fmt;

use profiler_tracing::subscriber;
use recorded_session::{Phase, RunningSession, Value, dropped, markers, named};
use test_support::own_process;
use tracing::{info, info_span};

use crate::support::start_with;

fn start() -> RunningSession {
    start_with(subscriber())
}

struct Panics;

impl fmt::Debug for Panics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("half ")?;
        panic!("in Debug")
    }
}

struct Emits;

impl fmt::Debug for Emits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _span = info_span!("within", value = ?Self).entered();
        info!("an event within an event");
        f.write_str("emitted")
    }
}

struct Endless;

impl fmt::Debug for Endless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        loop {
            f.write_str("and so on ")?;
        }
    }
}

#[test]
fn a_debug_that_panics_ends_its_own_value_only() {
    own_process!();
    let _session = start();
    info!(before = 1, panics = ?Panics, after = 2, "still recorded");
    let seen = markers().pop().unwrap();
    assert_eq!(
        seen.field("panics"),
        Some("half (its Debug panicked)".into())
    );
    assert_eq!(seen.field("before"), Some(Value::I64(1)));
    assert_eq!(seen.field("after"), Some(Value::I64(2)));
    assert_eq!(dropped(), 0);
}

#[test]
fn what_a_debug_emits_is_dropped_and_counted() {
    own_process!();
    let _session = start();
    info!("the first event defines what is needed");
    info!(emits = ?Emits, "around");
    let seen = markers().pop().unwrap();
    assert_eq!(seen.field("emits"), Some("emitted".into()));
    assert!(named("within").is_empty());
    // A start, an event and an end.
    assert_eq!(dropped(), 3);
}

#[test]
fn a_long_text_is_cut() {
    own_process!();
    let _session = start();
    let text = "x".repeat(100_000);
    info!(endless = ?Endless, debugged = ?text, displayed = %text, text, "long");
    let seen = markers().pop().unwrap();
    for key in ["endless", "debugged", "displayed", "text"] {
        let Some(Value::Text(text)) = seen.field(key) else {
            panic!("{key} is no text")
        };
        assert!(
            text.ends_with('…') && text.len() < 1100,
            "{key}: {} bytes",
            text.len()
        );
    }
    assert_eq!(dropped(), 0);
}

#[test]
fn values_in_any_order_belong_to_their_fields() {
    own_process!();
    let _session = start();
    for round in 0..3 {
        let span = info_span!(
            "unordered",
            first = tracing::field::Empty,
            second = "kept",
            third = tracing::field::Empty
        );
        let metadata = span.metadata().unwrap();
        let fields = ["third", "first"].map(|name| metadata.fields().field(name).unwrap());
        let [third, first] = &fields;
        let values: [(&tracing::field::Field, Option<&dyn tracing::Value>); 2] =
            [(third, Some(&3_u64 as _)), (first, Some(&round as _))];
        span.record_all(&metadata.fields().value_set(&values));
    }
    let late: Vec<_> = named("unordered")
        .into_iter()
        .filter(|seen| seen.phase == Phase::Instant)
        .collect();
    assert_eq!(late.len(), 3);
    for (round, seen) in (0..).zip(&late) {
        assert_eq!(seen.field("first"), Some(Value::I64(round)));
        assert_eq!(seen.field("third"), Some(Value::U64(3)));
        assert_eq!(seen.field("second"), None);
    }
}
