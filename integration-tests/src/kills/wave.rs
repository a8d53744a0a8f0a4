//! One wave: a session with eight children that record, each of which is killed at a random moment.
//!
//! Used by [`super::run`]. Waves differ in the memory limit, in the behaviour of the children and
//! in what the session does meanwhile, so that kills hit thread starts, chunk switches, evictions,
//! pauses, gathering and the end of a session.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use profiler_core::ids::ByteLimit;
use profiler_core::internal::reader::read_header;
use profiler_parent::core::session::Features;
use profiler_parent::{CapturedProcess, ProfiledChild, Session};

use super::CHILDREN;
use super::board::{Board, Said};
use super::found::{self, Found};
use super::judge::Tally;
use super::rng::Rng;
use super::wild::Nature;
use crate::patience::{Stopwatch, until};
use crate::profile::Profile;

/// The longest life of a child after its first entry.
const LIFE: Duration = Duration::from_millis(12);
/// The longest life of a child that is killed early, after its start.
const SHORT_LIFE: Duration = Duration::from_millis(8);
/// Memory limits: with constant evictions, with some, and with none.
const LIMITS: [u64; 4] = [1 << 20, 3 << 20, 16 << 20, 256 << 20];

/// What the session does while children record and die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disturbance {
    Nothing,
    /// The session pauses and resumes repeatedly.
    Pauses,
    /// The session captures repeatedly.
    Captures,
    /// The session ends. Entries may then be missing, so only the remaining ones are checked.
    End,
}

/// The properties of a wave.
#[derive(Debug)]
pub struct Wave {
    number: u64,
    limit: u64,
    nature: Nature,
    disturbance: Disturbance,
    /// Whether children may be killed before their first entry.
    hasty: bool,
    /// Whether the entries of the dead are also checked in a saved profile.
    saved: bool,
    chance: Rng,
}

/// A living child.
#[derive(Debug)]
struct Doomed {
    name: String,
    board: Board,
    child: ProfiledChild,
}

/// A killed child, and the data for the verdict on it.
#[derive(Debug)]
struct Killed {
    name: String,
    pid: u32,
    said: Vec<Said>,
    pool: Option<File>,
}

impl Wave {
    /// Draws a wave at random.
    pub fn drawn(number: u64, chance: &mut Rng) -> Self {
        let nature = Nature {
            threads: 1 + chance.below(6) as u32,
            pause_us: [0, 20, 200][chance.below(3) as usize],
            big: chance.once_in(2),
            fleeting: chance.once_in(3),
        };
        let disturbance = match chance.below(12) {
            0..=2 => Disturbance::Pauses,
            3 | 4 => Disturbance::Captures,
            5 => Disturbance::End,
            _ => Disturbance::Nothing,
        };
        let saved = disturbance != Disturbance::End && number % 12 == 1;
        let read_as_json = saved || disturbance == Disturbance::Captures;
        let limit = if read_as_json {
            LIMITS[0]
        } else {
            LIMITS[chance.below(LIMITS.len() as u64) as usize]
        };
        let hasty = chance.once_in(4);
        Self {
            number,
            limit,
            nature,
            disturbance,
            hasty,
            saved,
            chance: chance.clone(),
        }
    }

    /// Starts the children, kills them, and judges what remains of them.
    ///
    /// # Errors
    /// When a session or a child cannot be started, or a child ends before it is killed.
    pub fn run(mut self, program: &Path) -> anyhow::Result<Tally> {
        let session = Session::builder()
            .features(Features::NONE)
            .memory_limit(ByteLimit::new(self.limit))
            .start()?;
        let (killed, session) = std::thread::scope(|scope| {
            let mut dying = Vec::new();
            for number in 0..CHILDREN {
                let doomed = self.spawn(program, &session, number)?;
                let moment = self.moment();
                let stopped = self.chance.once_in(8);
                let hasty = self.hasty;
                dying.push(scope.spawn(move || doomed.die(moment, hasty, stopped)));
            }
            let session =
                self.disturb(session, || dying.iter().all(|dying| dying.is_finished()))?;
            let join = |dying: std::thread::ScopedJoinHandle<'_, anyhow::Result<Killed>>| {
                dying
                    .join()
                    .map_err(|_| anyhow::anyhow!("a thread of the harness panicked"))?
            };
            let killed = dying
                .into_iter()
                .map(join)
                .collect::<anyhow::Result<Vec<_>>>()?;
            anyhow::Ok((killed, session))
        })?;
        let mut tally = Tally::default();
        for killed in &killed {
            self.judge(killed, &mut tally);
        }
        if let Some(session) = session.filter(|_| self.saved) {
            judge_saved(&session, &killed, &mut tally)?;
        }
        for complaint in &mut tally.complaints {
            complaint.push_str(&format!(" [wave {self:?}]"));
        }
        Ok(tally)
    }

    fn moment(&mut self) -> Duration {
        self.chance
            .time_below(if self.hasty { SHORT_LIFE } else { LIFE })
    }

    fn spawn(&self, program: &Path, session: &Session, number: u64) -> anyhow::Result<Doomed> {
        let name = format!("wild-{}", self.number * CHILDREN + number);
        let board = Board::create()?;
        let child = session.spawn(&name, self.nature.command(program, &board)?)?;
        ensure!(child.is_profiled(), "{name} runs unprofiled");
        Ok(Doomed { name, board, child })
    }

    /// Disturbs the session until all children are dead. Returns the session unless it was ended.
    fn disturb(
        &mut self,
        session: Session,
        are_dead: impl Fn() -> bool,
    ) -> anyhow::Result<Option<Session>> {
        let directory = tempfile::tempdir()?;
        let end_after = self.chance.time_below(LIFE + SHORT_LIFE);
        let watch = Stopwatch::start();
        while !are_dead() {
            match self.disturbance {
                Disturbance::Captures => {
                    session
                        .capture()
                        .format(profiler_parent::Format::Gecko)
                        .save(directory.path().join("profile.json"))?;
                }
                Disturbance::Pauses => {
                    session.pause();
                    std::thread::sleep(self.chance.time_below(Duration::from_millis(2)));
                    session.resume();
                    std::thread::sleep(self.chance.time_below(Duration::from_millis(3)));
                }
                Disturbance::End if watch.elapsed() > end_after => return Ok(None),
                Disturbance::Nothing | Disturbance::End => {
                    std::thread::sleep(Duration::from_millis(1))
                }
            }
        }
        Ok(Some(session))
    }

    fn judge(&self, killed: &Killed, tally: &mut Tally) {
        tally.kills += 1;
        let begun = killed.said.iter().any(|said| said.begun > 0);
        tally.before_first += u64::from(!begun);
        tally.inside_entry += u64::from(killed.said.iter().any(|said| said.begun > said.returned));
        let found = match &killed.pool {
            Some(pool) => found::in_pool(pool),
            None if begun => Err(anyhow::anyhow!("its pool was not found")),
            None => Ok(Found::default()),
        };
        match found {
            Ok(found) if self.disturbance == Disturbance::End => {
                tally.judge_remaining(&killed.name, &killed.said, &found);
            }
            Ok(found) => tally.judge(&killed.name, &killed.said, &found),
            Err(error) => tally.complain(format!("{}: {error:#}", killed.name)),
        }
    }
}

