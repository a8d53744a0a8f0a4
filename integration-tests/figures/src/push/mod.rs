//! Group `push`: what a pusher costs the parent, whether entries are lost or doubled on their way,
//! and the memory for a long backlog.
//!
//! The session has 200 processes and 1,000 groups, which are measured, and pushes every ten seconds
//! to an endpoint in another process that accepts everything. The processor time is that of the
//! whole parent, with the captures, less that of the same session without a pusher: the difference
//! of the medians of many periods, because the rest of the parent uses several times as much. The
//! figures about two shards are in the group `fleet`. `FIGURES_PUSH_ROUNDS` sets the number of
//! rounds: in each, three periods pass without a pusher and four and a half with one.

mod backlog;
mod once;
mod sink;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::measure::{PeakMemory, median};
use profiler_core::ids::ByteLimit;
use profiler_parent::Session;
use profiler_parent::core::session::Features;
use profiler_parent::groups::Probes;
use profiler_push::{PushDestination, PushOptions};
use rustix::time::{ClockId, clock_gettime};

use crate::faults::at_length;
use crate::workers;
pub(crate) use sink::ROLES;
use sink::Sink;

const PROCESSES: u64 = 200;
/// Between two looks at the processor time and the groups of a process.
const INTERVAL: Duration = Duration::from_millis(100);
/// Rounds of a time without a pusher and a time with one.
const ROUNDS: u64 = 3;
/// The pusher's period.
const PERIOD: Duration = Duration::from_secs(10);
/// Periods of each of these times.
const PERIODS: u64 = 3;
/// How long the rest may take at the end.
const FINISH_TIMEOUT: Duration = Duration::from_secs(60);

/// All figures of the group.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    for (name, part) in [
        ("cost", cost as fn(&mut Report) -> Result<()>),
        ("once", once::measure),
        ("backlog", backlog::measure),
    ] {
        part(report).with_context(|| format!("push: {name}"))?;
    }
    Ok(())
}

/// The processor time of this process in each of the next periods, in seconds.
fn cpu_of_periods(periods: u64) -> Vec<f64> {
    let used = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let measure = |_| {
        let before = used();
        std::thread::sleep(PERIOD);
        used() - before
    };
    (0..periods).map(measure).collect()
}

fn cost(report: &mut Report) -> Result<()> {
    let session = Session::builder()
        .features(Features::CPU)
        .interval(INTERVAL)
        .memory_limit(ByteLimit::new(256 << 20))
        .start()?;
    let _measured = session.monitor(Probes::JANK);
    let mut workers =
        workers::start_all(&session, PROCESSES, "child", "live-groups", |number| number)?;
    let sink = Sink::start()?;
    let address = format!("clickhouse+http://{}/fleet", sink.address);
    let options = PushOptions::to(PushDestination::parse(&address)?);
    let mut measured = PushMeasurements::default();
    for _ in 0..at_length("FIGURES_PUSH_ROUNDS", ROUNDS) {
        measured.round(&session, &options)?;
    }
    let PushMeasurements {
        without,
        with,
        rss_mib,
        batch_kib,
    } = measured;
    let percent = (median(&with) - median(&without)) / PERIOD.as_secs_f64() * 100.0;
    let cpu = Figure::new("push.cpu_pct", percent, "% of a CPU");
    report.put(cpu.promised(Promise::AtMost(1.0)));
    report.put(Figure::new("push.rss_mib", rss_mib, "MiB"));
    report.put(Figure::new("push.batch_kib", median(&batch_kib), "KiB"));
    for worker in &mut workers {
        worker.child.kill().context("cannot end a child")?;
    }
    Ok(())
}

/// What was measured in all rounds.
#[derive(Default)]
struct PushMeasurements {
    /// Processor time of periods without a pusher, in seconds.
    without: Vec<f64>,
    /// Processor time of periods with one batch each, in seconds.
    with: Vec<f64>,
    rss_mib: f64,
    batch_kib: Vec<f64>,
}

impl PushMeasurements {
    fn round(&mut self, session: &Session, options: &PushOptions) -> Result<()> {
        self.without.extend(cpu_of_periods(PERIODS));
        let memory = PeakMemory::begin()?;
        let pusher = profiler_push::Pusher::start(session, options)?;
        // The first batch has more entries than the others. Then a period begins between two.
        std::thread::sleep(PERIOD.mul_f64(1.5));
        self.with.extend(cpu_of_periods(PERIODS));
        self.rss_mib = self.rss_mib.max(memory.growth_mib()?);
        let pushed = pusher.finish(FINISH_TIMEOUT);
        let to = pushed.destinations.first().context("no destination")?;
        let left_out = to.lost.batches + to.rejected.batches + to.waiting_batches;
        ensure!(to.sent.batches > 0 && left_out == 0, "{pushed:?}");
        let kib = to.sent_bytes as f64 / 1024.0;
        self.batch_kib.push(kib / to.sent.batches as f64);
        Ok(())
    }
}
