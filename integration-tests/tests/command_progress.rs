//! Tests of long work of the command: it shows a progress line on a terminal and nothing elsewhere,
//! and leaves no partial file after Ctrl-C.
//!
//! The tests run the built command, on real terminals and with real signals. A command is
//! interrupted while its temporary file exists and it is stopped, so it is known to be in the
//! middle of writing.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, bail, ensure};
use integration_tests::own_process;
use integration_tests::patience::{Stopwatch, until};
use integration_tests::process_tree::{ProcessTree, ProcessTreeOptions};
use integration_tests::pty::Terminal;
use integration_tests::tools;
use profiler_core::ids::ByteLimit;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::{Value, json};

const CHILD: &str = env!("CARGO_BIN_EXE_child");
const OPTIONS: ProcessTreeOptions<'static> = ProcessTreeOptions {
    parent: env!("CARGO_BIN_EXE_parent"),
    child: CHILD,
    limit: 256 << 20,
    in_files: true,
};

/// A profile of one thread, in the processed format.
fn profile(samples: usize) -> Value {
    let stacks: Vec<usize> = (0..samples).map(|row| row % 2).collect();
    json!({
        "meta": {"preprocessedProfileVersion": 66, "interval": 1, "sampleUnits": {"threadCPUDelta": "ns"}},
        "libs": [],
        "threads": [{
            "name": "t", "processName": "p", "pid": "7", "tid": 7,
            "samples": {"length": samples, "stack": stacks, "timeDeltas": vec![1; samples]},
        }],
        "shared": {
            "stackTable": {"length": 2, "frame": [0, 1], "prefix": [null, 0]},
            "frameTable": {"length": 2, "func": [0, 1]},
            "funcTable": {"length": 2, "name": [0, 1]},
            "stringArray": ["main", "work"],
        },
    })
}

/// A file as `node --cpu-prof` writes it.
fn cpu_profile(samples: usize) -> Value {
    let node = |id: usize, name: &str, children: &[usize]| json!({"id": id, "children": children, "callFrame": {"functionName": name, "url": "a.js", "lineNumber": 1, "columnNumber": 1}});
    let stacks: Vec<usize> = (0..samples).map(|row| 1 + row % 2).collect();
    json!({
        "nodes": [node(1, "main", &[2]), node(2, "work", &[])],
        "startTime": 0, "endTime": samples * 10, "samples": stacks, "timeDeltas": vec![10; samples],
    })
}

fn write_json(directory: &Path, name: &str, value: &Value) -> anyhow::Result<()> {
    Ok(fs::write(directory.join(name), value.to_string())?)
}

/// The command in a directory, with the default action of all signals.
fn command(directory: &Path, words: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(tools::profiler()?);
    command.args(words).current_dir(directory);
    command
        .env("TERM", "xterm-256color")
        .env_remove("NO_COLOR")
        .env("XDG_CACHE_HOME", tools::cache()?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    tools::with_default_signals(&mut command);
    Ok(command)
}

/// A session with one child that has recorded, whose processes have been killed.
fn dead_session(records: &str) -> anyhow::Result<ProcessTree> {
    let mut tree = ProcessTree::start(&OPTIONS, |_| {})?;
    tree.spawn_kids(&OPTIONS, 1)?;
    for kid in &mut tree.kids {
        kid.ask(records)?;
    }
    tree.kill_all()?;
    Ok(tree)
}

/// What the command writes to standard error: on a terminal, and into a pipe.
fn on_terminal_and_not(directory: &Path, words: &[&str]) -> anyhow::Result<(String, String)> {
    let terminal = Terminal::open()?;
    let mut on_terminal = command(directory, words)?;
    let child = on_terminal.stderr(terminal.stream()?).spawn()?;
    drop(on_terminal);
    ensure!(child.wait_with_output()?.status.success(), "{words:?}");
    let piped = command(directory, words)?.stderr(Stdio::piped()).output()?;
    ensure!(piped.status.success(), "{words:?}");
    Ok((terminal.text()?, String::from_utf8(piped.stderr)?))
}

#[test]
fn long_work_has_a_line_on_a_terminal_and_writes_nothing_elsewhere() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    write_json(directory.path(), "a.json", &profile(1000))?;
    write_json(directory.path(), "b.cpuprofile", &cpu_profile(1000))?;
    for words in [
        &["info", "a.json"][..],
        &["export", "a.json", "--to", "folded"],
        &["diff", "a.json", "a.json"],
        &["import", "b.cpuprofile"],
    ] {
        let (terminal, pipe) = on_terminal_and_not(directory.path(), words)?;
        let file = words[1..].iter().find(|word| word.contains('.'));
        let wanted = format!("reading {}: ", file.context("no file")?);
        assert!(terminal.contains(&wanted), "{words:?}: {terminal:?}");
        assert_eq!(pipe, "", "{words:?}");
    }
    Ok(())
}

