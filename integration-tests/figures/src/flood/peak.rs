//! `flood.peak_ratio.children_N`: highest true bytes ÷ limit, while children start and are killed
//! and the parent records continuously.

use std::time::Duration;

use anyhow::Result;
use integration_tests::watch::Seen;
use profiler_core::marker;
use profiler_parent::Session;

use crate::workers::{self, Worker};
use integration_tests::figure::{Figure, Promise, Report};

const LIMIT: u64 = 8 << 20;
/// Time between two changes of the children.
const BETWEEN: Duration = Duration::from_millis(250);
/// Number of children that are killed and replaced.
const CHANGES: usize = 12;

pub(super) fn measure(report: &mut Report) -> Result<()> {
    for children in [1, 8, 32, 100] {
        let seen = flood(children)?;
        let ratio = seen.peak as f64 / LIMIT as f64;
        let idle =
            (seen.peak < LIMIT / 2).then(|| format!("only {} bytes were ever held", seen.peak));
        let enough = (seen.sweeps < 200)
            .then(|| format!("only {} sweeps", seen.sweeps))
            .or(idle);
        let name = format!("flood.peak_ratio.children_{children}");
        report.put(
            Figure::new(name, ratio, "x")
                .promised(Promise::AtMost(1.0))
                .unless(enough),
        );
        report.put(Figure::new(
            format!("flood.doubted.children_{children}"),
            seen.doubted as f64,
            "sweeps",
        ));
    }
    Ok(())
}

fn flood(children: usize) -> Result<Seen> {
    let session = workers::quiet_session(LIMIT)?;
    std::thread::scope(|scope| {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || {
            while stopped.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
                (0..100).for_each(|_| marker!("flood"));
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        let seen = churn(&session, children);
        drop(stop);
        seen
    })
}

fn churn(session: &Session, children: usize) -> Result<Seen> {
    let mut seen = Seen::default();
    let start = |number| workers::start(session, &format!("flood {number}"), "flood", 0);
    let mut workers: Vec<Worker> = Vec::new();
    for number in 0..children {
        workers.push(start(number)?);
        seen.look(session, LIMIT);
    }
    for change in 0..CHANGES {
        seen.look_for(BETWEEN, session, LIMIT);
        let place = change % workers.len();
        workers[place].child.kill()?;
        workers[place] = start(children + change)?;
    }
    seen.look_for(BETWEEN, session, LIMIT);
    for worker in &mut workers {
        worker.child.wait()?;
    }
    Ok(seen)
}
