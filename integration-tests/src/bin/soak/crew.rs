//! The children of the soak test. They record, are stopped for a while, are killed and checked, and
//! are replaced.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use anyhow::ensure;
use integration_tests::kills::board::{Board, Said};
use integration_tests::kills::found;
use integration_tests::kills::judge::Tally;
use integration_tests::kills::rng::Rng;
use integration_tests::kills::wave::{pool_of, signal};
use integration_tests::kills::wild::Nature;
use profiler_parent::{ProfiledChild, Session};

/// One child.
#[derive(Debug)]
struct Member {
    name: String,
    board: Board,
    child: ProfiledChild,
    /// When the child is continued, if it is stopped.
    stopped_until: Option<Duration>,
}

/// All running children, and the results of the killed ones.
#[derive(Debug)]
pub(crate) struct Crew {
    members: Vec<Member>,
    threads: u32,
    started: u64,
    /// The results of all kills.
    pub(crate) tally: Tally,
    /// Entries of killed children whose recording call had returned.
    pub(crate) returned: u64,
    chance: Rng,
}

impl Crew {
    /// Starts `children` children.
    pub(crate) fn start(session: &Session, children: usize, threads: u32) -> anyhow::Result<Self> {
        let chance = Rng::new(Rng::seed());
        let members = Vec::with_capacity(children);
        let mut crew = Self {
            members,
            threads,
            started: 0,
            tally: Tally::default(),
            returned: 0,
            chance,
        };
        for _ in 0..children {
            crew.add(session)?;
        }
        Ok(crew)
    }

    fn add(&mut self, session: &Session) -> anyhow::Result<()> {
        let nature = Nature {
            threads: self.threads,
            pause_us: [20, 200, 1000][self.chance.below(3) as usize],
            big: self.chance.once_in(2),
            fleeting: self.chance.once_in(4),
        };
        let name = format!("wild-{}", self.started);
        let board = Board::create()?;
        let child = session.spawn(&name, nature.command(&std::env::current_exe()?, &board)?)?;
        ensure!(child.is_profiled(), "{name} runs unprofiled");
        self.started += 1;
        self.members.push(Member {
            name,
            board,
            child,
            stopped_until: None,
        });
        Ok(())
    }

    /// Kills one child, checks its pool, and starts another child.
    pub(crate) fn replace_one(&mut self, session: &Session) -> anyhow::Result<()> {
        let place = self.chance.below(self.members.len() as u64) as usize;
        let member = self.members.swap_remove(place);
        self.kill(member)?;
        self.add(session)
    }

    /// Kills and checks all children.
    pub(crate) fn end(&mut self) -> anyhow::Result<()> {
        std::mem::take(&mut self.members)
            .into_iter()
            .try_for_each(|member| self.kill(member))
    }

    fn kill(&mut self, mut member: Member) -> anyhow::Result<()> {
        let pid = member.child.id().get();
        let pool = pool_of(pid);
        member.child.kill()?;
        let status = member.child.wait()?.signal();
        ensure!(
            status == Some(libc::SIGKILL),
            "{} was not ended by SIGKILL: {status:?}",
            member.name
        );
        let said = member.board.read()?;
        self.tally.kills += 1;
        self.returned += said.iter().map(|said| said.returned).sum::<u64>();
        match pool.or_else(|| pool_of(pid)) {
            Some(pool) => match found::in_pool(&pool) {
                Ok(found) => self.tally.judge(&member.name, &said, &found),
                Err(error) => self.tally.complain(format!("{}: {error:#}", member.name)),
            },
            None if said.iter().any(|said| said.begun > 0) => {
                self.tally
                    .complain(format!("{}: its pool was not found", member.name));
            }
            None => self.tally.before_first += 1,
        }
        Ok(())
    }

    /// Stops one child until `until`.
    pub(crate) fn stop_one(&mut self, until: Duration) {
        let place = self.chance.below(self.members.len() as u64) as usize;
        if let Some(member) = self.members.get_mut(place) {
            signal(member.child.id().get(), libc::SIGSTOP);
            member.stopped_until = Some(until);
        }
    }

    /// Continues the stopped children whose time is over.
    pub(crate) fn wake(&mut self, now: Duration) {
        for member in &mut self.members {
            if member.stopped_until.is_some_and(|until| until <= now) {
                signal(member.child.id().get(), libc::SIGCONT);
                member.stopped_until = None;
            }
        }
    }

    /// Returns what all running children have reported so far.
    pub(crate) fn reports(&self) -> anyhow::Result<Vec<(String, Vec<Said>)>> {
        self.members
            .iter()
            .map(|member| Ok((member.name.clone(), member.board.read()?)))
            .collect()
    }
}
