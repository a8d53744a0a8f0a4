//! Kills 1,000 children at random moments, and checks that no committed entry is lost, torn or
//! found twice.

use integration_tests::kills::{self, rng::Rng};

use integration_tests::figure::{Figure, Promise, Report};

const KILLS: u64 = 1000;

pub(super) fn measure(report: &mut Report) -> anyhow::Result<()> {
    let tally = kills::run(&std::env::current_exe()?, KILLS, Rng::seed(), |_| {})?;
    let broken = tally
        .complaints
        .first()
        .map(|first| format!("{} broken: {first}", tally.broken));
    report.put(Figure::new("faults.kills", tally.kills as f64, "kills").unless(broken));
    let nothing = [
        ("faults.committed_lost", tally.committed_lost),
        ("faults.torn", tally.torn),
        ("faults.duplicates", tally.duplicates),
    ];
    for (name, count) in nothing {
        report.put(Figure::new(name, count as f64, "entries").promised(Promise::AtMost(0.0)));
    }
    Ok(())
}
