//! All workers: their start, the distribution of files, and their end after the profile is taken.

use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::thread::{self, Builder};

use anyhow::{Context, Result, anyhow};
use crossbeam_channel::bounded;
use profiler_parent::{ProfiledChild, Session, Why, scope};

use crate::link::{Link, Outcome};
use crate::walk::walk;

/// Maximum number of found files that no worker has taken yet.
const FILES_AHEAD: usize = 256;

/// A running worker. Its input stays open until it may end.
#[derive(Debug)]
struct Worker {
    name: String,
    child: ProfiledChild,
    stdin: ChildStdin,
    stdout: Option<ChildStdout>,
}

/// All workers.
#[derive(Debug)]
pub(crate) struct Crew(Vec<Worker>);

/// The result of the work.
#[derive(Debug)]
pub(crate) struct Harvest {
    /// Per worker.
    pub(crate) outcomes: Vec<Outcome>,
    /// Directories that could not be read.
    pub(crate) unread: Vec<PathBuf>,
    /// Number of files that were not indexed because no worker was left.
    pub(crate) left_over: u64,
}

impl Crew {
    /// Starts workers in the directory whose files they will index.
    pub(crate) fn start(session: &Session, how_many: u16, dir: &Path) -> Result<Self> {
        let _scope = scope!("start workers");
        let program = std::env::current_exe().context("cannot find this program")?;
        (1..=how_many)
            .map(|number| Worker::start(session, number, &program, dir))
            .collect::<Result<_>>()
            .map(Self)
    }

    /// Walks the directory, hands its files to the workers, and receives their indexes.
    pub(crate) fn index(&mut self, dir: &Path) -> Result<Harvest> {
        let (sender, files) = bounded(FILES_AHEAD);
        let mut left_over = 0;
        thread::scope(|scope| {
            let mut links = Vec::new();
            for worker in &mut self.0 {
                let thread = Builder::new().name(format!("link to {}", worker.name));
                let link = worker.link()?;
                let files = files.clone();
                links.push(thread.spawn_scoped(scope, move || link.work(&files))?);
            }
            drop(files);
            let unread = walk(dir, |path| {
                left_over += u64::from(sender.send(path).is_err())
            });
            drop(sender);
            let join = |link: thread::ScopedJoinHandle<'_, _>| {
                link.join().map_err(|_| anyhow!("a link panicked"))
            };
            let outcomes = links.into_iter().map(join).collect::<Result<_>>()?;
            Ok(Harvest {
                outcomes,
                unread,
                left_over,
            })
        })
    }

    /// Lets the workers end. Returns one line for each worker that did not exit with code 0.
    pub(crate) fn dismiss(self) -> Vec<String> {
        let waiting: Vec<_> = self
            .0
            .into_iter()
            .map(|worker| (worker.name, worker.child))
            .collect();
        let ended = waiting
            .into_iter()
            .map(|(name, mut child)| (name, child.id(), child.wait().ok()));
        let bad = ended.filter(|(_, _, status)| !status.is_some_and(|status| status.success()));
        bad.map(|(name, pid, status)| format!("{name} (pid {pid}) {}", Why::ended(status)))
            .collect()
    }
}

impl Worker {
    fn start(session: &Session, number: u16, program: &Path, dir: &Path) -> Result<Self> {
        let name = format!("worker {number}");
        let mut command = Command::new(program);
        command
            .arg("--worker")
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = session.spawn(&name, command)?;
        let stdin = child.stdin.take().context("a worker has no input")?;
        let stdout = child.stdout.take();
        Ok(Self {
            name,
            child,
            stdin,
            stdout,
        })
    }

    fn link(&mut self) -> Result<Link<'_>> {
        let stdout = self.stdout.take().context("a worker has no output")?;
        Ok(Link::new(self.name.clone(), &mut self.stdin, stdout))
    }
}
