//! The records of the crate `log`, in the profiles of the profiler.
//!
//! Called by applications, which install the logger of this crate around their own. The profiler's
//! sessions are those of `profiler-parent` and `profiler-child`; this crate starts none.
//!
//! ```
//! let logger = env_logger::Builder::new().parse_filters("warn").build();
//! let max_level = logger.filter();
//! profiler_log::around(logger).install(max_level)?;
//! log::info!(bytes = 4096; "read a file");
//! # Ok::<(), log::SetLoggerError>(())
//! ```
//!
//! # What is recorded
//! - A record is a marker. Its name is the target, its category the first segment of the target. It
//!   has the level, the message, the file and the line, and the module if it is not the target.
//! - Key-values are fields of their own. Numbers and booleans keep their types; other values are
//!   texts.
//! - With [`RecordingRules::stacks_from`], severe records have the stack of the call.
//!
//! Texts have at most 1 KiB, and longer ones end with "…"; targets, modules and files have at most
//! 256 bytes. Messages and values of key-values are removed from a profile that is shared without
//! personal data.
//!
//! # The level of `log`
//! While no session runs, the level of `log` is the one that the program has chosen, so a record
//! that is not wanted costs one load. A session raises it to the largest recorded level, by default
//! `Debug`, and the end of the session restores it. Meanwhile the program's own logger gets the
//! records up to the program's own level only. A program that changes its level while it runs calls
//! [`set_max_level`].
//!
//! # With `tracing`
//! Everything is in the profile once if the program has `profiler-tracing`, too:
//! - `tracing` makes records of its events with its features `log`, until the program has a
//!   subscriber, and `log-always`. [`RecordingRules::beside_tracing`] leaves them out.
//! - `LogTracer` of the crate `tracing-log` makes events of records. It is a logger, so a program
//!   has either this one or that of this crate. With `LogTracer`, `profiler-tracing` records the
//!   records. Around a `LogTracer`, the logger of this crate would record them again.
//!
//! # What is lost
//! The records that a `Display` makes while the profiler formats its value, if the program's own
//! logger does not get that value. They are counted in the profile, like every entry that is
//! dropped. Of a record with more than 16 key-values, the marker has the first ones and the number
//! of the others. Records of more than 1000 targets (with their keys) have one name, their target
//! in a field, and no key-values; the marker has their number. A `Display` that panics ends its own
//! text only: the panic hook runs, and the panic is caught. In a program that is compiled to abort
//! at a panic, it ends the program.
//!
//! # Limitations
//! - A `Display` that logs only when it is first called: the record that it makes is lost for both
//!   loggers if the profiler formats the message first.
//! - A record that a thread makes at the moment at which a session ends may reach the program's own
//!   logger though it is finer than the program's level.
//! - During a session the profiler calls `Display` for messages that the program's own logger
//!   refuses, and once more for the others. The caller may hold a lock at that time. A `Display` that
//!   takes the same lock then deadlocks.
//! - During a session, `log::max_level` and `log_enabled!` tell what the profiler or the program
//!   wants. A record that a caller passes to the logger without a look at the level reaches the
//!   program's own logger only if its level is at most the program's.
//! - If the program calls [`log::set_max_level`] at the very moment at which a session starts or
//!   stops, one of the two levels is lost: `log` has no atomic exchange.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod formatting;
mod levels;
mod logger;
mod record_schema;
mod recording;
mod rules;
mod sites;
mod values;

use log::Log;

pub use levels::set_max_level;
pub use logger::{NoLogger, ProfilerLogger};
pub use rules::RecordingRules;

/// A logger that records by the default rules, and passes everything on to `inner`.
pub fn around<L: Log>(inner: L) -> ProfilerLogger<L> {
    RecordingRules::default().around(inner)
}

/// A logger that records by the default rules, and does nothing else.
///
/// ```
/// profiler_log::alone().install(log::LevelFilter::Off)?;
/// # Ok::<(), log::SetLoggerError>(())
/// ```
pub fn alone() -> ProfilerLogger<NoLogger> {
    RecordingRules::default().alone()
}

/// The code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
