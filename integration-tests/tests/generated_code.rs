//! Tests of names for code that a process generates at run time, with a program that writes a perf
//! map for code of its own.
//!
//! `generated_runtimes` has the tests with Python, Node and Java.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use integration_tests::foreign::Workplace;
use integration_tests::helper_process::HelperProcess;
use integration_tests::installed::skip;
use integration_tests::named_stacks::NamedStacks;
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::session::{self, TestSession};
use integration_tests::tools;
use profiler_parent::CaptureReport;
use profiler_parent::capture::NoSymbols;
use profiler_parent::core::session::Features;

const CHILD: &str = env!("CARGO_BIN_EXE_child");
/// The functions of the program, the outermost first.
const STACK: [&str; 3] = ["run_generated", "generated_trampoline", "generatedLoop"];

/// A session with a child that runs generated code.
struct Fixture {
    child: HelperProcess,
    map: PerfMap,
    session: TestSession,
}

/// The perf map of the child, which is removed in the end.
struct PerfMap(PathBuf);

impl Drop for PerfMap {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Fixture {
    fn start(spawn: fn(&TestSession) -> anyhow::Result<HelperProcess>) -> anyhow::Result<Self> {
        let features = Features::STACK_WALK.with(Features::CPU);
        let session = session::start(|builder| builder.features(features))?;
        let mut child = spawn(&session)?;
        let answer = child.ask("generate")?;
        let map = answer.strip_prefix("ok ").context("no perf map")?;
        Ok(Self {
            child,
            map: PerfMap(map.into()),
            session,
        })
    }

    fn capture(&self) -> anyhow::Result<(CaptureReport, NamedStacks)> {
        let path = self.session.path("profile.json");
        let report = self.session.session()?.capture().save(&path)?;
        Ok((report, NamedStacks::read(&path)?))
    }

