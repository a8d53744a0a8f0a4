//! A session whose parent is a process of its own, so that it can be killed or stopped.
//!
//! The parent is `src/bin/parent`, its children are `src/bin/child`. A child's standard streams are a
//! named pipe and a file of the test, not the parent's, so children are told what to do and heard
//! whether the parent lives or not. Orphans come to this process, which takes their status. Whoever
//! is left when the family is dropped is killed.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use crate::pairs::make_pipe;
use crate::patience::until;

/// A parent and its children.
#[derive(Debug)]
pub struct ProcessTree {
    /// The parent's process.
    parent: Child,
    stdout: BufReader<ChildStdout>,
    /// The session's pool directory; `None` if pools are in memory.
    pub pools: Option<PathBuf>,
    /// The children.
    pub kids: Vec<TreeChild>,
    place: tempfile::TempDir,
    is_parent_dead: bool,
}

/// A child of a [`ProcessTree`].
#[derive(Debug)]
pub struct TreeChild {
    /// Its shown name.
    pub name: String,
    pid: Pid,
    input: File,
    output: PathBuf,
    heard: usize,
    is_dead: bool,
}

/// How a family is to be.
#[derive(Debug)]
pub struct ProcessTreeOptions<'a> {
    /// The program `parent`.
    pub parent: &'a str,
    /// The program `child`.
    pub child: &'a str,
    /// Bytes for all processes together.
    pub limit: u64,
    /// Whether pools are files.
    pub in_files: bool,
}

