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

const PYTHON: &str = "
def hot():
    total = 0
    for number in range(100000):
        total += number * number
    return total

def outer():
    while True:
        hot()

outer()
";

const SCRIPT: &str = "
function hot() {
  let total = 0;
  for (let number = 0; number < 1e6; number++) total += number % 7;
  return total;
}
function outer() {
  for (;;) hot();
}
outer();
";

/// Ends at the end of its input, because a Java program writes its perf map when it exits.
const CLASS: &str = "
public class Hot {
    static volatile boolean ends;
    static int hot(int seed) {
        int total = seed;
        for (int number = 0; number < 10000000; number++) total = total * 31 + number;
        return total;
    }
    public static void main(String[] arguments) throws Exception {
        Thread reader = new Thread(() -> {
            try { while (System.in.read() >= 0) { } } catch (Exception error) { }
            ends = true;
        });
        reader.start();
        int total = 0;
        while (!ends) total = hot(total);
        System.out.println(total);
    }
}
";

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
        let child = session.spawn("runtime", command)?;
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

    /// Captures until code in no file has been sampled and has no name.
    fn until_nameless(&self) -> anyhow::Result<()> {
        let is_there = until(|| {
            std::thread::sleep(std::time::Duration::from_millis(100));
            self.capture()
                .is_ok_and(|stacks| stacks.has_nameless_code())
        });
        ensure!(is_there, "no generated code has been sampled");
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
    // keep none, are unwound. The unit tests of the sampler's `unwind` also show the stack that
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
    runtime.until_named(&["hot"])?;
    runtime.child.kill()?;
    runtime.child.wait()?;
    let stacks = runtime.capture()?;
    let hot = stacks.function("hot").context("no function")?;
    assert!(hot.file.ends_with("shop.py"), "{hot:?}");
    Ok(())
}

/// Runs a script with a flag of node that makes it describe its code.
fn names_of_javascript(flag: &str) -> anyhow::Result<()> {
    if output(Command::new("node").arg("--version")).is_none() {
        return skip("node", "it is not installed");
    }
    let program = |path: &Path| {
        let mut command = Command::new("node");
        command.args([flag, "--interpreted-frames-native-stack"]);
        command.arg(path);
        command
    };
    let Some(mut runtime) = Runtime::start(program, "shop.js", SCRIPT)? else {
        return Ok(());
    };
    let check = |stacks: &NamedStacks| -> anyhow::Result<()> {
        let hot = stacks.function("hot").context("no function")?;
        let is_found = hot.file.ends_with("shop.js") && hot.line == Some(2);
        ensure!(is_found, "{hot:?}");
        Ok(())
    };
    check(&runtime.until_named(&["outer", "hot"])?)?;
    runtime.child.kill()?;
    runtime.child.wait()?;
    check(&runtime.capture()?)
}

#[test]
fn functions_of_javascript_have_names_files_and_lines() -> anyhow::Result<()> {
    own_process!();
    names_of_javascript("--perf-basic-prof")
}

#[test]
fn functions_of_javascript_have_names_from_a_jitdump() -> anyhow::Result<()> {
    own_process!();
    names_of_javascript("--perf-prof")
}

#[test]
fn functions_of_java_have_names_after_the_end() -> anyhow::Result<()> {
    own_process!();
    let has = |program: &str| output(Command::new(program).arg("-version")).is_some();
    let flags = ["-XX:+DumpPerfMapAtExit", "-XX:+PreserveFramePointer"];
    if !has("java") || !has("javac") {
        return skip("java", "java or javac is not installed");
    }
    if output(Command::new("java").args(flags).arg("-version")).is_none() {
        return skip("java", "17 or later, which writes a perf map");
    }
    let program = |path: &Path| {
        let _ = Command::new("javac").arg(path).status();
        let mut command = Command::new("java");
        command.args(flags).arg("-cp");
        command.args(path.parent()).arg("Hot");
        command
    };
    let Some(mut runtime) = Runtime::start(program, "Hot.java", CLASS)? else {
        return Ok(());
    };
    // Code that was generated has been sampled.
    runtime.until_nameless()?;
    // Time to compile the method and to sample it.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let status = runtime.child.wait()?; // closes its input
    ensure!(status.success(), "{status}");
    let stacks = runtime.capture()?;
    let named = stacks.has_in_order(&["Hot.hot(int)"]);
    assert!(named, "the method has no name");
    Ok(())
}