#[test]
fn the_line_says_which_library_is_searched_for_names() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    // A profile in the Gecko format, with an address of this program.
    let program = std::env::current_exe()?;
    let path = program.to_str().context("no text")?;
    let lib = json!({"name": "all", "path": path, "debugName": "all", "debugPath": path, "breakpadId": "0", "arch": "",
        "start": 0, "end": 1_u64 << 40, "offset": 0});
    let thread = json!({
        "name": "GeckoMain", "pid": 7, "tid": 7,
        "samples": {"schema": {"stack": 0, "time": 1}, "data": [[0, 1]]},
        "markers": {"schema": {"name": 0}, "data": []},
        "frameTable": {"schema": {"location": 0}, "data": [[0]]},
        "stackTable": {"schema": {"prefix": 0, "frame": 1}, "data": [[null, 0]]},
        "stringTable": ["0x1000"],
    });
    let gecko = json!({"meta": {"version": 31, "interval": 1}, "libs": [lib], "threads": [thread], "processes": []});
    write_json(directory.path(), "gecko.json", &gecko)?;
    let (terminal, _) = on_terminal_and_not(directory.path(), &["info", "gecko.json"])?;
    let name = program.file_name().context("no name")?.to_string_lossy();
    let wanted = format!("names: 1 of 1 libraries ({name})");
    assert!(terminal.contains(&wanted), "{terminal:?}");
    Ok(())
}

#[test]
fn a_recovery_says_what_it_reads_and_writes() -> anyhow::Result<()> {
    own_process!();
    let tree = dead_session("record 1 100")?;
    let directory = tempfile::tempdir()?;
    let pools = tree.pools.clone().context("no pools")?;
    let pools = pools.to_str().context("no text")?;
    let words = ["recover", pools, "-o", "out.json"];
    let (terminal, pipe) = on_terminal_and_not(directory.path(), &words)?;
    for wanted in ["reading its memory", "writing: 1 of 2 processes"] {
        assert!(terminal.contains(wanted), "{wanted}: {terminal:?}");
    }
    assert_eq!(pipe, "");
    Ok(())
}

/// Makes the program that the command started record entries in two threads.
fn record(program: &mut impl Write, said: &mut impl BufRead, entries: usize) -> anyhow::Result<()> {
    writeln!(program, "record 2 {entries}")?;
    for expected in ["Recording", "ok"] {
        let mut line = String::new();
        said.read_line(&mut line)?;
        ensure!(line.starts_with(expected), "{line}");
    }
    Ok(())
}

#[test]
fn a_capture_says_what_it_reads_and_writes() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let terminal = Terminal::open()?;
    let words = ["record", "-o", "out.json", "--", CHILD, "init"];
    let mut recording = command(directory.path(), &words)?;
    let mut child = recording.stderr(terminal.stream()?).spawn()?;
    drop(recording);
    let mut program = child.stdin.take().context("no pipe")?;
    let mut said = BufReader::new(child.stdout.take().context("no pipe")?);
    // A program that has recorded nothing has no profile.
    record(&mut program, &mut said, 100)?;
    writeln!(program, "exit 0")?;
    ensure!(child.wait()?.success(), "it failed");
    let text = terminal.text()?;
    for wanted in ["reading its memory", "writing: 1 of 1 processes"] {
        assert!(text.contains(wanted), "{wanted}: {text:?}");
    }
    Ok(())
}

/// A recording of the helper, which obeys commands. Standard error is a terminal, and standard
/// output is the same one or a pipe.
fn recording_on(
    terminal: &Terminal,
    directory: &Path,
    words: &[&str],
    shares_terminal: bool,
) -> anyhow::Result<Child> {
    let record = ["record", "-o", "out.json"];
    let all = [&record[..], words, &["--", CHILD, "init"]].concat();
    let mut recording = command(directory, &all)?;
    recording.stderr(terminal.stream()?);
    if shares_terminal {
        recording.stdout(terminal.stream()?);
    }
    Ok(recording.spawn()?)
}

const LINE: &str = "recording 1 process, 0 ended; ";

#[test]
fn a_recording_shows_its_processes_on_a_terminal_and_not_in_the_output() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let terminal = Terminal::open()?;
    let mut child = recording_on(&terminal, directory.path(), &["--progress"], false)?;
    let mut program = child.stdin.take().context("no pipe")?;
    ensure!(until(|| terminal.so_far().contains(LINE)), "no line");
    writeln!(program, "exit 0")?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "it failed");
    assert_eq!(output.stdout, b"Recording\n");
    let text = terminal.text()?;
    assert!(text.contains(" of 128.0 MiB; 0 of "), "{text:?}");
    Ok(())
}

