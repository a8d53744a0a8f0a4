//! Helpers of the tests `observe_*`: sessions, observers and the batches that they received.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use integration_tests::patience::{LONG, Stopwatch};
use integration_tests::session::{self, TestSession};
use profiler_parent::core::marker::category;
use profiler_parent::marker;
use profiler_parent::observe::{Batch, Filter, NoBatch, ObservedMarker, Observer, ObserverOptions};

pub(crate) const CHILD: &str = env!("CARGO_BIN_EXE_child");
/// A short period, so that tests do not wait long for batches.
pub(crate) const PERIOD: Duration = Duration::from_millis(20);

/// The data that an observer has received so far.
#[derive(Default)]
pub(crate) struct Received {
    pub(crate) markers: Vec<ObservedMarker>,
    pub(crate) batches: Vec<Batch>,
}

impl Received {
    /// Takes batches until a condition on the received data holds.
    pub(crate) fn until(
        &mut self,
        observer: &Observer,
        holds: impl Fn(&Self) -> bool,
    ) -> anyhow::Result<()> {
        let watch = Stopwatch::start();
        while !holds(self) {
            ensure!(
                watch.elapsed() < LONG,
                "only these markers were received: {}",
                self.names()
            );
            self.take(observer, Duration::from_millis(100))?;
        }
        Ok(())
    }

    /// Takes a batch if one arrives in time.
    pub(crate) fn take(&mut self, observer: &Observer, timeout: Duration) -> anyhow::Result<()> {
        match observer.next(timeout) {
            Ok(batch) => {
                self.markers.extend(batch.markers.iter().cloned());
                self.batches.push(batch);
            }
            Err(NoBatch::Timeout) => {}
            Err(error) => bail!("{error}: {}", self.names()),
        }
        Ok(())
    }

    /// The names of all markers, for messages.
    fn names(&self) -> String {
        let names: Vec<_> = self.markers.iter().map(|marker| &marker.name).collect();
        format!("{names:#?}")
    }

    /// The markers with this name.
    pub(crate) fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a ObservedMarker> {
        self.markers
            .iter()
            .filter(move |marker| *marker.name == *name)
    }

    /// The number of markers with this name.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.named(name).count()
    }

    /// The latest batch.
    pub(crate) fn last(&self) -> anyhow::Result<&Batch> {
        self.batches.last().context("no batch")
    }
}

/// Adds an observer with the period [`PERIOD`].
pub(crate) fn observe(session: &TestSession, filter: Filter) -> anyhow::Result<Observer> {
    Ok(session.observe_with(filter, ObserverOptions::default().period(PERIOD))?)
}

/// Starts a session with default options.
pub(crate) fn start() -> anyhow::Result<TestSession> {
    session::start(|builder| builder)
}

/// Records a marker. A test that receives it has received all markers before it.
pub(crate) fn sentinel() {
    marker!("sentinel", &category::TEST);
}
