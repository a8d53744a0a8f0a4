//! Figures: the cost of records with this crate's logger and with the program's own alone.
//!
//! ```text
//! cargo bench -p profiler-log
//! name<TAB>value<TAB>unit<TAB>promise
//! ```
//!
//! The first rows are the cost while no session runs, of a record that nobody wants. The peer is a
//! logger that formats each record, as every logger does that writes.

#[path = "cost/turns.rs"]
mod turns;

use std::fmt::Write;
use std::hint::black_box;

use log::{LevelFilter, Log, Metadata, Record, info};
use profiler_core::session::{self, SessionParams, StartOptions};
use profiler_log::{alone, around};

use crate::turns::Operations;

fn main() {
    turns::run(
        "log",
        &[
            ("disabled", disabled),
            ("inner_alone", inner_alone),
            ("disabled_around_inner", disabled_around_inner),
            ("profiler", profiler),
            ("profiler_around_inner", profiler_around_inner),
        ],
    );
}

/// Formats each record, and writes it nowhere.
struct Formatting;

impl Log for Formatting {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let mut line = String::with_capacity(256);
        let (level, target) = (record.level(), record.target());
        let _ = write!(line, "{level} {target} {}", record.args());
        black_box(line);
    }

    fn flush(&self) {}
}

fn start_session() {
    session::start(SessionParams::default(), StartOptions::default()).expect("a session");
}

fn disabled() -> Operations {
    alone().install(LevelFilter::Off).expect("it is the first");
    operations()
}

fn inner_alone() -> Operations {
    log::set_boxed_logger(Box::new(Formatting)).expect("it is the first");
    log::set_max_level(LevelFilter::Info);
    operations()
}

fn disabled_around_inner() -> Operations {
    let installed = around(Formatting).install(LevelFilter::Info);
    installed.expect("it is the first");
    operations()
}

fn profiler() -> Operations {
    alone().install(LevelFilter::Off).expect("it is the first");
    start_session();
    operations()
}

fn profiler_around_inner() -> Operations {
    let installed = around(Formatting).install(LevelFilter::Info);
    installed.expect("it is the first");
    start_session();
    operations()
}

fn operations() -> Operations {
    vec![
        ("constant", Box::new(|| info!("a constant message"))),
        (
            "formatted",
            Box::new(|| info!("read {} bytes", black_box(70_000_u64))),
        ),
        (
            "key_value",
            Box::new(|| info!(bytes = black_box(70_000_u64); "read")),
        ),
    ]
}
