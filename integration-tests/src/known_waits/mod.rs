//! A program that measures how long each of its threads waits in each function, and the same times
//! from its profile.
//!
//! Used by the tests `waiting_time` and by the figures `known_waits`. The program is `program.c`.
//! It prints its measurements. In the profile, the times are the sums of the weights of samples.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::foreign::Workplace;
use crate::named_stacks::NamedStacks;
use crate::tools;

/// The source of the program.
pub const PROGRAM: &str = include_str!("program.c");
/// The function that stands for a thread's whole life.
const LIFE: &str = "life";

/// The time of each function of a thread, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownThread {
    /// By the functions' names.
    pub functions: BTreeMap<String, f64>,
    /// The time from the thread's start to its end.
    pub life_ms: f64,
}

/// The threads of a run, by the numbers of the process and of the thread.
pub type KnownThreads = BTreeMap<(u32, u32), KnownThread>;

/// What a run has printed, and what its profile says.
#[derive(Clone, Debug)]
pub struct KnownWaits {
    /// What the program measured.
    pub known: KnownThreads,
    /// What the profile says about the same threads and functions.
    pub recorded: KnownThreads,
}

impl KnownWaits {
    /// Records a run of the program in a new directory.
    ///
    /// # Errors
    /// When the program cannot be compiled or recorded, or a thread is not in the profile.
    pub fn record(
        mode: &str,
        seconds: f64,
        milliseconds: f64,
        records_itself: bool,
    ) -> Result<Self> {
        let place = Workplace::new()?;
        let program = compile(&place, ("known_waits", PROGRAM), records_itself)?;
        let program = program.to_str().context("a path that is no text")?;
        let (seconds, milliseconds) = (seconds.to_string(), milliseconds.to_string());
        let mut command = Command::new(tools::profiler()?);
        command.args(["record", "-o", "out.json", "--"]);
        command.args([program, mode, &seconds, &milliseconds]);
        command.current_dir(place.path()).stdin(Stdio::null());
        command.env("LD_LIBRARY_PATH", place.prefix().join("lib"));
        command.env("XDG_CACHE_HOME", tools::cache()?);
        let output = command.output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{said}");
        let known = parse(std::str::from_utf8(&output.stdout)?)?;
        let stacks = NamedStacks::read(&place.path().join("out.json"))?;
        let recorded = known.iter().map(|(thread, known)| {
            let of = |name| stacks.wall_ms(*thread, name);
            let names = known.functions.keys();
            let functions = names.map(|name| (name.clone(), of(Some(name)))).collect();
            let life_ms = of(None);
            (*thread, KnownThread { functions, life_ms })
        });
        let recorded = recorded.collect();
        Ok(Self { known, recorded })
    }

    /// The largest difference between the share that a function has in a thread's time, in points.
    pub fn share_error_pct(&self) -> f64 {
        let pairs = self.known.iter().zip(self.recorded.values());
        let errors = pairs.flat_map(|((_, known), recorded)| {
            known.functions.iter().map(|(name, ms)| {
                let share = recorded.functions.get(name).copied().unwrap_or(0.0);
                (share / recorded.life_ms.max(1.0) - ms / known.life_ms).abs() * 100.0
            })
        });
        errors.fold(0.0, f64::max)
    }

    /// The time of all threads in the profile as a part of their lives.
    pub fn total_ratio(&self) -> f64 {
        let sum =
            |threads: &KnownThreads| threads.values().map(|thread| thread.life_ms).sum::<f64>();
        sum(&self.recorded) / sum(&self.known)
    }
}

/// Compiles a program of this name and source. With `records_itself`, it is linked with the library
/// for C.
///
/// # Errors
/// When the compiler fails, or the library cannot be installed.
pub fn compile(
    place: &Workplace,
    (name, source): (&str, &str),
    records_itself: bool,
) -> Result<PathBuf> {
    let mut options = vec!["-pthread".to_owned()];
    if records_itself {
        options.push("-DRECORDS".to_owned());
        options.extend(place.install_agent()?);
    }
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    place.compile(name, source, &options)
}

/// Parses what the program prints.
///
/// # Errors
/// When a line is of another form.
pub fn parse(text: &str) -> Result<KnownThreads> {
    let mut threads = KnownThreads::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [pid, tid, name, ms] = words[..] else {
            anyhow::bail!("the program printed: {line}");
        };
        let thread = threads.entry((pid.parse()?, tid.parse()?)).or_default();
        let ms: f64 = ms.parse()?;
        match name {
            LIFE => thread.life_ms = ms,
            _ if ms > 0.0 => _ = thread.functions.insert(name.to_owned(), ms),
            _ => {}
        }
    }
    Ok(threads)
}
