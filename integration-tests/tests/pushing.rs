//! Sessions that push what real processes record, through endpoints that fail: every entry is in
//! the store once, or counted.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use integration_tests::clickhouse::Cluster;
use integration_tests::helper_process::HelperProcess;
use integration_tests::own_process;
use integration_tests::patience::{LONG, until};
use integration_tests::relay::{Fault, Outcome, Relay};
use integration_tests::session::{self, TestSession};
use integration_tests::tools;
use profiler_core::ids::ByteLimit;
use profiler_parent::Format;
use profiler_push::{DestinationReport, PushOptions, PushReport, Pusher};

use crate::pushing_support::{
    CHILD, MAIN, SPANS, accepted_marks, are_stored_once, batches, delivered_all, destination,
    entries_of, none_is_sent_after_its_answer, store, stored_marks,
};

const PERIOD: Duration = Duration::from_millis(300);
/// How long an endpoint may be silent.
const SILENCE: Duration = Duration::from_secs(15);

/// All ways to fail, each after a success.
const FAULTS: [Fault; 8] = [
    Fault::Reset,
    Fault::StoreAndBreakOff,
    Fault::Status(429),
    Fault::Status(503),
    Fault::Silence,
    Fault::StoreAndBreakOff,
    Fault::Reset,
    Fault::Refuse,
];

fn failed_requests(pusher: &Pusher) -> u64 {
    let report = pusher.report();
    let failed = report.destinations.iter().map(|each| each.failed_requests);
    failed.sum()
}

fn waits(pusher: &Pusher) -> bool {
    let report = pusher.report();
    report
        .destinations
        .iter()
        .any(|each| each.waiting_batches > 0)
}

/// Waits until several attempts were refused, and lets the endpoint come back.
fn outlast_refusals(relay: &Relay, pusher: &Pusher) -> anyhow::Result<()> {
    ensure!(until(|| relay.refuses()), "it does not refuse");
    let failed = failed_requests(pusher);
    let again = || failed_requests(pusher) > failed + 1;
    ensure!(until(again), "no further attempt: {:?}", pusher.report());
    relay.listen_again()
}

#[test]
fn x16_every_entry_is_stored_once_through_an_endpoint_that_fails_in_every_way() -> anyhow::Result<()>
{
    own_process!();
    let Some(cluster) = Cluster::start()? else {
        return Ok(());
    };
    let relay = Relay::start(Some(cluster.port()))?;
    let session = session::start(|builder| builder)?;
    let options = PushOptions::to(destination(&store(&relay))?);
    let options = options.period(PERIOD).request_timeout(SILENCE);
    let pusher = Pusher::start(&session, &options)?;
    let mut workers = HelperProcess::spawn_many(&session, CHILD, 4)?;
    let mut marks = [0_u64; 4];
    for fault in FAULTS {
        relay.fail(SPANS, &[fault]);
        for (worker, marks) in workers.iter_mut().zip(&mut marks) {
            worker.ask("mark 40")?;
            *marks += 40;
        }
        let has_failed = || relay.faults_left() == 0;
        ensure!(until(has_failed), "no request: {:?}", pusher.report());
        if fault == Fault::Refuse {
            outlast_refusals(&relay, &pusher)?;
        }
        if fault == Fault::Status(503) {
            let mut killed = workers.pop().context("no worker")?;
            killed.ask("hold 2 150")?;
            killed.child.kill()?;
            killed.child.wait()?;
        }
        // The batch whose request failed is waiting until it is sent.
        ensure!(
            until(|| !waits(&pusher)),
            "no success: {:?}",
            pusher.report()
        );
    }
    let report = pusher.finish(LONG);
    delivered_all(&report)?;
    let stored = stored_marks(&cluster)?;
    for (number, marks) in marks.into_iter().enumerate() {
        let name = format!("child-{number}");
        let own = stored.get(&name).with_context(|| format!("no {name}"))?;
        are_stored_once(own, MAIN, marks)?;
        let of_killed = if number == 3 { 150 } else { 0 };
        (0..2).try_for_each(|thread| are_stored_once(own, thread, of_killed))?;
    }
    none_is_sent_after_its_answer(&relay)?;
    let requests = relay.requests();
    let mut twice = requests
        .iter()
        .filter(|request| request.outcome == Outcome::StoredUnanswered);
    ensure!(
        twice.all(|first| requests
            .iter()
            .filter(|each| each.key() == first.key())
            .count()
            > 1),
        "what was stored without an answer was not sent again"
    );
    Ok(())
}