    /// Captures until the code has been sampled and has its names.
    fn until_named(&self) -> anyhow::Result<NamedStacks> {
        let mut last = None;
        let is_named = until(|| {
            last = self.capture().ok().map(|(_, stacks)| stacks);
            last.as_ref().is_some_and(|last| last.has_in_order(&STACK))
        });
        ensure!(is_named, "the code has no names: {last:?}");
        last.context("no profile")
    }
}

fn trusted(session: &TestSession) -> anyhow::Result<HelperProcess> {
    HelperProcess::spawn(session, CHILD, "child", "init")
}

fn untrusted(session: &TestSession) -> anyhow::Result<HelperProcess> {
    HelperProcess::spawn_untrusted(session, CHILD, "child", "init")
}

/// Whether the report says something about a perf map.
fn is_named_in(report: &CaptureReport) -> bool {
    report
        .left_out
        .iter()
        .any(|remark| remark.contains("perf-"))
}

#[test]
fn generated_code_has_names_while_its_process_runs_and_after_the_end() -> anyhow::Result<()> {
    own_process!();
    if !cfg!(target_arch = "x86_64") {
        return skip("x86-64", "the code is for this processor");
    }
    let mut scene = Fixture::start(trusted)?;
    let stacks = scene.until_named()?;
    let inner = stacks.function("generatedLoop").context("no loop")?;
    assert_eq!(
        (inner.file.as_str(), inner.line),
        ("/srv/shop.mjs", Some(10))
    );
    let outer = stacks.function("generated_trampoline");
    assert_eq!(outer.context("no trampoline")?.file, "/srv/shop.py");
    scene.child.signal(libc::SIGKILL);
    let _ = scene.child.child.wait();
    let (report, stacks) = scene.capture()?;
    assert!(stacks.has_in_order(&STACK), "its perf map outlives it");
    assert!(!is_named_in(&report), "{:?}", report.left_out);
    std::fs::remove_file(&scene.map.0)?;
    let (report, stacks) = scene.capture()?;
    assert!(!stacks.has_in_order(&["generatedLoop"]));
    assert!(stacks.has_in_order(&["run_generated"]) && stacks.has_nameless_code());
    assert!(!is_named_in(&report), "{:?}", report.left_out);
    Ok(())
}

#[test]
fn a_perf_map_that_may_be_of_others_is_not_used_and_the_report_says_so() -> anyhow::Result<()> {
    own_process!();
    if !cfg!(target_arch = "x86_64") {
        return skip("x86-64", "the code is for this processor");
    }
    let scene = Fixture::start(trusted)?;
    scene.until_named()?;
    let map: &Path = &scene.map.0;
    let copy = scene.session.path("copy.map");
    std::fs::rename(map, &copy)
        .or_else(|_| std::fs::copy(map, &copy).and_then(|_| std::fs::remove_file(map)))?;
    std::os::unix::fs::symlink(&copy, map)?;
    let (report, stacks) = scene.capture()?;
    assert!(!stacks.has_in_order(&["generatedLoop"]));
    let said = report.left_out.join("; ");
    assert!(said.contains("is not a regular file"), "{said}");
    std::fs::remove_file(map)?;
    std::fs::write(
        map,
        [std::fs::read(&copy)?, b"nonsense\n".to_vec()].concat(),
    )?;
    let (report, stacks) = scene.capture()?;
    assert!(stacks.has_in_order(&STACK));
    let said = report.left_out.join("; ");
    assert!(
        said.contains("child (") && said.contains("1 entry of"),
        "{said}"
    );
    Ok(())
}

#[test]
fn generated_code_of_an_untrusted_child_has_names_and_no_symbols_mean_no_names()
-> anyhow::Result<()> {
    own_process!();
    if !cfg!(target_arch = "x86_64") {
        return skip("x86-64", "the code is for this processor");
    }
    let mut scene = Fixture::start(untrusted)?;
    scene.until_named()?;
    scene.child.signal(libc::SIGKILL);
    let _ = scene.child.child.wait();
    let (_, stacks) = scene.capture()?;
    assert!(stacks.has_in_order(&STACK), "its perf map outlives it");
    let path = scene.session.path("nameless.json");
    let capture = scene.session.session()?.capture();
    capture.symbols(NoSymbols).save(&path)?;
    let stacks = NamedStacks::read(&path)?;
    assert!(!stacks.has_in_order(&["generatedLoop"]));
    Ok(())
}

#[test]
fn a_perf_map_of_another_user_is_not_used_and_the_report_says_so() -> anyhow::Result<()> {
    own_process!();
    if !cfg!(target_arch = "x86_64") {
        return skip("x86-64", "the code is for this processor");
    }
    let scene = Fixture::start(trusted)?;
    scene.until_named()?;
    match std::os::unix::fs::chown(&scene.map.0, Some(65_534), None) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return skip("root", "only root can give a file to another user");
        }
        changed => changed?,
    }
    let (report, stacks) = scene.capture()?;
    assert!(!stacks.has_in_order(&["generatedLoop"]));
    let said = report.left_out.join("; ");
    assert!(said.contains("does not belong to the user"), "{said}");
    Ok(())
}

/// Generates a function that counts down, describes it in a perf map, forks, and calls it in the
/// child. Prints the path of the map.
#[cfg(target_arch = "x86_64")]
const FORKS_WITH_GENERATED_CODE: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static long cpu(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
int main(void) {
    static const unsigned char code[] = {0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3};
    char *place = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(place, code, sizeof code);
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(path, "w");
    fprintf(map, "%lx %zx counts_down\n", (unsigned long)place, sizeof code);
    fclose(map);
    puts(path);
    fflush(stdout);
    if (fork() == 0) {
        for (long end = cpu() + 300000000; cpu() < end;) ((void (*)(long))place)(1000000);
        _exit(0);
    }
    wait(0);
    return 0;
}
"#;

#[cfg(target_arch = "x86_64")]
#[test]
fn a_forked_child_has_the_names_of_code_that_its_parent_has_generated() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let program = place.compile("forks", FORKS_WITH_GENERATED_CODE, &["-O1"])?;
    let mut command = Command::new(tools::profiler()?);
    command
        .args(["record", "-o", "out.json", "--"])
        .arg(program);
    command.env("XDG_CACHE_HOME", tools::cache()?);
    let recorded = place.recorded(command.current_dir(place.path()).output()?);
    let map = String::from_utf8(recorded.output.stdout.clone())?;
    let _map = PerfMap(map.trim().into());
    let info = tools::info(&recorded.path())?;
    let rows = info["samples"]["top"].as_array().context("no functions")?;
    let row = rows.iter().find(|row| row["function"] == "counts_down");
    let row = row.with_context(|| format!("{rows:?}: {}", recorded.said()))?;
    let self_ms = row["self_ms"].as_f64().context("no time")?;
    assert!(self_ms > 150.0, "{self_ms} of 300");
    Ok(())
}