impl Doomed {
    /// Waits for the moment, kills the child, and takes its pool and its reports.
    fn die(mut self, moment: Duration, hasty: bool, stopped: bool) -> anyhow::Result<Killed> {
        let pid = self.child.id().get();
        ensure!(
            hasty || until(|| self.board.has_begun().unwrap_or(false)),
            "{} never records",
            self.name
        );
        std::thread::sleep(moment);
        if stopped {
            signal(pid, libc::SIGSTOP);
        }
        // All, because a child that has only just begun is not in its pool's header yet. The
        // session may release the pool at once when the child is dead.
        let pools = open_pools();
        self.child.kill()?;
        let status = self.child.wait()?.signal();
        ensure!(
            status == Some(libc::SIGKILL),
            "{} was not killed: {status:?}",
            self.name
        );
        let pool = pools.into_iter().find(|pool| belongs_to(pool, pid));
        Ok(Killed {
            name: self.name,
            pid,
            said: self.board.read()?,
            pool,
        })
    }
}

/// Sends a signal to a process that the session has not reaped.
pub fn signal(pid: u32, signal: i32) {
    // SAFETY: takes only numbers. The process is not reaped yet, so its number is not reused.
    #[allow(unsafe_code)]
    unsafe {
        libc::kill(pid.cast_signed(), signal);
    }
}

/// Returns the pool of a child, found among the open descriptors of this process, its parent. The
/// returned file has its own descriptor, so it stays open when the session releases the pool.
pub fn pool_of(pid: u32) -> Option<File> {
    open_pools().into_iter().find(|pool| belongs_to(pool, pid))
}

fn belongs_to(pool: &File, pid: u32) -> bool {
    read_header(pool).is_ok_and(|header| header.pid.get() == pid)
}

/// Returns all pools that this process has open, each once, with a descriptor of its own. Other
/// threads call this at the same time, so a pool may be open many times: if each copy were opened
/// again, the threads would copy each other's copies until no descriptor is free.
fn open_pools() -> Vec<File> {
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else {
        return Vec::new();
    };
    let is_pool = |path: &PathBuf| {
        std::fs::read_link(path).is_ok_and(|name| name.to_string_lossy().contains("profiler-pool"))
    };
    let mut seen = HashSet::new();
    let mut is_new = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|about| seen.insert((about.dev(), about.ino())))
    };
    open.flatten()
        .map(|entry| entry.path())
        .filter(is_pool)
        .filter(|path| is_new(path))
        .filter_map(|path| File::open(path).ok())
        .collect()
}

/// Judges the dead children by a saved profile. Their counts are already in the tally, so only
/// violations are added.
fn judge_saved(session: &Session, killed: &[Killed], tally: &mut Tally) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("profile.json");
    let report = session.capture().save(path)?;
    let profile = Profile::read(&report.path)?;
    for killed in killed {
        let is_it = |process: &&CapturedProcess| {
            process.pid.get() == killed.pid && process.name == killed.name
        };
        let process = report
            .processes
            .iter()
            .find(is_it)
            .context("a process is not in the report")?;
        if matches!(process.verdict, profiler_parent::Verdict::Missing { .. }) {
            continue; // nothing remained, and its pool has been judged
        }
        let found = found::in_profile(profile.process(&killed.name)?, process.counts)?;
        let mut of_profile = Tally::default();
        of_profile.judge(
            &format!("{} in the profile", killed.name),
            &killed.said,
            &found,
        );
        tally.add(of_profile.only_violations());
        tally.in_profiles += 1;
    }
    Ok(())
}
