//! Tests of a child that maps a library whose symbol names are made to break a reader.
//!
//! The parent survives and names the child's stacks: in a capture, a capture of the live page, and
//! the evidence of an alert. Each test repeats until the captured data contains the hostile frames,
//! so that the parent really looks up the names.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use integration_tests::helper_process::HelperProcess;
use integration_tests::own_process;
use integration_tests::patience::{LONG, Stopwatch};
use integration_tests::session::{self, TestSession};
use integration_tests::{hostile_library, tools};
use profiler_parent::core::session::Features;
use profiler_parent::{AlertRules, AlertTarget, EvidenceOptions, Session};
use serde_json::Value;

const CHILD: &str = env!("CARGO_BIN_EXE_child");
/// The stack of a small thread of a host.
const SMALL_STACK: usize = 64 << 10;

/// A session with a child that visits the hostile library on command.
struct Fixture {
    child: HelperProcess,
    library: PathBuf,
    session: TestSession,
}

impl Fixture {
    fn start() -> anyhow::Result<Self> {
        let session = session::start(|builder| builder.features(Features::STACK_WALK))?;
        let library = hostile_library::build(session.path("a").parent().context("no directory")?)?;
        let child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
        Ok(Self {
            child,
            library,
            session,
        })
    }

    fn visit(&mut self) -> anyhow::Result<()> {
        self.child
            .ask(&format!("visit {}", self.library.display()))
            .map(drop)
    }

    /// Visits until `profile` returns a profile that contains the hostile name.
    fn until_named(
        &mut self,
        mut profile: impl FnMut(&Session) -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        let watch = Stopwatch::start();
        loop {
            self.visit()?;
            if profile(&self.session)?.contains(hostile_library::BEGINNING) {
                return Ok(());
            }
            ensure!(
                watch.elapsed() < 3 * LONG,
                "the hostile name is in no profile"
            );
        }
    }
}

/// The text of a compressed profile.
fn unpacked(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path)?).read_to_string(&mut text)?;
    Ok(text)
}

#[test]
fn a_capture_from_a_small_thread_of_the_host_survives_names_that_nest() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::start()?;
    let path = scene.session.path("profile.json.gz");
    scene.until_named(|session| {
        std::thread::scope(|scope| {
            let capture = || session.capture().save(&path).map(drop);
            let thread = std::thread::Builder::new()
                .stack_size(SMALL_STACK)
                .spawn_scoped(scope, capture)?;
            thread
                .join()
                .map_err(|_| anyhow::anyhow!("the capture panicked"))?
                .context("no capture")
        })?;
        unpacked(&path)
    })?;
    let said = tools::run(&["info".as_ref(), path.as_os_str()])?;
    assert_eq!(said.code, Some(0), "{said:?}");
    Ok(())
}

#[test]
fn a_capture_of_the_live_page_survives_names_that_nest() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::start()?;
    let live = scene.session.serve_live(([127, 0, 0, 1], 0).into())?;
    scene.until_named(|_| {
        let begun: Value =
            serde_json::from_slice(&integration_tests::page::ask(&live, "POST", "capture")?)?;
        let number = begun["number"].as_u64().context("no number")?;
        let watch = Stopwatch::start();
        loop {
            let profiles: Value = serde_json::from_slice(&integration_tests::page::ask(
                &live,
                "GET",
                "profiles.json",
            )?)?;
            let is_written =
                |profile: &&Value| profile["number"] == number && profile["state"] != "writing";
            if let Some(profile) = profiles
                .as_array()
                .and_then(|all| all.iter().find(is_written))
            {
                ensure!(profile["state"] == "ready", "{profile}");
                return unpacked(Path::new(profile["path"].as_str().context("no path")?));
            }
            ensure!(watch.elapsed() < 3 * LONG, "no profile");
            std::thread::sleep(Duration::from_millis(20));
        }
    })
}

#[test]
fn the_evidence_of_an_alert_survives_names_that_nest() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::start()?;
    let rules = AlertRules::default().buffering(Duration::from_millis(100));
    let evidence = EvidenceOptions::in_directory(scene.session.path("evidence"));
    let alerts = scene.session.alerts(rules, evidence)?;
    let (sender, receiver) = std::sync::mpsc::channel();
    alerts.add(
        AlertTarget::Group("visitor".into()),
        "test",
        move |alerts| drop(sender.send(alerts.to_vec())),
    )?;
    scene.until_named(|_| {
        // The first runs may end before the child measures runs.
        let Ok(alerts) = receiver.recv_timeout(Duration::from_secs(2)) else {
            return Ok(String::new());
        };
        let alert = alerts.first().context("no alert")?;
        unpacked(
            alert
                .evidence
                .as_deref()
                .with_context(|| format!("{:?}", alert.evidence_error))?,
        )
    })
}
