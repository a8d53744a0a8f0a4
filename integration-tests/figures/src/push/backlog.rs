//! The growth of memory with one gigabyte of batches in the spool: while the endpoint is dead, and
//! while they are sent.
//!
//! The batches are links to one profile, so they take little space. `FIGURES_BACKLOG_MIB` makes the
//! backlog smaller, and the figure's name then states its size.

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::measure::PeakMemory;
use integration_tests::patience::until;
use profiler_core::ids::ByteLimit;
use profiler_core::internal::manager::is_maintenance_idle;
use profiler_core::marker::{MarkerOptions, category};
use profiler_core::text_marker;
use profiler_parent::Session;
use profiler_parent::core::session::Features;
use profiler_push::{PushDestination, PushOptions};

use super::sink::Sink;
use crate::faults::at_length;
use crate::workers;

const MIB: u64 = 1024;
/// Entries of the batch.
const ENTRIES: u64 = 100_000;
/// How long sending may take.
const DRAIN: Duration = Duration::from_secs(3600);

pub(super) fn measure(report: &mut Report) -> Result<()> {
    let mib = at_length("FIGURES_BACKLOG_MIB", MIB);
    let directory = tempfile::tempdir()?;
    let batch = directory.path().join("batch.json.gz");
    record(&batch)?;
    let spool = directory.path().join("spool");
    let home = spool.join("0123456789abcdef0123456789abcdef");
    fs::create_dir_all(&home)?;
    let bytes = fs::metadata(&batch)?.len();
    let batches = (mib << 20).div_ceil(bytes);
    for number in 0..batches {
        let name = format!("{number:010}-{ENTRIES}.json.gz");
        fs::hard_link(&batch, home.join(name))?;
    }
    let session = Session::builder().features(Features::NONE).start()?;
    let options = |address: &str| -> Result<PushOptions> {
        let to = PushDestination::parse(&format!("clickhouse+http://{address}/fleet"))?;
        let options = PushOptions::to(to).spool(&spool);
        Ok(options.spool_limit(ByteLimit::new((mib + 64) << 20)))
    };
    let memory = PeakMemory::begin()?;
    let nothing = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
    let pusher = profiler_push::Pusher::start(&session, &options(&nothing)?)?;
    let failed = || {
        pusher
            .report()
            .destinations
            .iter()
            .any(|to| to.failed_requests > 2)
    };
    ensure!(until(failed), "no attempt: {:?}", pusher.report());
    ensure!(
        pusher.report().spool_bytes >= mib << 20,
        "{:?}",
        pusher.report()
    );
    drop(pusher.finish(Duration::ZERO));
    let sink = Sink::start()?;
    let pushed = profiler_push::Pusher::start(&session, &options(&sink.address)?)?.finish(DRAIN);
    let growth = memory.growth_mib()?;
    let to = pushed.destinations.first().context("no destination")?;
    ensure!(to.waiting_batches == 0, "not sent in time: {pushed:?}");
    ensure!(
        to.sent.batches >= batches && to.rejected.batches == 0,
        "{pushed:?}"
    );
    let name = match mib {
        MIB => "push.backlog_rss_mib".to_owned(),
        less => format!("push.backlog_rss_mib.{less}_mib"),
    };
    report.put(Figure::new(name, growth, "MiB").promised(Promise::AtMost(256.0)));
    Ok(())
}

/// Records a profile of many different texts.
fn record(path: &std::path::Path) -> Result<()> {
    let session = workers::quiet_session(256 << 20)?;
    for number in 0..ENTRIES {
        let text = format!(
            "request {:x} of {number}",
            number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        );
        text_marker!("request", &category::TEST, MarkerOptions::default(), &text);
        if number % 50 == 0 {
            ensure!(
                until(|| is_maintenance_idle() != Some(false)),
                "it is not idle"
            );
        }
    }
    session.capture().save(path)?;
    Ok(())
}
