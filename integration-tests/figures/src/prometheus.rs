//! The cost of scrapes: a session with 200 processes and 1,000 groups, as for the live page, whose
//! metrics are scraped without the live page.
//!
//! The figure is the processor time of the server's thread and its worker for each scrape. The
//! scrapes are more than a second apart, so each of them reads all pools.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::http::get;
use profiler_prometheus::MetricsServer;

use crate::live::thread_cpu_ns;
use crate::workers;

const PROCESSES: u64 = 200;
/// Scrapes before the measurement, until all pools have readers.
const WARM_UP: usize = 3;
/// Scrapes of the measurement.
const SCRAPES: usize = 15;
/// The usual time between two scrapes, in milliseconds.
const INTERVAL_MS: f64 = 15_000.0;
/// What Prometheus accepts.
const ACCEPT: &str = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";

/// All figures of scrapes.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let session = workers::quiet_session(256 << 20)?;
    let server = MetricsServer::start(&session, ([127, 0, 0, 1], 0).into())?;
    let mut workers =
        workers::start_all(&session, PROCESSES, "child", "live-groups", |number| number)?;
    scrape_often(&server, WARM_UP)?;
    let [before] = thread_cpu_ns(["profiler-scrape"])?;
    let text = scrape_often(&server, SCRAPES)?;
    let [after] = thread_cpu_ns(["profiler-scrape"])?;
    let ms = (after - before) / 1e6 / SCRAPES as f64;
    let cpu_pct = Figure::new("prometheus.cpu_pct", ms / INTERVAL_MS * 100.0, "% of a CPU");
    report.put(cpu_pct.promised(Promise::AtMost(1.0)));
    report.put(Figure::new("prometheus.scrape_ms", ms, "ms"));
    let kib = text.len() as f64 / 1024.0;
    report.put(Figure::new("prometheus.text_kib", kib, "KiB"));
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    report.put(Figure::new("prometheus.series", series as f64, "series"));
    for worker in &mut workers {
        worker.child.kill().context("cannot end a child")?;
    }
    Ok(())
}

/// Scrapes once in 1.1 s. Returns the last text.
fn scrape_often(server: &MetricsServer, times: usize) -> Result<String> {
    let mut text = String::new();
    for _ in 0..times {
        text = scrape(server)?;
        ensure!(text.ends_with("# EOF\n"), "not the whole text");
        std::thread::sleep(Duration::from_millis(1100));
    }
    Ok(text)
}

fn scrape(server: &MetricsServer) -> Result<String> {
    let address = server.address();
    let token = server.token().reveal();
    let headers = format!("Authorization: Bearer {token}\r\nAccept: {ACCEPT}\r\n");
    get(address, "/metrics", &headers)?.text()
}
