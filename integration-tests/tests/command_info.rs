//! Tests of `profiler info` on saved profiles in both formats.
//!
//! The command prints the processes, their losses, and the functions that take the most time. It
//! names addresses with the symbols of this machine, and its memory does not grow with the number
//! of markers. `recover` tests the same command on pools.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use integration_tests::helper_process::HelperProcess;
use integration_tests::own_process;
use integration_tests::profile::same_rows;
use integration_tests::{session, tools};
use serde_json::{Value, json};

/// Threads of the profile; each runs one of its functions.
const THREADS: usize = 4;
/// Samples of each thread.
const SAMPLES: usize = 1000;
/// The number of samples, of every ten, in which this function is innermost.
const SHARES: [(usize, &str); 3] = [(5, "app::half"), (3, "app::third"), (2, "libx.so+0x40")];

/// The stack of a sample: stack 0 is `main`, each other stack is a function called by `main`.
fn stack(sample: usize) -> usize {
    let mut place = sample % 10;
    for (number, (share, _)) in SHARES.iter().enumerate() {
        if place < *share {
            return number + 1;
        }
        place -= share;
    }
    0
}

/// The gathering log of a session with a parent and a crashed child.
fn log() -> Value {
    let row = |name: &str, pid: u64, verdict: &str| {
        json!({"name": name, "pid": pid, "verdict": verdict, "present": true, "threads": 2, "writing_ms": 1,
               "recorded": 2010, "delivered": 2000, "outside": 0, "evicted": 7, "unfinished": 1, "dropped": {"budget": 2}})
    };
    let rows = [
        row("parent", 1, "complete"),
        row("child", 2, "recovered: ended by signal 9 (SIGKILL)"),
    ];
    json!({"1": {"events": [[1.5, "began"]], "processes": rows}})
}

/// A profile of two processes with two threads each, in the Gecko format.
fn gecko() -> Value {
    let samples: Vec<Value> = (0..SAMPLES)
        .map(|n| json!([stack(n), n as f64, 0, if n % 10 < 9 { 900_000 } else { 0 }]))
        .collect();
    let thread = |number: usize| {
        json!({
            "name": if number.is_multiple_of(2) { "GeckoMain" } else { "worker" }, "pid": number / 2 + 1, "tid": number,
            "samples": {"schema": {"stack": 0, "time": 1, "eventDelay": 2, "threadCPUDelta": 3}, "data": samples},
            "markers": {"schema": {"name": 0, "data": 5}, "data": [[0, 1, null, 0, 0, {"type": "Text", "threads": [1]}]]},
            "frameTable": {"schema": {"location": 0}, "data": [[0], [1], [2], [3]]},
            "stackTable": {"schema": {"prefix": 0, "frame": 1}, "data": [[null, 0], [0, 1], [0, 2], [0, 3]]},
            "stringTable": ["app::main", SHARES[0].1, SHARES[1].1, "0x10040"],
        })
    };
    let libs = json!([{"name": "libx.so", "start": 0x10000, "end": 0x20000, "offset": 0, "breakpadId": "AB0"}]);
    let meta = json!({"version": 31, "interval": 1, "product": "x", "sampleUnits": {"time": "ms", "threadCPUDelta": "ns"}});
    json!({
        "processes": [{"threads": [thread(2), thread(3)], "libs": libs, "meta": meta, "processes": []}],
        "libs": libs, "threads": [thread(0), thread(1)], "profileGatheringLog": log(), "meta": meta,
    })
}

