//! Tests of names for the functions of Python, Node and Java, with the installed programs.
//!
//! The programs do not contain the profiler: the library `examples/join_session.rs` is loaded into
//! them. A test whose program is not installed, or is too old, is skipped with a report
//! ([`integration_tests::installed`]).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use integration_tests::installed::skip;
use integration_tests::named_stacks::NamedStacks;
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::session::{self, TestSession};
use profiler_parent::ProfiledChild;
use profiler_parent::core::session::Features;

// Each program calls `hot` once, creates the file `began`, and then does nothing but call `hot`
// until the file `end` exists. Both files are in its working directory.

const PYTHON: &str = r#"
import os

def hot():
    total = 0
    for number in range(100000):
        total += number * number
    return total

def outer():
    hot()
    open("began", "w").close()
    while not os.access("end", os.F_OK):
        hot()

outer()
"#;

/// `hot` begins on the second line. It gets [`STATEMENTS`] at the place of `…`.
const SCRIPT: &str = r#"const fs = require("fs");
function hot() {
  let total = 0;
  for (let number = 0; number < 2e4; number++) {
    …
  }
  return total;
}
function outer() {
  hot();
  fs.writeFileSync("began", "");
  while (!fs.existsSync("end")) hot();
}
outer();
"#;

/// A function with this number of statements is too long to be inlined into its caller. An inlined
/// function has no frame of its own.
const STATEMENTS: usize = 80;

const CLASS: &str = r#"
import java.io.File;

public class Hot {
    static int hot(int seed) {
        int total = seed;
        for (int number = 0; number < 10000000; number++) total = total * 31 + number;
        return total;
    }
    public static void main(String[] arguments) throws Exception {
        int total = hot(0);
        new File("began").createNewFile();
        File end = new File("end");
        while (!end.exists()) total = hot(total);
        System.out.println(total);
    }
}
"#;

/// The name of the program in profiles.
const NAME: &str = "runtime";

/// The number of samples of `hot` after which a program may end. One is enough if it shows the
/// whole function; a sample of its first or last instructions does not.
const ENOUGH: usize = 10;

/// The library that joins the session. Cargo builds it together with all tests; a run of a single
/// test program may lack it.
fn library() -> anyhow::Result<Option<PathBuf>> {
    let test = std::env::current_exe()?;
    let target = test.ancestors().nth(2).context("no target directory")?;
    let library = target.join("examples/libjoin_session.so");
    Ok(Some(library).filter(|library| library.exists()))
}

/// What a program prints; `None` if it is not installed or fails.
fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output();
    let output = output.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// A program under the profiler, in the directory of the session. It is killed in the end.
struct Runtime {
    child: ProfiledChild,
    session: TestSession,
}

impl Drop for Runtime {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let pid = self.child.id();
        for file in [format!("perf-{pid}.map"), format!("jit-{pid}.dump")] {
            let _ = std::fs::remove_file(Path::new("/tmp").join(file));
        }
    }
}

impl Runtime {
    /// Starts a program with a source file of this name. `None`, with a report, if the library
    /// was not built.
    fn start(
        program: impl FnOnce(&Path) -> Command,
        file: &str,
        source: &str,
    ) -> anyhow::Result<Option<Self>> {
        let Some(library) = library()? else {
            skip(
                "library",
                "cargo build -p integration-tests --examples builds it",
            )?;
            return Ok(None);
        };
        let features = Features::STACK_WALK
            .with(Features::CPU)
            .with(Features::CPU_ALL_THREADS);
        let session = session::start(|builder| builder.features(features))?;
        let path = session.path(file);
        std::fs::write(&path, source)?;
        let mut command = program(&path);
        command
            .env("LD_PRELOAD", library)
            .current_dir(path.parent().context("no directory")?)
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        let child = session.spawn(NAME, command)?;
        Ok(Some(Self { child, session }))
    }

    fn capture(&self) -> anyhow::Result<NamedStacks> {
        let path = self.session.path("profile.json");
        self.session.session()?.capture().save(&path)?;
        NamedStacks::read(&path)
    }

