//! Tests of waiting time, with a program that measures its own waits: the weights of a thread's
//! samples add up to its life, and each function has its share.
//!
//! The bounds are wide: a busy machine disturbs the program's own measurements. `figures --
//! known_waits` measures what is promised.

use anyhow::ensure;
use integration_tests::known_waits::KnownWaits;
use integration_tests::own_process;

/// Records waits of about `pause_ms`, several times if the machine disturbs the program. No share
/// may differ by more than `most` points.
fn check(mode: &str, pause_ms: f64, records_itself: bool, most: f64) -> anyhow::Result<()> {
    let mut last = None;
    for _ in 0..5 {
        let waits = KnownWaits::record(mode, 4.0, pause_ms, records_itself)?;
        let (ratio, error) = (waits.total_ratio(), waits.share_error_pct());
        if (0.95..1.05).contains(&ratio) && error < most {
            return Ok(());
        }
        last = Some((ratio, error, waits));
    }
    ensure!(last.is_none(), "{last:#?}");
    Ok(())
}

#[test]
fn weights_of_an_observed_program_match_its_measured_times() -> anyhow::Result<()> {
    own_process!();
    check("pipe", 3.0, false, 10.0)?;
    check("mixed", 3.0, false, 10.0)
}

#[test]
fn weights_of_a_program_that_records_itself_match_its_measured_times() -> anyhow::Result<()> {
    own_process!();
    check("pipe", 3.0, true, 10.0)?;
    check("mixed", 3.0, true, 10.0)
}

#[test]
fn waits_as_long_as_the_time_between_looks_have_their_shares() -> anyhow::Result<()> {
    own_process!();
    check("pipe", 30.0, false, 20.0)?;
    check("pipe", 30.0, true, 20.0)
}
