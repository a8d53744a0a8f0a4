//! Helpers of the tests `metrics_*`: the numbers in a text of metrics, and a client of a server.

use profiler_prometheus::session_metrics;
use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use integration_tests::http::Answer;
use integration_tests::patience::{LONG, Stopwatch};
use integration_tests::session::TestSession;
use profiler_prometheus::MetricsServer;
use profiler_prometheus::TextFormat;

use crate::live_support::ask_with;

/// The numbers of a text, by the name and the labels of their series.
#[derive(Clone, Debug)]
pub(crate) struct Numbers(BTreeMap<String, f64>);

impl Numbers {
    /// Reads a text in either format.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let numbers = lines.map(|line| {
            let (series, number) = line.rsplit_once(' ').with_context(|| line.to_owned())?;
            Ok((series.to_owned(), number.parse()?))
        });
        Ok(Self(numbers.collect::<anyhow::Result<_>>()?))
    }

    /// The number of a series.
    pub(crate) fn get(&self, series: &str) -> Option<f64> {
        self.0.get(series).copied()
    }

    /// The counters, and the numbers of histograms: none of them may fall.
    pub(crate) fn counters(&self) -> impl Iterator<Item = (&str, f64)> {
        let endings = ["_total", "_bucket", "_sum", "_count"];
        let all = self
            .0
            .iter()
            .map(|(series, number)| (series.as_str(), *number));
        all.filter(move |(series, _)| {
            let name = series.split('{').next().unwrap_or_default();
            endings.iter().any(|ending| name.ends_with(ending))
        })
    }

    /// The first counter of `earlier` that is less here, or missing.
    pub(crate) fn fallen_since(&self, earlier: &Self) -> Option<String> {
        let mut fallen = earlier.counters().filter(|(series, before)| {
            let now = self.get(series);
            now.is_none_or(|now| now < *before)
        });
        let (series, before) = fallen.next()?;
        Some(format!("{series}: {before}, then {:?}", self.get(series)))
    }
}

/// The numbers of the session's metrics.
pub(crate) fn numbers(session: &TestSession) -> anyhow::Result<Numbers> {
    Numbers::parse(&session_metrics(session).text(TextFormat::Prometheus))
}

/// Reads the metrics of the session until a condition on them holds. No counter may fall meanwhile.
pub(crate) fn until_numbers(
    session: &TestSession,
    holds: impl Fn(&Numbers) -> bool,
) -> anyhow::Result<Numbers> {
    let watch = Stopwatch::start();
    let mut before = numbers(session)?;
    loop {
        let now = numbers(session)?;
        if let Some(fallen) = now.fallen_since(&before) {
            anyhow::bail!("a counter has fallen: {fallen}");
        }
        if holds(&now) {
            return Ok(now);
        }
        anyhow::ensure!(watch.elapsed() < LONG, "only {now:#?}");
        before = now;
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Requests a path of the server with these headers and the right `Host`.
pub(crate) fn ask(
    server: &MetricsServer,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> anyhow::Result<Answer> {
    let host = server.address().to_string();
    let headers = [&[("Host", host.as_str())][..], headers].concat();
    ask_with(server.address(), method, path, &headers)
}
