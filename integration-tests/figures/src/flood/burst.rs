//! How many entries of a burst are lost although the limit has room for all of them: processes
//! record at full speed, together less than a quarter of the limit.
//!
//! Bursts follow each other.

use anyhow::{Result, ensure};
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::profile::Profile;

use crate::workers;

const LIMIT: u64 = 128 << 20;

/// A session with bursts.
struct Bursts {
    /// The processes that are idle. They are there first.
    idle: usize,
    /// The processes of which each has a burst.
    bursting: usize,
    /// The markers of a burst; 400,000 are about 10 MB.
    markers: u64,
}

/// The first process has the whole burst; some have a burst each; the same in a larger session.
const SESSIONS: [Bursts; 3] = [
    Bursts {
        idle: 0,
        bursting: 1,
        markers: 1_200_000,
    },
    Bursts {
        idle: 0,
        bursting: 3,
        markers: 400_000,
    },
    Bursts {
        idle: 7,
        bursting: 3,
        markers: 400_000,
    },
];

/// `burst.lost_pct`: the largest share of entries that are not in the profile.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let mut lost: f64 = 0.0;
    for bursts in SESSIONS {
        lost = lost.max(lost_pct(&bursts)?);
    }
    report.put(Figure::new("burst.lost_pct", lost, "%").promised(Promise::AtMost(0.0)));
    Ok(())
}

fn lost_pct(bursts: &Bursts) -> Result<f64> {
    let session = workers::quiet_session(LIMIT)?;
    let idle = workers::start_all(&session, bursts.idle, "idle", "init", |_| 0)?;
    let markers = |_| bursts.markers;
    let bursting = workers::start_all(&session, bursts.bursting, "burst", "burst", markers)?;
    let place = tempfile::tempdir()?;
    let path = place.path().join("burst.json");
    session.capture().save(&path)?;
    let profile = Profile::read(&path)?;
    let mut delivered = 0;
    for number in 0..bursts.bursting {
        delivered += profile
            .process(&format!("burst {number}"))?
            .counts()?
            .delivered;
    }
    for mut worker in idle.into_iter().chain(bursting) {
        ensure!(worker.child.wait()?.success(), "a worker has failed");
    }
    let all = bursts.markers * bursts.bursting as u64;
    Ok(all.saturating_sub(delivered) as f64 * 100.0 / all as f64)
}