    /// Captures until a stack has functions with exactly these names, the outermost first.
    fn until_named(&self, names: &[&str]) -> anyhow::Result<NamedStacks> {
        let mut last = None;
        let is_named = until(|| {
            last = self.capture().ok();
            let is_named = last.as_ref().is_some_and(|last| last.has_in_order(names));
            if !is_named {
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            is_named
        });
        ensure!(is_named, "{names:?} are on no stack");
        last.context("no profile")
    }

    /// Ends the program after `hot` has been sampled, and captures. A runtime writes all that it
    /// knows of its code when it ends in an orderly way; before, it may hold some of it back.
    fn capture_after_end(&mut self) -> anyhow::Result<NamedStacks> {
        self.until_sampled()?;
        std::fs::write(self.session.path("end"), "")?;
        let status = self.child.wait()?;
        ensure!(status.success(), "{status}");
        self.capture()
    }

    /// Captures until `hot` has been sampled, with or without its name. Almost all samples of the
    /// program after its first call of `hot` show this function.
    fn until_sampled(&self) -> anyhow::Result<()> {
        let began = self.session.path("began");
        ensure!(until(|| began.exists()), "the program does not run");
        let after_ms = self.capture()?.end_ms();
        let is_sampled = until(|| {
            std::thread::sleep(std::time::Duration::from_millis(100));
            let stacks = self.capture();
            stacks.is_ok_and(|stacks| stacks.samples_in(NAME, "hot", after_ms) >= ENOUGH)
        });
        ensure!(is_sampled, "no generated code has been sampled");
        Ok(())
    }
}

/// The newest installed Python with support for perf, without the scripts that choose a version.
fn python() -> Option<String> {
    const ASK: &str = "import sys, sysconfig; \
        print(sys.executable if sysconfig.get_config_var('PY_HAVE_PERF_TRAMPOLINE') else '')";
    let names = ["python3.14", "python3.13", "python3.12", "python3"].map(PathBuf::from);
    let versions = std::env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv/versions"));
    let versions = versions.and_then(|versions| std::fs::read_dir(versions).ok());
    let installed = versions.into_iter().flatten().flatten();
    let mut installed: Vec<PathBuf> = installed
        .map(|version| version.path().join("bin/python3"))
        .collect();
    installed.sort();
    let all = names.into_iter().chain(installed.into_iter().rev());
    all.filter_map(|python| output(Command::new(python).args(["-c", ASK])))
        .find(|python| !python.is_empty())
}

#[test]
fn functions_of_python_have_names_in_the_order_of_their_calls() -> anyhow::Result<()> {
    own_process!();
    let Some(python) = python() else {
        return skip("python", "3.12 or later with support for perf");
    };
    println!("with {python}");
    let program = |path: &Path| {
        let mut command = Command::new(&python);
        command.args(["-X", "perf"]).arg(path);
        command
    };
    let Some(runtime) = Runtime::start(program, "shop.py", PYTHON)? else {
        return Ok(());
    };
    // Where Python is built without frame pointers, this order shows that the trampolines, which
    // keep none, are unwound. The unit tests of `walk` in `profiler-unwind` also show the stack that
    // results without the rule.
    let stacks = runtime.until_named(&["<module>", "outer", "hot"])?;
    let hot = stacks.function("hot").context("no function")?;
    assert!(hot.file.ends_with("shop.py"), "{hot:?}");
    Ok(())
}

#[test]
fn functions_of_python_have_names_from_a_jitdump() -> anyhow::Result<()> {
    own_process!();
    let Some(python) = python() else {
        return skip("python", "3.12 or later with support for perf");
    };
    let has_jitdump = "import sys; print(sys.version_info >= (3, 13))";
    if output(Command::new(&python).args(["-c", has_jitdump])).as_deref() != Some("True") {
        return skip("python", "3.13 or later, which writes a jitdump");
    }
    let program = |path: &Path| {
        let mut command = Command::new(&python);
        command.args(["-X", "perf_jit"]).arg(path);
        command
    };
    let Some(mut runtime) = Runtime::start(program, "shop.py", PYTHON)? else {
        return Ok(());
    };
    let stacks = runtime.capture_after_end()?;
    let hot = stacks.function("hot").context("no function")?;
    assert!(hot.file.ends_with("shop.py"), "{hot:?}");
    Ok(())
}

/// Starts node with a flag that makes it describe its code. `None`, with a report, if it cannot be
/// started.
fn node(flag: &str) -> anyhow::Result<Option<Runtime>> {
    if output(Command::new("node").arg("--version")).is_none() {
        skip("node", "it is not installed")?;
        return Ok(None);
    }
    let program = |path: &Path| {
        let mut command = Command::new("node");
        command.args([flag, "--interpreted-frames-native-stack"]);
        command.arg(path);
        command
    };
    let script = SCRIPT.replace('…', &"total += number % 7;".repeat(STATEMENTS));
    Runtime::start(program, "shop.js", &script)
}

fn check_javascript(stacks: &NamedStacks) -> anyhow::Result<()> {
    ensure!(
        stacks.has_in_order(&["outer", "hot"]),
        "a function is missing"
    );
    let hot = stacks.function("hot").context("no function")?;
    let is_found = hot.file.ends_with("shop.js") && hot.line == Some(2);
    ensure!(is_found, "{hot:?}");
    Ok(())
}

#[test]
fn functions_of_javascript_have_names_files_and_lines() -> anyhow::Result<()> {
    own_process!();
    let Some(mut runtime) = node("--perf-basic-prof")? else {
        return Ok(());
    };
    check_javascript(&runtime.until_named(&["outer", "hot"])?)?;
    runtime.child.kill()?;
    runtime.child.wait()?;
    check_javascript(&runtime.capture()?)
}

#[test]
fn functions_of_javascript_have_names_from_a_jitdump() -> anyhow::Result<()> {
    own_process!();
    match node("--perf-prof")? {
        Some(mut runtime) => check_javascript(&runtime.capture_after_end()?),
        None => Ok(()),
    }
}

#[test]
fn functions_of_java_have_names_after_the_end() -> anyhow::Result<()> {
    own_process!();
    let runs = |program: &str, flags: &[&str]| {
        output(Command::new(program).args(flags).arg("-version")).is_some()
    };
    let unlock = "-XX:+UnlockDiagnosticVMOptions";
    let flags = ["-XX:+DumpPerfMapAtExit", "-XX:+PreserveFramePointer"];
    // The method is compiled before its first call, and nothing else is compiled.
    let compiled = ["-Xcomp", "-XX:CompileOnly=Hot::hot"];
    if !runs("java", &[]) || !runs("javac", &[]) {
        return skip("java", "java or javac is not installed");
    }
    if !runs("java", &[unlock, "-XX:-DumpPerfMapAtExit"]) {
        return skip("java", "17 or later, which writes a perf map");
    }
    let program = |path: &Path| {
        let _ = Command::new("javac").arg(path).status();
        let mut command = Command::new("java");
        command.arg(unlock).args(flags).args(compiled).arg("-cp");
        command.args(path.parent()).arg("Hot");
        command
    };
    let Some(mut runtime) = Runtime::start(program, "Hot.java", CLASS)? else {
        return Ok(());
    };
    let stacks = runtime.capture_after_end()?;
    let named = stacks.has_in_order(&["Hot.hot(int)"]);
    assert!(named, "the method has no name");
    Ok(())
}
