//! Runs a program with the library, and reads its files while it runs and after its end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use profiler_observed::file::{ObservedFile, ObservedHeader, ObservedText, ObservedThread};
use profiler_observed::layout::{IS_CUT, SampleHead};
use profiler_observed::{LIBRARY, Observation, VARIABLE};

/// The signal that the tests ask for.
pub(crate) const SIGNAL: u8 = 61;
const INTERVAL_NS: u64 = 2_000_000;

/// A session's directory, and the library in a file.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) directory: tempfile::TempDir,
    library: PathBuf,
}

/// A sample with its stack.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) head: SampleHead,
    pub(crate) stack: Vec<u64>,
}

impl Sample {
    pub(crate) fn is_cut(&self) -> bool {
        self.head.flags & IS_CUT != 0
    }
}

/// All that the file of one program has told.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) header: ObservedHeader,
    pub(crate) text: ObservedText,
    pub(crate) rows: Vec<ObservedThread>,
    pub(crate) samples: Vec<Sample>,
}

impl Program {
    /// The processor time in samples of a thread's row, in nanoseconds.
    pub(crate) fn sampled_ns(&self, row: u32) -> u64 {
        let began = self.rows[row as usize].began_cpu_ns;
        let own = self.samples.iter().filter(|sample| sample.head.row == row);
        own.map(|sample| sample.head.cpu_ns - began)
            .max()
            .unwrap_or(0)
    }

    /// The processor time that the program used, as it has stored it.
    pub(crate) fn used_ns(&self) -> u64 {
        self.header.ended_cpu_ns - self.header.began_cpu_ns
    }
}

impl Session {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let library = directory.path().join("library.so");
        fs::write(&library, LIBRARY).unwrap();
        fs::create_dir(directory.path().join("files")).unwrap();
        Self { directory, library }
    }

    pub(crate) fn files(&self) -> PathBuf {
        self.directory.path().join("files")
    }

    pub(crate) fn value(&self) -> OsString {
        let directory = self.files();
        Observation {
            directory: &directory,
            signal: SIGNAL,
            interval_ns: INTERVAL_NS,
            uses_cycle_counter: true,
            records_crashes: false,
        }
        .value()
        .unwrap()
    }

    /// A command that runs with the library.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env("LD_PRELOAD", &self.library)
            .env(VARIABLE, self.value());
        command
    }

    /// Runs the test program in a mode, and reads its files meanwhile.
    pub(crate) fn run(&self, arguments: &[&str]) -> (Output, Vec<Program>) {
        let mut command = self.command(test_program());
        self.run_command(command.args(arguments))
    }

    /// The same for any command.
    pub(crate) fn run_command(&self, command: &mut Command) -> (Output, Vec<Program>) {
        let mut reader = Reader::default();
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        while child.try_wait().unwrap().is_none() {
            reader.pass(&self.files());
            std::thread::sleep(Duration::from_millis(5));
        }
        reader.pass(&self.files());
        (child.wait_with_output().unwrap(), reader.finish())
    }
}

/// Repeats a run until its samples are enough, at most ten times, and returns the last one.
///
/// A virtual machine lets the timers of processor time pause, for longer than a short program
/// runs, and a reader that is late has the ring refuse samples.
pub(crate) fn run_until(
    enough: impl Fn(&[Program]) -> bool,
    run: impl Fn() -> (Output, Vec<Program>),
) -> (Output, Vec<Program>) {
    for _ in 1..10 {
        let ran = run();
        if enough(&ran.1) {
            return ran;
        }
    }
    run()
}

/// Reads all files of a directory.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    files: BTreeMap<PathBuf, (ObservedFile, Vec<Sample>)>,
}

impl Reader {
    /// Opens new files, and empties all rings.
    pub(crate) fn pass(&mut self, directory: &Path) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if !self.files.contains_key(&path)
                && let Ok(mut file) = ObservedFile::open(&path)
            {
                file.grant(15).unwrap();
                self.files.insert(path, (file, Vec::new()));
            }
        }
        for (file, samples) in self.files.values_mut() {
            file.drain(|head, stack| {
                let words = stack.as_chunks::<8>().0.iter();
                let stack = words.map(|word| u64::from_ne_bytes(*word)).collect();
                samples.push(Sample { head: *head, stack });
            })
            .unwrap();
        }
    }

    /// What the files have told, in the order of the programs' starts.
    pub(crate) fn finish(self) -> Vec<Program> {
        let mut programs: Vec<Program> = self.files.into_values().map(program).collect();
        programs.sort_by_key(|program| program.header.began);
        programs
    }
}

fn program((file, samples): (ObservedFile, Vec<Sample>)) -> Program {
    let rows = (0..64)
        .map(|row| file.thread(row).unwrap().unwrap())
        .collect();
    Program {
        header: file.header().unwrap(),
        text: file.text().unwrap(),
        rows,
        samples,
    }
}

/// The program that most tests run.
pub(crate) fn test_program() -> &'static Path {
    static PROGRAM: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = PROGRAM.get_or_init(|| compiled("program"));
    path
}

/// Compiles a program of `tests/programs`.
pub(crate) fn compiled(name: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs");
    let compiled = Command::new("cc")
        .args([
            "-O1",
            "-fno-omit-frame-pointer",
            "-Wno-deprecated-declarations",
            "-pthread",
            "-o",
        ])
        .arg(&path)
        .arg(format!("{source}/{name}.c"))
        .status();
    assert!(compiled.unwrap().success());
    (directory, path)
}

/// A number that the program has printed behind a word.
pub(crate) fn printed(output: &Output, word: &str) -> u64 {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(word));
    let number = line
        .unwrap_or_else(|| panic!("no {word} in {text:?}"))
        .trim();
    match number.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
        None => number.parse().unwrap(),
    }
}