/// The same profile in the processed format.
fn processed() -> Value {
    let column = |of: fn(usize) -> Value| (0..SAMPLES).map(of).collect::<Vec<Value>>();
    let thread = |number: usize| {
        json!({
            "name": "t", "isMainThread": number.is_multiple_of(2), "pid": (number / 2 + 1).to_string(), "tid": number,
            "samples": {
                "length": SAMPLES, "weight": null, "weightType": "samples", "timeDeltas": column(|_| json!(1)),
                "stack": column(|n| json!(stack(n))),
                "threadCPUDelta": column(|n| json!(if n % 10 < 9 { 900_000 } else { 0 })),
            },
            "markers": {"length": 1, "name": [0], "data": [{"stack": [1, 2]}]},
        })
    };
    let threads: Vec<Value> = (0..THREADS).map(thread).collect();
    json!({
        "meta": {"preprocessedProfileVersion": 66, "version": 31, "interval": 1, "sampleUnits": {"threadCPUDelta": "ns"}},
        "libs": [{"name": "libx.so"}], "threads": threads, "counters": [{"samples": {"count": [1, 2]}}],
        "shared": {
            "stackTable": {"length": 4, "frame": [0, 1, 2, 3], "prefixOffset": [0, 1, 2, 3]},
            "frameTable": {"length": 4, "func": [0, 1, 2, 3], "address": [1, 2, 3, 64], "line": [1, 2, 3, null]},
            "funcTable": {"length": 4, "name": [0, 1, 2, 3], "resource": [-1, -1, -1, 0], "lineNumber": [1, 2, 3, null]},
            "resourceTable": {"length": 1, "name": [4], "lib": [0]},
            "stringArray": ["app::main", SHARES[0].1, SHARES[1].1, SHARES[2].1, "libx.so"],
        },
        "profileGatheringLog": log(),
    })
}

fn write(directory: &Path, name: &str, profile: &Value) -> anyhow::Result<PathBuf> {
    let path = directory.join(name);
    let mut file = profiler_files::output::ProfileFile::create(&path)?;
    file.write_all(&serde_json::to_vec(profile)?)?;
    file.commit()?;
    Ok(path)
}

#[test]
fn the_functions_that_take_the_most_time_are_shown_in_either_format() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let files = [
        ("gecko.json", gecko()),
        ("gecko.json.gz", gecko()),
        ("processed.json", processed()),
        ("processed.json.gz", processed()),
    ];
    for (name, profile) in files {
        let path = write(directory.path(), name, &profile)?;
        let info = tools::info(&path)?;
        let samples = &info["samples"];
        assert_eq!(samples["count"], (THREADS * SAMPLES) as f64, "{name}");
        assert_eq!(samples["time"], "cpu", "{name}");
        let top = samples["top"].as_array().context("no functions")?;
        let near = |value: &Value, expected: f64| {
            value
                .as_f64()
                .is_some_and(|value| (value - expected).abs() < 0.2)
        };
        // One of ten samples takes no processor time. It is one of the last function.
        for (row, (share, function)) in
            top.iter()
                .zip([(5.0, SHARES[0].1), (3.0, SHARES[1].1), (1.0, SHARES[2].1)])
        {
            assert_eq!(row["function"], function, "{name}: {info}");
            assert!(
                near(&row["self_percent"], share / 9.0 * 100.0),
                "{name}: {row}"
            );
            assert_eq!(row["self_percent"], row["total_percent"], "{name}: {row}");
        }
        assert_eq!((&top[3]["function"], top.len()), (&json!("app::main"), 4));
        assert!(
            near(&top[3]["total_percent"], 100.0) && near(&top[3]["self_ms"], 0.0),
            "{name}: {top:?}"
        );
        same_rows(&info["processes"], &log()["1"]["processes"]).context(name)?;
        let text = tools::run(&[
            "info",
            "--top",
            "2",
            "--by",
            "wall",
            &path.to_string_lossy(),
        ])?;
        let last: Vec<&str> = text.out.lines().rev().take(3).collect();
        assert!(
            last[1].contains("app::half") && last[1].contains("50.0"),
            "{text:?}"
        );
        assert!(
            last[0].contains("app::third") && last[0].contains("30.0"),
            "{text:?}"
        );
        assert!(
            last[2].contains("self ms"),
            "more than two functions: {text:?}"
        );
    }
    Ok(())
}

#[inline(never)]
fn a_known_function(number: u64) -> u64 {
    std::hint::black_box(number) * 3
}

/// The address of this program's first byte.
fn own_base(program: &str) -> anyhow::Result<u64> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let line = maps
        .lines()
        .find(|line| line.ends_with(program))
        .context("not mapped")?;
    Ok(u64::from_str_radix(
        line.split('-').next().context("no range")?,
        16,
    )?)
}

/// The build id from the note of a program, in hexadecimal.
fn code_id(program: &str) -> anyhow::Result<String> {
    const NOTE: &[u8] = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0";
    let bytes = fs::read(program)?;
    let at = bytes
        .windows(NOTE.len())
        .position(|window| window == NOTE)
        .context("no build id")?;
    let id = bytes[at + NOTE.len()..].iter().take(20);
    Ok(id.map(|byte| format!("{byte:02x}")).collect())
}

