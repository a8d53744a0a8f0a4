//! Whether entries are lost or doubled between a session and two servers, through an endpoint that
//! fails again and again.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use integration_tests::clickhouse::{Cluster, DATABASE};
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::marks;
use integration_tests::patience::LONG;
use integration_tests::relay::{Fault, Relay};
use profiler_parent::Session;
use profiler_parent::core::session::Features;
use profiler_push::{PushDestination, PushOptions};

const ROUNDS: u64 = 40;
/// Rounds from one fault to the next.
const EVERY: u64 = 8;
/// Entries of each round.
const ENTRIES: u64 = 500;
const FAULTS: [Fault; 4] = [
    Fault::Reset,
    Fault::StoreAndBreakOff,
    Fault::Status(503),
    Fault::Status(429),
];

pub(super) fn measure(report: &mut Report) -> Result<()> {
    let Some(cluster) = Cluster::start()? else {
        for name in ["push.lost", "push.doubled"] {
            let why = Some("no clickhouse-server".to_owned());
            report.put(Figure::new(name, 0.0, "entries").or_left_out(why));
        }
        return Ok(());
    };
    let relay = Relay::start(Some(cluster.port()))?;
    let session = Session::builder().features(Features::NONE).start()?;
    let address = format!("clickhouse+http://{}/{DATABASE}", relay.address());
    let options = PushOptions::to(PushDestination::parse(&address)?);
    let pusher =
        profiler_push::Pusher::start(&session, &options.period(Duration::from_millis(200)))?;
    for round in 0..ROUNDS {
        // A body that fails once is accepted before the next fault.
        if round % EVERY == 0 {
            let fault = FAULTS.get((round / EVERY) as usize % FAULTS.len());
            relay.fail("", &fault.copied().into_iter().collect::<Vec<_>>());
        }
        marks::record_paced(1, round * ENTRIES..(round + 1) * ENTRIES);
        std::thread::sleep(Duration::from_millis(250));
    }
    let pushed = pusher.finish(LONG);
    let to = pushed.destinations.first().context("no destination")?;
    ensure!(
        to.failed_requests > 0 && to.waiting_batches == 0,
        "{pushed:?}"
    );
    let count = |what: &str| -> Result<f64> {
        let of = "FROM profiler_spans FINAL WHERE kind = 'Numbered'";
        let answer = cluster.execute(&format!("SELECT {what} {of}"))?;
        Ok(answer.trim().parse()?)
    };
    let all = count("count()")?;
    let distinct = count("uniqExact(field.value)")?;
    let recorded = (ROUNDS * ENTRIES) as f64;
    for (name, entries) in [
        ("push.lost", recorded - distinct),
        ("push.doubled", all - distinct),
    ] {
        report.put(Figure::new(name, entries, "entries").promised(Promise::AtMost(0.0)));
    }
    Ok(())
}
