//! Code of the program that runs while a record is formatted: it may panic, log, or never end.

use std::cell::Cell;
use std::fmt;

use log::kv::{self, VisitSource};
use log::{LevelFilter, Record, debug, info};
use recorded_session::{RunningSession, Value, dropped, markers};
use test_support::own_process;

use crate::support::{Noting, messages, start_alone};

struct Panics;

impl fmt::Display for Panics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("half ")?;
        panic!("in Display")
    }
}

/// Logs, and counts how often it was formatted.
#[derive(Default)]
struct Logs(Cell<u32>);

impl fmt::Display for Logs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.set(self.0.get() + 1);
        info!("within");
        f.write_str("outer")
    }
}

struct Endless;

impl fmt::Display for Endless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        loop {
            f.write_str("and so on ")?;
        }
    }
}

#[test]
fn a_display_that_panics_ends_its_own_text_only() {
    own_process!();
    let _session = start_alone();
    info!(before = 1, panics:% = Panics, after = 2; "{Panics}");
    let seen = markers().pop().unwrap();
    let half = || Some("half (its Display panicked)".into());
    assert_eq!(
        [seen.field("message"), seen.field("panics")],
        [half(), half()]
    );
    assert_eq!(seen.field("before"), Some(Value::I64(1)));
    assert_eq!(seen.field("after"), Some(Value::I64(2)));
    assert_eq!(dropped(), 0);
}

#[test]
fn what_a_display_logs_reaches_the_inner_logger_once_and_is_recorded() {
    own_process!();
    let noting = Noting::installed(LevelFilter::Info, LevelFilter::Info);
    let _session = RunningSession::start();
    info!("first");
    noting.take();
    let logs = Logs::default();
    info!("{logs}");
    assert_eq!(noting.take(), ["INFO within", "INFO outer"]);
    assert_eq!(logs.0.get(), 2, "for the profiler and for the program");
    assert_eq!(messages(), ["first", "outer", "within"]);
    assert_eq!(dropped(), 0);
}

#[test]
fn what_a_display_logs_for_the_profiler_alone_is_dropped_and_counted() {
    own_process!();
    let noting = Noting::installed(LevelFilter::Info, LevelFilter::Info);
    let _session = RunningSession::start();
    info!("first");
    noting.take();
    debug!("{}", Logs::default());
    assert!(
        noting.take().is_empty(),
        "without the profiler nothing runs"
    );
    assert_eq!(messages(), ["first", "outer"]);
    assert_eq!(dropped(), 1);
}

#[test]
fn a_long_text_is_cut() {
    own_process!();
    let _session = start_alone();
    let text = "x".repeat(100_000);
    info!(endless:% = Endless, text; "{text}");
    let target = "t".repeat(2000);
    info!(target: &target, "short");
    let seen = markers();
    for key in ["endless", "text", "message"] {
        let Some(Value::Text(text)) = seen[0].field(key) else {
            panic!("{key} is no text")
        };
        assert!(text.ends_with('…') && text.len() < 1100, "{key}");
    }
    assert_eq!(dropped(), 0);
}

/// A source that panics after its first key-value, and yields other keys each time.
struct Unsteady(Cell<u32>);

impl kv::Source for Unsteady {
    fn visit<'kvs>(&'kvs self, visitor: &mut dyn VisitSource<'kvs>) -> Result<(), kv::Error> {
        self.0.set(self.0.get() + 1);
        let first = if self.0.get().is_multiple_of(2) {
            "even"
        } else {
            "odd"
        };
        visitor.visit_pair(kv::Key::from_str(first), kv::Value::from(self.0.get()))?;
        panic!("in a source")
    }
}

#[test]
fn a_source_that_panics_and_changes_leaves_values_without_a_key_out() {
    own_process!();
    let _session = start_alone();
    let source = Unsteady(Cell::new(0));
    let record = Record::builder()
        .args(format_args!("kept"))
        .key_values(&source)
        .build();
    (0..4).for_each(|_| log::logger().log(&record));
    assert_eq!(messages(), ["kept"; 4]);
    assert_eq!(dropped(), 0);
}
