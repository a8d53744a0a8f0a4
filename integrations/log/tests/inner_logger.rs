//! The program's own logger gets what it would get without the profiler.

use log::{Level, LevelFilter, Log, MetadataBuilder, debug, error, info, log_enabled, trace};
use profiler_log::{ProfilerLogger, around};
use recorded_session::{RunningSession, dropped};
use test_support::own_process;

use crate::support::{Noting, messages};

/// Records and questions of all levels, through the macros.
fn scenario() {
    error!("an error");
    info!(target: "other", number = 3; "some {}", "information");
    debug!("details");
    trace!("more details");
    let _ = log_enabled!(Level::Debug);
    let _ = log_enabled!(target: "other", Level::Info);
    log::logger().flush();
}

#[test]
fn the_inner_logger_gets_the_same_calls_as_without_the_profiler() {
    own_process!();
    // The filter of the logger and the level of `log` may differ.
    for (filter, level) in [
        (LevelFilter::Info, LevelFilter::Info),
        (LevelFilter::Warn, LevelFilter::Debug),
        (LevelFilter::Trace, LevelFilter::Error),
        (LevelFilter::Info, LevelFilter::Off),
    ] {
        let noting = Noting::up_to(filter);
        let alone = calls_alone(&noting, level);
        // The first one is installed; the others get the calls through it.
        let logger = around(Noting::up_to(LevelFilter::Off));
        let _ = logger.install(LevelFilter::Off);
        let wrapped = around(noting.clone());
        profiler_log::set_max_level(level);
        assert_eq!(calls_through(&wrapped, &noting), alone, "{filter} {level}");
        let session = RunningSession::start();
        assert_eq!(log::max_level(), level.max(LevelFilter::Debug));
        assert_eq!(calls_through(&wrapped, &noting), alone, "{filter} {level}");
        drop(session);
        assert!(test_support::patience::until(|| log::max_level() == level));
        assert_eq!(calls_through(&wrapped, &noting), alone, "{filter} {level}");
    }
}

/// The calls that the macros make with this level and no profiler.
fn calls_alone(noting: &Noting, level: LevelFilter) -> Vec<String> {
    let is_on = |record: Level| record <= level;
    with_macros(noting, is_on);
    noting.take()
}

fn calls_through(logger: &ProfilerLogger<Noting>, noting: &Noting) -> Vec<String> {
    with_macros(logger, |level| level <= log::max_level());
    noting.take()
}

/// What the macros of `log` do, with a logger of the test's choice.
fn with_macros(logger: &dyn Log, is_on: impl Fn(Level) -> bool) {
    for level in Level::iter() {
        let metadata = MetadataBuilder::new().level(level).target("t").build();
        if is_on(level) {
            let text = format_args!("a record of {level}");
            let record = log::Record::builder()
                .metadata(metadata.clone())
                .args(text)
                .build();
            logger.log(&record);
        }
        let _ = is_on(level) && logger.enabled(&metadata);
    }
    logger.flush();
}

#[test]
fn the_installed_logger_passes_on_what_the_macros_make() {
    own_process!();
    let noting = Noting::installed(LevelFilter::Info, LevelFilter::Info);
    scenario();
    let alone = noting.take();
    assert_eq!(alone[..2], ["ERROR an error", "INFO some information"]);
    let session = RunningSession::start();
    scenario();
    assert_eq!(noting.take(), alone);
    assert!(log_enabled!(Level::Debug), "the profiler wants it");
    assert_eq!(messages(), ["an error", "some information", "details"]);
    assert_eq!(dropped(), 0);
    drop(session);
}

#[test]
fn a_second_logger_is_refused() {
    own_process!();
    Noting::installed(LevelFilter::Info, LevelFilter::Info);
    assert!(profiler_log::alone().install(LevelFilter::Off).is_err());
    assert_eq!(log::max_level(), LevelFilter::Info);
}
