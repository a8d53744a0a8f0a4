//! Tests of the example `index_tree`: its counts, its profile, and its errors; and of the usage of
//! the example `plugin_host`.
//!
//! Cargo builds the examples before it runs all tests. To run only this file, build the example
//! first: `cargo build -p profiler-parent --examples`.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::{TempDir, tempdir};
use test_support::own_process;

fn example() -> PathBuf {
    example_named("index_tree")
}

fn example_named(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(
        built.exists(),
        "not built: cargo build -p profiler-parent --examples"
    );
    built
}

#[test]
fn the_plugin_host_says_how_it_is_used() {
    let directory = tempdir().unwrap();
    for (argument, code) in [("--help", 0), ("soon", 2)] {
        let said = Command::new(example_named("plugin_host"))
            .arg(argument)
            .env("RUST_BACKTRACE", "1")
            .current_dir(directory.path())
            .output()
            .unwrap();
        assert_eq!(said.status.code(), Some(code), "{said:?}");
        let text = [said.stdout, said.stderr].concat();
        assert_eq!(
            String::from_utf8_lossy(&text),
            "usage: plugin_host [SECONDS]\n"
        );
    }
}

/// Runs the example in a directory, to which it writes files by default.
fn run(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(example())
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A tree with 21 files with words, one binary file, and directories and a link that must be
/// skipped.
fn tree() -> TempDir {
    let root = tempdir().unwrap();
    for directory in ["a/deep", "b", ".git", "target", "a/node_modules"] {
        fs::create_dir_all(root.path().join(directory)).unwrap();
        fs::write(root.path().join(directory).join("some.txt"), "hidden").unwrap();
    }
    for number in 0..19 {
        fs::write(
            root.path().join(format!("b/{number}")),
            "The common word, the COMMON word.\n",
        )
        .unwrap();
    }
    fs::write(root.path().join("binary"), b"not\0words").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(root.path().join("b"), root.path().join("link")).unwrap();
    root
}

const FILES: u64 = 22;

fn profile(file: &Path) -> Value {
    let bytes = fs::read(file).unwrap();
    if file.extension().is_some_and(|extension| extension == "gz") {
        let mut text = String::new();
        flate2::read::GzDecoder::new(&bytes[..])
            .read_to_string(&mut text)
            .unwrap();
        return serde_json::from_str(&text).unwrap();
    }
    serde_json::from_slice(&bytes).unwrap()
}

fn array<'a>(value: &'a Value, key: &str) -> &'a Vec<Value> {
    value[key].as_array().unwrap()
}

/// The number of markers with this payload type, in all processes whose name begins with `process`.
fn markers_of_type(profile: &Value, process: &str, wanted: &str) -> u64 {
    let is_of_process =
        |thread: &Value| thread["processName"].as_str().unwrap().starts_with(process);
    let threads = array(profile, "threads")
        .iter()
        .filter(|thread| is_of_process(thread));
    let payloads = threads.flat_map(|thread| array(&thread["markers"], "data"));
    payloads.filter(|payload| payload["type"] == wanted).count() as u64
}

/// The number of processes whose name begins with `process`.
fn processes(profile: &Value, process: &str) -> usize {
    let mains = array(profile, "threads")
        .iter()
        .filter(|thread| thread["isMainThread"] == true);
    mains
        .filter(|main| main["processName"].as_str().unwrap().starts_with(process))
        .count()
}

#[test]
fn every_indexed_file_has_a_marker_in_the_profile() {
    own_process!();
    let tree = tree();
    let place = tempdir().unwrap();
    let text = stdout(&run(
        place.path(),
        &[tree.path().to_str().unwrap(), "--workers", "3"],
    ));
    assert!(text.contains(&format!("indexed {FILES} files, ")), "{text}");
    let profile = profile(&place.path().join("profile.json.gz"));
    assert_eq!(processes(&profile, "worker"), 3);
    assert_eq!(markers_of_type(&profile, "worker", "File"), FILES);
    assert_eq!(markers_of_type(&profile, "index_tree", "File"), 0);
}

#[test]
fn words_and_bytes_of_all_files_are_counted() {
    own_process!();
    let tree = tree();
    let place = tempdir().unwrap();
    let text = stdout(&run(
        tree.path(),
        &["--out", place.path().join("p.json").to_str().unwrap()],
    ));
    let lines: Vec<_> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .collect();
    assert_eq!(
        lines[..4],
        [
            ["38", "common"],
            ["38", "the"],
            ["38", "word"],
            ["2", "hidden"]
        ]
    );
    let bytes = 19 * 34 + 2 * 6 + 9;
    assert!(
        text.contains(&format!("indexed {FILES} files, {bytes} bytes, 116 words")),
        "{text}"
    );
}