#[test]
fn the_message_of_a_capture_has_a_line_of_its_own() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let terminal = Terminal::open()?;
    let words = ["--progress", "--capture-on-signal", "USR2"];
    let mut child = recording_on(&terminal, directory.path(), &words, false)?;
    let mut program = child.stdin.take().context("no pipe")?;
    ensure!(until(|| terminal.so_far().contains(LINE)), "no line");
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::USR2)?;
    let end = "-flag.json.gz";
    ensure!(until(|| terminal.so_far().contains(end)), "no capture");
    writeln!(program, "exit 0")?;
    ensure!(child.wait()?.success(), "it failed");
    let text = terminal.text()?;
    let message = text.split(end).next().unwrap_or_default();
    let (before, _) = message.rsplit_once("profiler: ").context("no message")?;
    let same_line = before.rsplit(['\r', '\n']).next().unwrap_or_default();
    assert_eq!(same_line.replace("\u{1b}[2K", ""), "", "{text:?}");
    Ok(())
}

#[test]
fn a_program_has_the_lines_of_its_terminal_for_itself_unless_asked() -> anyhow::Result<()> {
    own_process!();
    // The last one began last, so the others had the time to show their lines when it shows its.
    let cases: [(&[&str], bool); 3] = [(&[], false), (&[], true), (&["--progress"], true)];
    let mut running = Vec::new();
    for (words, shares_terminal) in cases {
        let directory = tempfile::tempdir()?;
        let terminal = Terminal::open()?;
        let mut child = recording_on(&terminal, directory.path(), words, shares_terminal)?;
        let program = child.stdin.take().context("no pipe")?;
        running.push((words, terminal, child, program, directory));
    }
    let (_, asked, ..) = running.last().context("none")?;
    ensure!(until(|| asked.so_far().contains(LINE)), "no line");
    // A terminal's text ends when all processes have ended, which may have inherited it.
    let mut terminals = Vec::new();
    for (words, terminal, mut child, mut program, _directory) in running {
        writeln!(program, "exit 0")?;
        ensure!(child.wait()?.success(), "it failed");
        terminals.push((words, terminal));
    }
    for (words, terminal) in terminals {
        let text = terminal.text()?;
        assert_eq!(
            text.contains(LINE),
            !words.is_empty(),
            "{words:?}: {text:?}"
        );
    }
    Ok(())
}

#[test]
fn embedders_receive_the_events_of_captures_and_recoveries() -> anyhow::Result<()> {
    own_process!();
    use profiler_parent::CaptureEvent;
    let directory = tempfile::tempdir()?;
    let builder = profiler_parent::Session::builder().memory_limit(ByteLimit::new(16 << 20));
    let session = builder.start()?;
    let capture = session.capture();
    let events = capture.events();
    capture.save(directory.path().join("out.json"))?;
    let is_writing = |event: &CaptureEvent| {
        matches!(
            event,
            CaptureEvent::Writing {
                processes_done: 0,
                processes: 1,
                ..
            }
        )
    };
    assert!(events.into_iter().any(|event| is_writing(&event)));
    drop(session);
    let tree = dead_session("record 1 100")?;
    let pools = tree.pools.clone().context("no pools")?;
    for format in [
        profiler_parent::Format::Processed,
        profiler_parent::Format::Gecko,
    ] {
        let recovery = profiler_parent::recover::PoolRecovery::new(&pools).format(format);
        let events = recovery.events();
        recovery.save(directory.path().join("recovered.json"))?;
        let is_reading = |event: CaptureEvent| matches!(event, CaptureEvent::Progress { .. });
        assert!(events.into_iter().any(is_reading), "{format:?}");
    }
    Ok(())
}

/// Whether the directory has a temporary file of a profile.
fn has_part(directory: &Path) -> bool {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    files
        .into_iter()
        .any(|file| file.file_name().to_string_lossy().ends_with(".part"))
}

fn names(directory: &Path) -> anyhow::Result<Vec<String>> {
    let names = fs::read_dir(directory)?.map(|file| {
        let name = file?.file_name();
        Ok(name.to_string_lossy().into_owned())
    });
    let mut names: Vec<String> = names.collect::<anyhow::Result<_>>()?;
    names.sort();
    Ok(names)
}

