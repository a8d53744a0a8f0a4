//! Counts requests of the live page that fail while slow clients hold connections.
//!
//! Eighty clients without the token hold connections: some send nothing, some send one byte at a
//! time, and some send a head without an end. Each connects again when its connection is closed.
//! Meanwhile a client with the token sends requests, each on a new connection.

use anyhow::Result;
use integration_tests::page;
use integration_tests::slow_clients::SlowClients;
use profiler_parent::Session;
use profiler_parent::core::session::Features;

use integration_tests::figure::{Figure, Promise, Report};

const SLOW: usize = 80;
const REQUESTS: usize = 200;

pub(super) fn measure(report: &mut Report) -> Result<()> {
    let session = Session::builder().features(Features::NONE).start()?;
    let live = session.serve_live(([127, 0, 0, 1], 0).into())?;
    let _slow = SlowClients::connect(live.address(), SLOW)?;
    let paths = ["", "live.json", "session.json", "live.js"]
        .into_iter()
        .cycle()
        .take(REQUESTS);
    let lost = paths
        .filter(|path| page::ask(&live, "GET", path).is_err())
        .count();
    let name = "host.live_requests_lost_beside_80_slow_clients";
    let figure = Figure::new(name, lost as f64, "requests");
    report.put(figure.promised(Promise::AtMost(0.0)));
    Ok(())
}