impl ProcessTree {
    /// Starts the parent; `change` may change how.
    ///
    /// # Errors
    /// When it does not begin.
    pub fn start(wishes: &ProcessTreeOptions<'_>, change: impl FnOnce(&mut Command)) -> anyhow::Result<Self> {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let place = tempfile::tempdir()?;
        fs::create_dir(place.path().join("tmp"))?;
        let pools = place.path().join("pools");
        let pools = if wishes.in_files { pools.as_path() } else { Path::new("-") };
        let mut command = Command::new(wishes.parent);
        command.arg(wishes.limit.to_string()).arg(pools).env("TMPDIR", place.path().join("tmp"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        change(&mut command);
        let mut parent = command.spawn()?;
        let stdout = BufReader::new(parent.stdout.take().context("no pipe")?);
        let mut family = Self { parent, stdout, pools: None, kids: Vec::new(), place, is_parent_dead: false };
        let said = family.line()?;
        family.pools = said.strip_prefix("ok /").map(|path| Path::new("/").join(path));
        Ok(family)
    }

    /// Starts `count` children that record, and waits until they are connected.
    ///
    /// # Errors
    /// When one does not begin.
    pub fn spawn_kids(&mut self, wishes: &ProcessTreeOptions<'_>, count: usize) -> anyhow::Result<()> {
        for _ in 0..count {
            self.spawn(&format!("{} init", wishes.child))?;
        }
        self.ask(&format!("connected {count}"))?;
        Ok(())
    }

    /// Starts a child by this command line and waits for its first line.
    ///
    /// # Errors
    /// When it does not begin.
    pub fn spawn(&mut self, line: &str) -> anyhow::Result<()> {
        let name = format!("kid-{}", self.kids.len());
        let (input, output) = (self.path(&format!("{name}.in")), self.path(&format!("{name}.out")));
        make_pipe(&input)?;
        let pipe = File::options().read(true).write(true).open(&input)?;
        let said = self.ask(&format!("spawn {name} {} {} {line}", input.display(), output.display()))?;
        let pid = said.strip_prefix("ok ").and_then(|pid| Pid::from_raw(pid.parse().ok()?));
        let pid = pid.context("no process number")?;
        self.kids.push(TreeChild { name, pid, input: pipe, output, heard: 0, is_dead: false });
        let kid = self.kids.last_mut().context("just added")?;
        kid.line().map(|_| ())
    }

    /// Tells the parent something and waits for its answer.
    ///
    /// # Errors
    /// When it has ended, or says that it failed.
    pub fn ask(&mut self, command: &str) -> anyhow::Result<String> {
        writeln!(self.parent.stdin.as_mut().context("no pipe")?, "{command}")?;
        let answer = self.line()?;
        if let Some(error) = answer.strip_prefix("error ") {
            bail!("{command}: {error}");
        }
        Ok(answer)
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        ensure!(self.stdout.read_line(&mut line)? > 0, "the parent has ended");
        Ok(line.trim_end().to_owned())
    }

    /// Kills the parent, and waits until it is dead.
    ///
    /// # Errors
    /// When that cannot be found out.
    pub fn kill_parent(&mut self) -> anyhow::Result<()> {
        self.parent.kill()?;
        self.parent.wait()?;
        self.is_parent_dead = true;
        Ok(())
    }

    /// Kills everybody at once.
    ///
    /// # Errors
    /// When one cannot be waited for.
    pub fn kill_all(&mut self) -> anyhow::Result<()> {
        self.kids.iter().for_each(|kid| kid.signal(Signal::KILL));
        self.kill_parent()?;
        self.kids.iter_mut().try_for_each(|kid| kid.end().map(|_| ()))
    }

    /// Sends the parent a signal.
    pub fn signal_parent(&self, signal: Signal) {
        let _ = rustix::process::kill_process(Pid::from_child(&self.parent), signal);
    }

    /// The parent's process number.
    pub fn parent_pid(&self) -> u32 {
        self.parent.id()
    }

    /// Ends the parent in order, by the end of its input.
    ///
    /// # Errors
    /// When its status is unknown.
    pub fn dismiss(&mut self) -> anyhow::Result<()> {
        self.parent.stdin = None;
        let status = self.parent.wait()?;
        self.is_parent_dead = true;
        ensure!(status.success(), "the parent: {status}");
        Ok(())
    }

    /// A path for a file of the test.
    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// What is left where the family had its temporary files.
    pub fn left_over(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("tmp")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        if !self.is_parent_dead {
            let _ = self.kill_parent();
        }
        for kid in self.kids.iter_mut().filter(|kid| !kid.is_dead) {
            kid.signal(Signal::KILL);
            let _ = kid.wait();
        }
    }
}

impl TreeChild {
    /// Tells it something and waits for its answer.
    ///
    /// # Errors
    /// When it says nothing, or that it failed.
    pub fn ask(&mut self, command: &str) -> anyhow::Result<String> {
        self.tell(command)?;
        let answer = self.line()?;
        ensure!(!answer.starts_with("error "), "{command}: {answer}");
        Ok(answer)
    }

    /// Tells it something.
    ///
    /// # Errors
    /// When the pipe is broken.
    pub fn tell(&self, command: &str) -> anyhow::Result<()> {
        Ok(writeln!(&self.input, "{command}")?)
    }

    /// The next line that it says.
    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = None;
        let look = || {
            let said = self.said().unwrap_or_default();
            let end = said.iter().position(|byte| *byte == b'\n');
            line = end.and_then(|end| String::from_utf8(said[..end].to_vec()).ok());
            line.is_some()
        };
        ensure!(until(look), "{} says nothing", self.name);
        let line = line.context("no line")?;
        self.heard += line.len() + 1;
        Ok(line)
    }

    /// What it has said since the last line that was heard.
    ///
    /// # Errors
    /// When that cannot be read.
    pub fn said(&self) -> anyhow::Result<Vec<u8>> {
        let mut said = fs::read(&self.output)?;
        Ok(said.split_off(self.heard.min(said.len())))
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let _ = rustix::process::kill_process(self.pid, signal);
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().cast_unsigned()
    }

    /// Waits for its end, once the parent is dead and it is this process's.
    ///
    /// # Errors
    /// When it does not end, or belongs to somebody else.
    pub fn wait(&mut self) -> anyhow::Result<WaitStatus> {
        self.end()?.context("no status")
    }

    /// Waits for its end; no status if another took it.
    fn end(&mut self) -> anyhow::Result<Option<WaitStatus>> {
        let mut ended = None;
        let look = || {
            let status = rustix::process::waitpid(Some(self.pid), WaitOptions::NOHANG);
            ended = status.ok().flatten();
            let is_gone = rustix::process::test_kill_process(self.pid).is_err(); // another took its status
            ended.is_some() || is_gone
        };
        ensure!(until(look), "{} does not end", self.name);
        self.is_dead = true;
        Ok(ended.map(|(_, status)| status))
    }
}
