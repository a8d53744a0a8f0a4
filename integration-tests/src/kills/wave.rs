//! One wave: a session, eight children that write, and a SIGKILL for each at a moment of its own.
//!
//! Waves differ in limit, nature of the children and what else goes on meanwhile, so that kills fall
//! into thread starts, chunk switches, evictions, pauses, gathering and the end of a session.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
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

/// Longest life of a child after its first entry.
const LIFE: Duration = Duration::from_millis(12);
/// Longest life of a child that is killed early, from its start.
const SHORT_LIFE: Duration = Duration::from_millis(8);
/// Limits with evictions all the time, sometimes, and never.
const LIMITS: [u64; 4] = [1 << 20, 3 << 20, 16 << 20, 256 << 20];

/// What goes on while children write and die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disturbance {
    Nothing,
    /// The session pauses and goes on, again and again.
    Pauses,
    /// One capture after the other.
    Captures,
    /// The session ends; only what is whole can be asked for then.
    End,
}

/// How a wave is to be.
#[derive(Debug)]
pub struct Wave {
    number: u64,
    limit: u64,
    nature: Nature,
    disturbance: Disturbance,
    /// Children are killed from their start on, not from their first entry on.
    hasty: bool,
    /// What the dead left is also looked at in a saved profile.
    saved: bool,
    chance: Rng,
}

/// A child that lives.
#[derive(Debug)]
struct Doomed {
    name: String,
    board: Board,
    child: ProfiledChild,
}

/// A child that was killed, and what is needed to judge it.
#[derive(Debug)]
struct Killed {
    name: String,
    pid: u32,
    said: Vec<Said>,
    pool: Option<File>,
}

impl Wave {
    /// A wave as chance has it.
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
        let limit = if read_as_json { LIMITS[0] } else { LIMITS[chance.below(LIMITS.len() as u64) as usize] };
        let hasty = chance.once_in(4);
        Self { number, limit, nature, disturbance, hasty, saved, chance: chance.clone() }
    }

    /// Starts, kills and judges.
    ///
    /// # Errors
    /// When a session or a child cannot be started, or something else than the kill ends a child.
    pub fn run(mut self, program: &Path) -> anyhow::Result<Tally> {
        let session =
            Session::builder().features(Features::NONE).memory_limit(ByteLimit::new(self.limit)).start()?;
        let (killed, session) = std::thread::scope(|scope| {
            let mut dying = Vec::new();
            for number in 0..CHILDREN {
                let doomed = self.spawn(program, &session, number)?;
                let (moment, stopped) = (self.moment(), self.chance.once_in(8));
                let hasty = self.hasty;
                dying.push(scope.spawn(move || doomed.die(moment, hasty, stopped)));
            }
            let session = self.disturb(session, || dying.iter().all(|dying| dying.is_finished()))?;
            let join = |dying: std::thread::ScopedJoinHandle<'_, anyhow::Result<Killed>>| {
                dying.join().map_err(|_| anyhow::anyhow!("a thread of the harness panicked"))?
            };
            let killed = dying.into_iter().map(join).collect::<anyhow::Result<Vec<_>>>()?;
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
        self.chance.time_below(if self.hasty { SHORT_LIFE } else { LIFE })
    }

    fn spawn(&self, program: &Path, session: &Session, number: u64) -> anyhow::Result<Doomed> {
        let name = format!("wild-{}", self.number * CHILDREN + number);
        let board = Board::create()?;
        let child = session.spawn(&name, self.nature.command(program, &board)?)?;
        ensure!(child.is_profiled(), "{name} runs unprofiled");
        Ok(Doomed { name, board, child })
    }

    /// Does what is to go on until all children are dead; the session, unless that has ended.
    fn disturb(&mut self, session: Session, are_dead: impl Fn() -> bool) -> anyhow::Result<Option<Session>> {
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
                Disturbance::Nothing | Disturbance::End => std::thread::sleep(Duration::from_millis(1)),
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
            None if begun => Err(anyhow::anyhow!("its pool is not to be found")),
            None => Ok(Found::default()),
        };
        match found {
            Ok(found) if self.disturbance == Disturbance::End => {
                tally.judge_what_is_there(&killed.name, &killed.said, &found);
            }
            Ok(found) => tally.judge(&killed.name, &killed.said, &found),
            Err(error) => tally.complain(format!("{}: {error:#}", killed.name)),
        }
    }
}

impl Doomed {
    /// Waits for its moment, kills it, and takes what it leaves.
    fn die(mut self, moment: Duration, hasty: bool, stopped: bool) -> anyhow::Result<Killed> {
        let pid = self.child.id().get();
        ensure!(hasty || until(|| self.board.has_begun().unwrap_or(false)), "{} never records", self.name);
        std::thread::sleep(moment);
        if stopped {
            signal(pid, libc::SIGSTOP);
        }
        let pool = pool_of(pid);
        self.child.kill()?;
        let status = self.child.wait()?.signal();
        ensure!(status == Some(libc::SIGKILL), "{} ended by itself: {status:?}", self.name);
        let pool = pool.or_else(|| pool_of(pid));
        Ok(Killed { name: self.name, pid, said: self.board.read()?, pool })
    }
}

/// Sends a signal to a process that the session has not reaped.
pub fn signal(pid: u32, signal: i32) {
    // SAFETY: a signal to a process that is ours; nothing of ours is touched.
    #[allow(unsafe_code)]
    unsafe {
        libc::kill(pid.cast_signed(), signal);
    }
}

/// The pool that this process attached to, found among what this process, its parent, has open. A
/// descriptor of its own, so it stays when the session gives the pool up.
pub fn pool_of(pid: u32) -> Option<File> {
    let open = std::fs::read_dir("/proc/self/fd").ok()?.flatten().map(|entry| entry.path());
    let is_pool = |path: &std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|name| name.to_string_lossy().contains("profiler-pool"))
    };
    let pools = open.filter(is_pool).filter_map(|path| File::open(path).ok());
    let mut pools = pools.filter(|pool| read_header(pool).is_ok_and(|header| header.pid.get() == pid));
    pools.next()
}

/// Judges what a saved profile says of the dead. The books were added up before; only what is wrong
/// is added.
fn judge_saved(session: &Session, killed: &[Killed], tally: &mut Tally) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let report = session
        .capture()
        .format(profiler_parent::Format::Gecko)
        .save(directory.path().join("profile.json"))?;
    let profile = Profile::read(&report.path)?;
    for killed in killed {
        let is_it =
            |process: &&CapturedProcess| process.pid.get() == killed.pid && process.name == killed.name;
        let process = report.processes.iter().find(is_it).context("a process is not in the report")?;
        if matches!(process.verdict, profiler_parent::Verdict::Missing { .. }) {
            continue; // nothing was left, and its pool has been judged
        }
        let found = found::in_profile(profile.process(&killed.name)?, process.counts)?;
        let mut of_profile = Tally::default();
        of_profile.judge(&format!("{} in the profile", killed.name), &killed.said, &found);
        tally.add(of_profile.only_what_is_wrong());
        tally.in_profiles += 1;
    }
    Ok(())
}