#[test]
fn every_process_has_a_line_that_accounts_for_its_entries() {
    own_process!();
    let tree = tree();
    let place = tempdir().unwrap();
    let text = stdout(&run(
        place.path(),
        &[tree.path().to_str().unwrap(), "--workers", "2"],
    ));
    for name in ["index_tree", "worker 1", "worker 2"] {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap();
        let cells: Vec<_> = line.split_whitespace().collect();
        let [threads, recorded, delivered] = [1, 2, 3].map(|cell| cells[cell].parse().unwrap());
        let unfinished: u64 = recorded - delivered;
        assert!(unfinished <= threads, "at most one of each thread: {line}");
        assert_eq!(cells[4..], ["0", "0", "complete"], "{line}");
    }
}

#[test]
fn the_expectation_is_written_on_request() {
    own_process!();
    let tree = tree();
    let place = tempdir().unwrap();
    let text = stdout(&run(
        place.path(),
        &[tree.path().to_str().unwrap(), "--expect", "expect.json"],
    ));
    let expected = profile(&place.path().join("expect.json"));
    let files = array(&expected, "processes")
        .iter()
        .filter_map(|process| process["markers"]["File"].as_u64());
    assert_eq!(files.sum::<u64>(), FILES, "{text}\n{expected:#}");
    assert!(
        !array(&expected, "markerLabels").is_empty(),
        "{text}\n{expected:#}"
    );
}

#[test]
fn lost_entries_are_counted_under_a_small_limit() {
    own_process!();
    let tree = tree();
    let place = tempdir().unwrap();
    for number in 0..3000 {
        fs::write(tree.path().join(format!("a/deep/{number}")), "more words").unwrap();
    }
    let limit = ["--memory-limit", "262144", "--out", "p.json"];
    let text = stdout(&run(
        place.path(),
        &[&[tree.path().to_str().unwrap()], &limit[..]].concat(),
    ));
    let mut lost = 0;
    for line in text.lines().filter_map(|line| line.strip_prefix("worker ")) {
        let cells: Vec<u64> = line
            .split_whitespace()
            .map_while(|cell| cell.parse().ok())
            .collect();
        let [_, _, _, recorded, delivered, evicted, dropped] = cells[..] else {
            panic!("{line}")
        };
        assert!(
            recorded - delivered - evicted - dropped <= 3,
            "more than one unfinished entry per thread: {line}"
        );
        lost += evicted + dropped;
    }
    assert!(lost > 0, "{text}");
}

#[test]
fn an_impossible_request_gives_one_line_and_leaves_no_file() {
    own_process!();
    let place = tempdir().unwrap();
    fs::create_dir(place.path().join("directory")).unwrap();
    for arguments in [
        &["nowhere"][..],
        &[".", "--workers", "0"],
        &[".", "--workers", "many"],
        &[".", "--out", "nowhere/profile.json"],
        &[".", "--out", "directory"],
        &[".", "--memory-limit", "1000"],
        &[".", "--expect", "nowhere/expect.json"],
        &["--unknown"],
    ] {
        let output = run(place.path(), arguments);
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {complaint}");
        assert_eq!(complaint.lines().count(), 1, "{arguments:?}: {complaint}");
        assert!(
            complaint.starts_with("index_tree: "),
            "{arguments:?}: {complaint}"
        );
        assert_eq!(
            fs::read_dir(place.path()).unwrap().count(),
            1,
            "{arguments:?}"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_worker_that_dies_is_named_and_the_profile_is_still_written() {
    own_process!();
    use std::process::Stdio;
    let tree = tree();
    let place = tempdir().unwrap();
    // A worker reads a file that takes hours, until it is killed.
    let endless = tree.path().join("b/0");
    fs::write(&endless, "text ".repeat(1 << 20)).unwrap();
    fs::File::options()
        .write(true)
        .open(&endless)
        .unwrap()
        .set_len(1 << 42)
        .unwrap();
    let mut example = Command::new(example());
    example
        .arg(tree.path())
        .args(["--workers", "2"])
        .current_dir(place.path());
    let example = example
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    kill_reader_of(&endless);
    let output = example.wait_with_output().unwrap();
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(
        complaint.contains("ended by signal 9 (SIGKILL)"),
        "{complaint}"
    );
    let profile = profile(&place.path().join("profile.json.gz"));
    assert_eq!(processes(&profile, "worker"), 2);
    assert_eq!(
        markers_of_type(&profile, "index_tree", "IncompleteProcess"),
        1
    );
}

/// Waits until a process has the file open, and kills it.
#[cfg(target_os = "linux")]
fn kill_reader_of(file: &Path) {
    let has_open = |process: &fs::DirEntry| {
        let open = fs::read_dir(process.path().join("fd"))
            .into_iter()
            .flatten()
            .flatten();
        open.filter_map(|fd| fs::read_link(fd.path()).ok())
            .any(|target| target == file)
    };
    for _ in 0..12_000 {
        let reader = fs::read_dir("/proc").unwrap().flatten().find(has_open);
        if let Some(pid) = reader.and_then(|process| process.file_name().to_str()?.parse().ok()) {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            return rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("no process opens {}", file.display());
}
