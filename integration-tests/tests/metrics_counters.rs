//! Tests of the metrics of a session with real processes: no counter falls, whatever happens to the
//! processes.

use integration_tests::helper_process::HelperProcess;
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::session;
use profiler_core::ids::ByteLimit;
use profiler_parent::core::groups::Probes;
use profiler_parent::marker;
use profiler_prometheus::MetricsServer;

use crate::live_support::{CHILD, LOOPBACK, start};
use crate::metrics_support::{ask, numbers, until_numbers};

const ENTRIES: &str =
    r#"profiler_group_entries_total{process="mortal",kind="plugin",group="checker"}"#;
const RUNS: &str =
    r#"profiler_group_run_duration_seconds_count{process="mortal",kind="plugin",group="checker"}"#;

#[test]
fn counters_keep_what_killed_processes_have_done_also_when_their_memory_is_gone()
-> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(2 << 20)))?;
    let _monitor = session.monitor(Probes::ALL);
    let mut children = [
        HelperProcess::spawn(&session, CHILD, "mortal", "init")?,
        HelperProcess::spawn(&session, CHILD, "mortal", "init")?,
    ];
    for child in &mut children {
        let mut measures = || matches!(child.ask("probes"), Ok(probes) if probes != "ok 0");
        assert!(until(&mut measures), "no probe is on");
        child.ask("work-for plugin checker 5 2000")?;
        child.ask("mark 20")?;
    }
    let alive = until_numbers(&session, |all| all.get(ENTRIES) == Some(10.0))?;
    assert_eq!(alive.get(RUNS), Some(10.0));
    let recording = r#"profiler_processes{process="mortal",state="recording"}"#;
    assert_eq!(alive.get(recording), Some(2.0));
    let [mut first, mut second] = children;
    // Nothing is read between its last work and its end.
    first.ask("work-for plugin checker 3 2000")?;
    first.end("kill 9")?;
    second.end("exit 3")?;
    let pools = r#"profiler_pool_bytes{process="mortal"}"#;
    let gone = until_numbers(&session, |all| {
        (0..2_000).for_each(|_| marker!("newer than all data of the dead processes"));
        all.get(pools) == Some(0.0)
    })?;
    assert_eq!(
        (gone.get(ENTRIES), gone.get(RUNS)),
        (Some(13.0), Some(13.0))
    );
    assert!(alive.get(RUNS) < gone.get(RUNS));
    for (how, expected) in [("killed", 1.0), ("failed", 1.0), ("exited", 0.0)] {
        let ends = format!(r#"profiler_process_ends_total{{process="mortal",how="{how}"}}"#);
        assert_eq!(gone.get(&ends), Some(expected), "{how}");
    }
    let starts = r#"profiler_process_starts_total{process="mortal"}"#;
    let recorded = r#"profiler_entries_recorded_total{process="mortal"}"#;
    assert_eq!(
        (gone.get(recording), gone.get(starts)),
        (Some(0.0), Some(2.0))
    );
    assert!(gone.get(recorded) >= Some(40.0), "{gone:?}");
    let evicted = r#"profiler_entries_lost_total{process="mortal",reason="evicted"}"#;
    assert!(gone.get(evicted) >= Some(40.0), "{gone:?}");
    Ok(())
}

#[test]
fn a_stopped_process_is_shown_as_stopped_and_keeps_its_counters() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let mut child = HelperProcess::spawn(&session, CHILD, "mortal", "init")?;
    child.ask("work-for plugin checker 5 0")?;
    assert!(child.freeze(), "the child does not stop");
    let stopped = until_numbers(&session, |all| {
        all.get(r#"profiler_processes{process="mortal",state="stopped"}"#) == Some(1.0)
    })?;
    assert_eq!(stopped.get(ENTRIES), Some(5.0));
    child.signal(libc::SIGCONT);
    Ok(())
}

#[test]
fn pools_are_read_at_most_once_a_second_and_the_budget_is_shown() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let before = numbers(&session)?;
    let readings = "profiler_scrape_pool_readings_total";
    let scrapes = "profiler_scrapes_total";
    // A reading is used again for 0.9 s.
    let mut last = before.clone();
    let watch = integration_tests::patience::Stopwatch::start();
    while last.get(scrapes) < Some(200.0) {
        last = numbers(&session)?;
    }
    let most = 2.0 + watch.elapsed().as_secs_f64() / 0.9;
    assert!(last.get(readings) <= Some(most), "{last:?}");
    assert_eq!(before.get(readings), Some(1.0));
    let limit = last.get("profiler_memory_limit_bytes");
    assert_eq!(limit, Some(session.memory_limit().get() as f64));
    let (charged, peak) = (
        last.get("profiler_memory_charged_bytes"),
        last.get("profiler_memory_charged_peak_bytes"),
    );
    assert!(
        Some(0.0) < charged && charged <= peak && peak <= limit,
        "{last:?}"
    );
    assert!(last.get("profiler_memory_used_bytes") > Some(0.0));
    Ok(())
}

#[test]
fn groups_are_measured_while_metrics_are_served() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let server = MetricsServer::start(&session, LOOPBACK.into())?;
    let mut child = HelperProcess::spawn(&session, CHILD, "mortal", "init")?;
    let expected = Probes::JANK.with(Probes::CPU).with(Probes::BLOCKING);
    let expected = format!("ok {}", expected.bits());
    assert!(until(|| child.ask("probes").ok() == Some(expected.clone())));
    child.ask("wait-for plugin checker 20")?;
    let blocking =
        r#"profiler_group_blocking_seconds_total{process="mortal",kind="plugin",group="checker"}"#;
    until_numbers(&session, |all| all.get(blocking) >= Some(0.02))?;
    // Nothing runs and nothing is measured without the server.
    assert_eq!(ask(&server, "GET", "/", &[])?.status, 404);
    drop(server);
    assert!(until(|| child.ask("probes").ok() == Some("ok 0".to_owned())));
    let names = || integration_tests::own::thread_names();
    assert!(until(|| !names()
        .iter()
        .any(|name| name.starts_with("profiler-scrape"))));
    Ok(())
}
