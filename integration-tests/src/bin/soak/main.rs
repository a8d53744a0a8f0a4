//! The soak test: for hours, children record at full speed, are stopped, paused, killed and
//! replaced, while captures are taken and resources are watched.
//!
//! ```text
//! cargo run --release -p integration-tests --bin soak -- \
//!     --hours H --children N --threads T --kill-every MS
//! ```
//!
//! The program prints a line per minute and a verdict at the end. Exit code 0: no entry was lost
//! without being counted, the limit was never exceeded, every capture was correct, and no resource
//! grew (`watch` states the rules). 1: one of these is violated, or the run failed. 2: invalid
//! arguments. The children differ from each other, see [`crew`]. Profiles are checked in a separate
//! process, see [`mod@verify`].

mod crew;
mod options;
mod verify;
mod watch;

use std::process::ExitCode;
use std::time::Duration;

use crew::Crew;
use integration_tests::kills::rng::Rng;
use integration_tests::kills::wild;
use integration_tests::marks;
use integration_tests::patience::Stopwatch;
use options::{Options, USAGE};
use profiler_core::ids::ByteLimit;
use profiler_parent::Session;
use profiler_parent::core::session::Features;
use verify::{Bounds, verify};
use watch::Watch;

/// Pause between two rounds of the main loop.
const TICK: Duration = Duration::from_millis(5);
const LINE_EVERY: Duration = Duration::from_secs(60);
const READ_EVERY: Duration = Duration::from_secs(1);
const SWEEP_EVERY: Duration = Duration::from_millis(20);
const STOP_EVERY: Duration = Duration::from_millis(900);
const PAUSE_EVERY: Duration = Duration::from_millis(2_300);
const CAPTURE_EVERY: Duration = Duration::from_secs(15);

fn main() -> ExitCode {
    if let Some(code) = wild::run_if_asked().or_else(verify::run_if_asked) {
        return code;
    }
    let options = match Options::read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("soak: {error:#}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match Soak::start(options).and_then(Soak::run) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("soak: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// An action that is performed at intervals.
#[derive(Debug)]
struct Due {
    every: Duration,
    next: Duration,
}

impl Due {
    const fn every(every: Duration) -> Self {
        Self { every, next: every }
    }

    fn is_due(&mut self, now: Duration) -> bool {
        let due = now >= self.next;
        if due {
            self.next = now + self.every;
        }
        due
    }
}

/// The state of the soak test.
struct Soak {
    options: Options,
    session: Session,
    crew: Crew,
    watch: Watch,
    clock: Stopwatch,
    chance: Rng,
    directory: tempfile::TempDir,
    captures: u64,
    pauses: u64,
    /// Number of entries that the parent has recorded.
    own: u64,
    complaints: Vec<String>,
}

impl Soak {
    fn start(options: Options) -> anyhow::Result<Self> {
        let session = Session::builder()
            .features(Features::NONE)
            .memory_limit(ByteLimit::new(options.limit))
            .start()?;
        let crew = Crew::start(&session, options.children, options.threads)?;
        Ok(Self {
            options,
            session,
            crew,
            watch: Watch::default(),
            clock: Stopwatch::start(),
            chance: Rng::new(Rng::seed()),
            directory: tempfile::tempdir()?,
            captures: 0,
            pauses: 0,
            own: 0,
            complaints: Vec::new(),
        })
    }

    fn run(mut self) -> anyhow::Result<bool> {
        let mut kills = Due::every(self.options.kill_every);
        let [mut lines, mut readings, mut sweeps] =
            [LINE_EVERY, READ_EVERY, SWEEP_EVERY].map(Due::every);
        let [mut stops, mut pauses, mut captures] =
            [STOP_EVERY, PAUSE_EVERY, CAPTURE_EVERY].map(Due::every);
        loop {
            let now = self.clock.elapsed();
            if now >= self.options.time {
                return self.conclude();
            }
            self.crew.wake(now);
            marks::record(0, self.own);
            self.own += 1;
            if kills.is_due(now) {
                self.crew.replace_one(&self.session)?;
            }
            if stops.is_due(now) {
                self.crew
                    .stop_one(now + self.chance.time_below(Duration::from_millis(600)));
            }
            if pauses.is_due(now) {
                self.pause();
            }
            if captures.is_due(now) {
                self.capture()?;
            }
            if sweeps.is_due(now) {
                self.watch.sweep(&self.session, self.options.limit);
            }
            if readings.is_due(now) {
                self.watch.read();
            }
            if lines.is_due(now) {
                self.print_line();
            }
            std::thread::sleep(TICK);
        }
    }

    fn pause(&mut self) {
        self.session.pause();
        std::thread::sleep(self.chance.time_below(Duration::from_millis(20)));
        self.session.resume();
        self.pauses += 1;
    }

    /// Takes a capture, and checks the profile against the children's reports from before and after
    /// it.
    fn capture(&mut self) -> anyhow::Result<()> {
        let before = self.crew.reports()?;
        let report = self
            .session
            .capture()
            .format(profiler_parent::Format::Gecko)
            .save(self.directory.path().join("profile.json"))?;
        let after = self.crew.reports()?;
        let mut bounds = Bounds::default();
        for ((name, before), (_, after)) in before.iter().zip(&after) {
            bounds.add(name, before, after);
        }
        self.captures += 1;
        let broken = verify(&report.path, &bounds)?;
        self.complaints
            .extend(broken.map(|why| format!("capture {}: {why}", self.captures)));
        Ok(())
    }

    fn print_line(&mut self) {
        let reading = self.watch.read();
        let tally = &self.crew.tally;
        let held = self.watch.sweep(&self.session, self.options.limit);
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        println!(
            "{:6.1} min  {} kills, {} recorded: {} delivered, {} evicted, {} dropped, {} unfinished, {} lost, \
             {} torn, {} doubled, {} broken; {} captures, {} pauses; parent {:.1} MiB, {} fds, {} threads; \
             pools {:.2} of {:.2} MiB, peak {:.2}",
            self.clock.elapsed().as_secs_f64() / 60.0,
            tally.kills,
            self.crew.returned,
            tally.delivered,
            tally.evicted,
            tally.dropped,
            tally.unfinished,
            tally.committed_lost,
            tally.torn,
            tally.duplicates,
            tally.broken,
            self.captures,
            self.pauses,
            mib(reading.resident),
            reading.descriptors,
            reading.threads,
            mib(held),
            mib(self.options.limit),
            mib(self.watch.peak),
        );
    }

    /// Ends the run and prints the verdict.
    fn conclude(mut self) -> anyhow::Result<bool> {
        self.capture()?;
        self.crew.end()?;
        self.print_line();
        let mut complaints = std::mem::take(&mut self.complaints);
        complaints.extend(std::mem::take(&mut self.crew.tally.complaints));
        complaints.extend(self.watch.complaints());
        if self.watch.peak > self.options.limit {
            complaints.push(format!(
                "{} bytes of {} were held",
                self.watch.peak, self.options.limit
            ));
        }
        complaints
            .iter()
            .for_each(|complaint| eprintln!("{complaint}"));
        println!(
            "verdict: {}",
            if complaints.is_empty() {
                "in order"
            } else {
                "BROKEN"
            }
        );
        Ok(complaints.is_empty())
    }
}
