//! Tests of waiting time, with a program that measures its own waits: the weights of a thread's
//! samples add up to its life, and each function has its share.
//!
//! The bounds are wide: a busy machine disturbs the program's own measurements. `figures --
//! known_waits` measures what is promised.

use anyhow::ensure;
use integration_tests::known_waits::KnownWaits;
use integration_tests::own_process;

/// Records short waits, several times if the machine disturbs the program.
fn check(mode: &str, records_itself: bool) -> anyhow::Result<()> {
    let mut last = None;
    for _ in 0..5 {
        let waits = KnownWaits::record(mode, 4.0, 3.0, records_itself)?;
        let (ratio, error) = (waits.total_ratio(), waits.share_error_pct());
        if (0.95..1.05).contains(&ratio) && error < 10.0 {
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
    check("pipe", false)?;
    check("mixed", false)
}

#[test]
fn weights_of_a_program_that_records_itself_match_its_measured_times() -> anyhow::Result<()> {
    own_process!();
    check("pipe", true)?;
    check("mixed", true)
}