#[test]
fn addresses_get_the_names_that_this_machine_has_for_them() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let program = std::env::current_exe()?.to_string_lossy().into_owned();
    let base = own_base(&program)?;
    let address = a_known_function as fn(u64) -> u64 as usize as u64;
    let mut lib = json!({"name": "program", "path": program, "start": base, "end": base + (1 << 30), "offset": 0});
    lib["codeId"] = code_id(&program).map_or(Value::Null, Value::from);
    let gone = json!({"name": "libgone.so", "path": "/nowhere/libgone.so", "start": 4096, "end": 8192, "offset": 0});
    let profile = json!({
        "processes": [], "libs": [lib, gone], "meta": {"version": 31, "interval": 1},
        "threads": [{
            "name": "GeckoMain", "pid": 1, "tid": 1,
            "samples": {"schema": {"stack": 0, "time": 1}, "data": [[1, 1.0], [1, 2.0], [2, 3.0]]},
            "markers": {"schema": {}, "data": []},
            "frameTable": {"schema": {"location": 0}, "data": [[0], [1], [2]]},
            "stackTable": {"schema": {"prefix": 0, "frame": 1}, "data": [[null, 0], [0, 1], [null, 2]]},
            // The return address of a call follows the call, so the command subtracts a byte.
            "stringTable": [format!("{:#x}", address + 1), format!("{address:#x}"), "0x1010"],
        }],
    });
    let path = write(directory.path(), "named.json", &profile)?;
    let info = tools::info(&path)?;
    let top = info["samples"]["top"].as_array().context("no functions")?;
    let name = top[0]["function"].as_str().context("no name")?;
    assert!(name.ends_with("a_known_function"), "{info}");
    assert_eq!(
        (&top[0]["self_samples"], &top[0]["total_samples"]),
        (&json!(2.0), &json!(2.0)),
        "a function is counted more than once in a stack"
    );
    assert_eq!(top[1]["function"], "libgone.so+0x10");
    let nameless = info["samples"]["nameless"]
        .as_array()
        .context("the other library is not listed as nameless")?;
    assert_eq!(
        (nameless.len(), &nameless[0]["library"]),
        (1, &json!("libgone.so")),
        "{info}"
    );
    let plain = tools::run(&["info", "--no-names", &path.to_string_lossy()])?;
    assert!(
        plain.out.contains("program+0x") && !plain.out.contains("no names for"),
        "{plain:?}"
    );
    let said = tools::run(&["info", &path.to_string_lossy()])?;
    assert!(
        said.out.contains("no names for libgone.so: cannot read"),
        "{said:?}"
    );
    Ok(())
}

#[test]
fn a_profile_with_very_many_markers_needs_no_more_memory() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("large.json");
    let mut file = std::io::BufWriter::new(fs::File::create(&path)?);
    let head = serde_json::to_string(&gecko())?;
    let (before, after) = head
        .split_once(r#""data":[[0,1,null,0,0,"#)
        .context("no markers")?;
    write!(file, r#"{before}"data":["#)?;
    for number in 0..600_000 {
        write!(
            file,
            r#"[0,{number}.125,null,0,0,{{"type":"Text","name":"a text that is not kept, {number}"}}],"#
        )?;
    }
    write!(file, "[0,1,null,0,0,{after}")?;
    drop(file);
    let length = path.metadata()?.len();
    // Less than the file itself would need.
    let limited = format!(
        "ulimit -v {}; exec \"$0\" info \"$1\"",
        (length + (24 << 20)) / 1024
    );
    let mut command = std::process::Command::new("sh");
    let output = command
        .arg("-c")
        .arg(limited)
        .arg(tools::profiler()?)
        .arg(&path)
        .output()?;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(String::from_utf8(output.stdout)?.contains("app::half"));
    Ok(())
}

#[cfg(all(target_os = "linux", not(profiler_portable)))]
#[test]
fn processes_are_shown_as_a_tree_with_a_line_for_each_life() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let child = env!("CARGO_BIN_EXE_child");
    let mut helper = HelperProcess::spawn(&session, child, "spawned", "init")?;
    helper.ask("mark 5")?;
    // Another program of the same process.
    helper.tell("exec join")?;
    assert_eq!(helper.line()?, "Recording");
    integration_tests::joined::wait_until_connected(&session, helper.pid())?;
    helper.ask("mark 5")?;
    let pid = helper.pid().to_string();
    let (report, _) = session.capture()?;
    let text = tools::run(&["info", &report.path.to_string_lossy()])?.out;
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[1].starts_with("parent "), "{text}");
    let is_of_pid = |line: &&&str| line.split_ascii_whitespace().any(|word| word == pid);
    let lives = lines.iter().filter(is_of_pid);
    let lives: Vec<&&str> = lives.collect();
    assert_eq!(lives.len(), 2, "{text}");
    assert!(lives[0].starts_with("  spawned "), "{text}");
    assert!(lives[1].starts_with("  child "), "{text}");
    let info = tools::info(&report.path)?;
    let rows = info["processes"].as_array().context("no rows")?;
    let parents = rows
        .iter()
        .filter(|row| row["parent_pid"] == std::process::id());
    assert_eq!(parents.count(), 2, "{info}");
    Ok(())
}

