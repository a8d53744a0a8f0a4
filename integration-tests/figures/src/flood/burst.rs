//! How many entries of a burst are lost although the limit has room for all of them: a new process
//! records 400,000 markers at full speed, in a session of up to ten processes.
//!
//! Bursts follow each other, and are together below a quarter of the limit.

use anyhow::{Result, ensure};
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::profile::Profile;

use crate::workers;

const LIMIT: u64 = 128 << 20;
/// The processes of which each has a burst.
const BURSTING: usize = 3;
/// The processes that are idle.
const IDLE: usize = 7;
/// The markers of a burst; about 10 MB.
const MARKERS: u64 = 400_000;

/// `burst.lost_pct`: the share of entries that are not in the profile.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let session = workers::quiet_session(LIMIT)?;
    let idle = workers::start_all(&session, IDLE, "idle", "init", |_| 0)?;
    let bursting = workers::start_all(&session, BURSTING, "burst", "burst", |_| MARKERS)?;
    let place = tempfile::tempdir()?;
    let path = place.path().join("burst.json");
    session.capture().save(&path)?;
    let profile = Profile::read(&path)?;
    let mut delivered = 0;
    for number in 0..BURSTING {
        delivered += profile
            .process(&format!("burst {number}"))?
            .counts()?
            .delivered;
    }
    for mut worker in idle.into_iter().chain(bursting) {
        ensure!(worker.child.wait()?.success(), "a worker has failed");
    }
    let all = MARKERS * BURSTING as u64;
    let lost = all.saturating_sub(delivered) as f64 * 100.0 / all as f64;
    report.put(Figure::new("burst.lost_pct", lost, "%").promised(Promise::AtMost(0.0)));
    Ok(())
}