/// Checks that profiles in both formats, and what is said about them, have the losses of a pusher.
fn are_logged(session: &TestSession, lost: &DestinationReport) -> anyhow::Result<()> {
    for format in [Format::Processed, Format::Gecko] {
        let path = session.path("lost.json.gz");
        session.session()?.capture().format(format).save(&path)?;
        let info = tools::info(&path)?;
        let logged = &info["pushed"][0];
        let numbers = [
            (&logged["lost"]["batches"], lost.lost.batches),
            (&logged["lost"]["entries"], lost.lost.entries),
            (&logged["sent"]["batches"], lost.sent.batches),
            (&logged["rejected"]["batches"], lost.rejected.batches),
            (&logged["waiting_batches"], lost.waiting_batches),
        ];
        let are_equal = numbers.iter().all(|(logged, number)| **logged == *number);
        ensure!(
            are_equal && logged["address"] == lost.address,
            "{logged}, {lost:?}"
        );
        let said = tools::run(&[Path::new("info"), &path])?.out;
        let DestinationReport { address, lost, .. } = lost;
        let (batches, entries) = (lost.batches, lost.entries);
        for part in [
            format!("pushed 0 batches (0 entries) to {address}; "),
            format!("{batches} batches ({entries} entries) lost before they were sent"),
        ] {
            ensure!(said.contains(&part), "no {part:?}: {said}");
        }
    }
    Ok(())
}

#[test]
fn x17_a_full_spool_loses_the_oldest_batches_counts_them_and_stays_below_its_limit()
-> anyhow::Result<()> {
    own_process!();
    let mut session = session::start(|builder| builder)?;
    let spool = session.path("spool");
    let limit = 60_000;
    let options = |address: &str| -> anyhow::Result<PushOptions> {
        let options = PushOptions::to(destination(address)?).period(PERIOD);
        Ok(options.spool(&spool).spool_limit(ByteLimit::new(limit)))
    };
    // Nothing listens there.
    let pusher = Pusher::start(&session, &options("clickhouse+http://127.0.0.1:9/x")?)?;
    let mut worker = HelperProcess::spawn(&session, CHILD, "worker", "init")?;
    let mut marks = 0;
    let lost = |report: &PushReport| report.destinations.first().map_or(0, |to| to.lost.batches);
    while lost(&pusher.report()) < 3 {
        let before = pusher.report().captured_entries;
        worker.ask("mark 400")?;
        marks += 400;
        ensure!(until(|| pusher.report().captured_entries > before));
        let waiting = batches(&spool);
        let newest = waiting.last().map_or(0, |(_, bytes)| *bytes);
        let all: u64 = waiting.iter().map(|(_, bytes)| bytes).sum();
        // The newest batch is complete a moment before the oldest one is removed.
        ensure!(all <= limit + newest, "{waiting:?}");
    }
    let report = pusher.finish(Duration::ZERO);
    let to = report.destinations.first().context("no destination")?;
    let waiting = batches(&spool);
    ensure!(report.spool_bytes <= limit && to.waiting_batches == waiting.len() as u64);
    let entries = waiting.iter().map(|(path, _)| entries_of(path));
    let entries = entries.sum::<anyhow::Result<u64>>()?;
    ensure!(
        to.lost.entries + entries == report.captured_entries,
        "{report:?}, {waiting:?}"
    );
    ensure!(
        to.sent.batches + report.missed_entries == 0 && to.error.is_some(),
        "{report:?}"
    );

    are_logged(&session, to)?;
    let relay = Relay::start(None)?;
    let options = options(&format!("clickhouse+http://{}/x", relay.address()))?;
    session.end();
    let next = session::start(|builder| builder)?;
    let report = Pusher::start(&next, &options)?.finish(LONG);
    let to = report.destinations.first().context("no destination")?;
    ensure!(to.waiting_batches + to.rejected.batches == 0, "{report:?}");
    let accepted = accepted_marks(&relay, "worker")?;
    let first = accepted.first().context("nothing waited")?.1;
    ensure!(first > 0, "nothing was lost");
    let rest: Vec<_> = (first..marks).map(|number| (MAIN, number)).collect();
    ensure!(accepted == rest, "from {first} to {marks}: {accepted:?}");
    Ok(())
}