#[test]
fn a_profile_without_samples_shows_its_processes() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = HelperProcess::spawn(&session, env!("CARGO_BIN_EXE_child"), "child", "init")?;
    helper.ask("record 2 100")?;
    let (report, _) = session.capture()?;
    let info = tools::info(&report.path)?;
    let rows = info["processes"].as_array().context("no rows")?;
    assert!(
        rows.iter()
            .any(|row| row["name"] == "child" && row["recorded"] == 200),
        "{info}"
    );
    Ok(())
}

#[test]
fn a_file_that_is_no_profile_is_reported_in_one_line() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let mut cases = vec![directory.path().join("missing.json")];
    let contents: [&[u8]; 6] = [
        b"",
        b"text",
        b"[]",
        br#"{"threads":[]}"#,
        br#"{"meta":{},"threads":["#,
        &[0x1f, 0x8b, 1, 2],
    ];
    for (number, content) in contents.iter().enumerate() {
        let path = directory.path().join(format!("{number}.json"));
        fs::write(&path, content)?;
        cases.push(path);
    }
    for path in &cases {
        let said = tools::run(&[Path::new("info"), path])?;
        assert_eq!(
            (said.code, said.out.as_str(), said.error.lines().count()),
            (Some(2), "", 1),
            "{said:?}"
        );
    }
    Ok(())
}

#[test]
fn names_in_a_profile_do_not_control_the_terminal() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let name = "\u{1b}[31m\u{9b}2J\nname";
    let thread = json!({
        "name": "t", "processName": name, "pid": "7", "tid": 7,
        "samples": {"length": 3, "stack": [0, 0, 0], "timeDeltas": [1, 1, 1]},
    });
    // The sum of the dropped entries has no room in 64 bits.
    let row = json!({"name": name, "pid": 7, "verdict": name, "threads": 1, "recorded": 1, "delivered": 1,
        "evicted": 0, "unfinished": 0, "dropped": {"one": u64::MAX, "other": u64::MAX}});
    let profile = json!({
        "meta": {"preprocessedProfileVersion": 66, "interval": 1},
        "threads": [thread],
        "profileGatheringLog": {"7": {"processes": [row]}},
        "shared": {
            "stackTable": {"length": 1, "frame": [0], "prefix": [null]},
            "frameTable": {"length": 1, "func": [0]},
            "funcTable": {"length": 1, "name": [0]},
            "stringArray": [name],
        },
    });
    let path = directory.path().join("names.json");
    fs::write(&path, profile.to_string())?;
    let path = path.to_str().context("no text")?;
    for words in [&["info", path][..], &["diff", path, path]] {
        let said = tools::run(words)?;
        assert_eq!((said.code, said.error.as_str()), (Some(0), ""), "{said:?}");
        assert!(said.out.contains("[31m"), "{said:?}");
        let controls = |letter: char| letter.is_control() && letter != '\n';
        assert!(!said.out.contains(controls), "{said:?}");
        assert!(
            !said.out.lines().any(|line| line.starts_with("name")),
            "{said:?}"
        );
    }
    Ok(())
}