/// Sends these signals to the command in the middle of writing. Returns how it ended, or `None` if
/// it was done before it could be stopped.
fn interrupt(
    child: &mut Child,
    directory: &Path,
    signals: &[Signal],
) -> anyhow::Result<Option<ExitStatus>> {
    let pid = Pid::from_raw(child.id().cast_signed()).context("no process")?;
    let mut ended = None;
    let seen = until(|| {
        ended = child.try_wait().ok().flatten();
        ended.is_some() || has_part(directory)
    });
    ensure!(seen, "it neither writes nor ends");
    if ended.is_some() {
        return Ok(None);
    }
    kill_process(pid, Signal::STOP)?;
    let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED)?.context("no status")?;
    if !status.stopped() {
        return Ok(None);
    }
    let is_writing = has_part(directory);
    for signal in signals {
        kill_process(pid, *signal)?;
    }
    kill_process(pid, Signal::CONT)?;
    let status = child.wait()?;
    Ok(Some(status).filter(|_| is_writing))
}

/// Interrupts commands, which `start` starts with larger and larger inputs, until the signal ends a
/// command in the middle of its work. Each command must leave a complete file or no file.
fn leaves_no_half_file(
    directory: &Path,
    inputs: &[&str],
    mut start: impl FnMut(usize) -> anyhow::Result<Child>,
    signals: &[Signal],
) -> anyhow::Result<()> {
    let begin = Stopwatch::start();
    for size in (1..).map(|tries| 20_000 << usize::min(tries, 6)) {
        let mut child = start(size)?;
        let ended = interrupt(&mut child, directory, signals)?;
        let left: Vec<String> = names(directory)?;
        ensure!(!left.iter().any(|name| name.ends_with(".part")), "{left:?}");
        if let Some(status) = ended
            && let Some(signal) = status.signal()
        {
            ensure!(signals.iter().any(|one| one.as_raw() == signal), "{status}");
            ensure!(left == inputs, "{left:?}");
            return Ok(());
        }
        ensure!(
            begin.elapsed() < integration_tests::patience::LONG,
            "it always ends before the signal"
        );
        for name in left.iter().filter(|name| !inputs.contains(&name.as_str())) {
            fs::remove_file(directory.join(name))?;
        }
    }
    bail!("unreachable")
}

fn spawn(directory: &Path, words: &[&str]) -> anyhow::Result<Child> {
    let mut command = command(directory, words)?;
    Ok(command.stderr(Stdio::piped()).spawn()?)
}

#[test]
fn ctrl_c_during_an_export_leaves_no_half_file() -> anyhow::Result<()> {
    for target in ["folded", "pprof", "chrome-trace"] {
        let directory = tempfile::tempdir()?;
        let start = |size| {
            write_json(directory.path(), "a.json", &profile(size))?;
            let words = ["export", "a.json", "--to", target, "-o", "out"];
            spawn(directory.path(), &words)
        };
        leaves_no_half_file(directory.path(), &["a.json"], start, &[Signal::INT])?;
    }
    Ok(())
}

#[test]
fn ctrl_c_during_an_import_leaves_no_half_file() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let start = |size| {
        write_json(directory.path(), "a.cpuprofile", &cpu_profile(size))?;
        spawn(directory.path(), &["import", "a.cpuprofile"])
    };
    leaves_no_half_file(directory.path(), &["a.cpuprofile"], start, &[Signal::INT])
}

#[test]
fn ctrl_c_during_a_recovery_leaves_no_half_file() -> anyhow::Result<()> {
    own_process!();
    let tree = dead_session("record 2 20000")?;
    let pools = tree.pools.clone().context("no pools")?;
    let pools = pools.to_str().context("no text")?.to_owned();
    for format in ["processed", "gecko"] {
        let directory = tempfile::tempdir()?;
        let words = ["recover", &pools, "-o", "out.json.gz", "--format", format];
        let start = |_| spawn(directory.path(), &words);
        leaves_no_half_file(directory.path(), &[], start, &[Signal::INT])?;
    }
    Ok(())
}

#[test]
fn a_second_signal_during_a_capture_leaves_no_half_file() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let start = |size: usize| {
        let words = ["record", "-o", "out.json.gz", "--", CHILD, "init"];
        let mut child = spawn(directory.path(), &words)?;
        let mut program = child.stdin.take().context("no pipe")?;
        let mut said = BufReader::new(child.stdout.take().context("no pipe")?);
        record(&mut program, &mut said, size / 2)?;
        // The file that is written from now on is the profile.
        writeln!(program, "exit 0")?;
        Ok(child)
    };
    // The second of two different signals: two equal ones would be one.
    leaves_no_half_file(directory.path(), &[], start, &[Signal::INT, Signal::TERM])
}
