//! A session whose parent is a separate process, so that a test can kill or stop it.
//!
//! The parent is `src/bin/parent`, its children are `src/bin/child`. A child reads commands from a
//! named pipe and writes its output to a file. Both belong to the test, so the test can use a child
//! after the parent has died. Orphans become children of this process, which reaps them. Processes
//! that still run when the tree is dropped are killed.

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
    /// The pool directory of the session, or `None` if pools are in memory.
    pub pools: Option<PathBuf>,
    /// The children.
    pub kids: Vec<TreeChild>,
    directory: tempfile::TempDir,
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
    /// Number of bytes of output that were read as lines.
    heard: usize,
    is_dead: bool,
}

/// How a [`ProcessTree`] is started.
#[derive(Debug)]
pub struct ProcessTreeOptions<'a> {
    /// The program `parent`.
    pub parent: &'a str,
    /// The program `child`.
    pub child: &'a str,
    /// The memory limit of the session, in bytes.
    pub limit: u64,
    /// Whether pools are files.
    pub in_files: bool,
}

impl ProcessTree {
    /// Starts the parent. `change` can change its command.
    ///
    /// # Errors
    /// When the process does not start.
    pub fn start(
        options: &ProcessTreeOptions<'_>,
        change: impl FnOnce(&mut Command),
    ) -> anyhow::Result<Self> {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let directory = tempfile::tempdir()?;
        fs::create_dir(directory.path().join("tmp"))?;
        let pools = directory.path().join("pools");
        let pools = if options.in_files {
            pools.as_path()
        } else {
            Path::new("-")
        };
        let mut command = Command::new(options.parent);
        command
            .arg(options.limit.to_string())
            .arg(pools)
            .env("TMPDIR", directory.path().join("tmp"))
            .env_remove("XDG_RUNTIME_DIR");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        change(&mut command);
        let mut parent = command.spawn()?;
        let stdout = BufReader::new(parent.stdout.take().context("no pipe")?);
        let mut tree = Self {
            parent,
            stdout,
            pools: None,
            kids: Vec::new(),
            directory,
            is_parent_dead: false,
        };
        let answer = tree.line()?;
        tree.pools = answer
            .strip_prefix("ok /")
            .map(|path| Path::new("/").join(path));
        Ok(tree)
    }

    /// Starts `count` children that record, and waits until they are connected.
    ///
    /// # Errors
    /// When a child does not start or connect.
    pub fn spawn_kids(
        &mut self,
        options: &ProcessTreeOptions<'_>,
        count: usize,
    ) -> anyhow::Result<()> {
        for _ in 0..count {
            self.spawn(&format!("{} init", options.child))?;
        }
        self.ask(&format!("connected {count}"))?;
        Ok(())
    }

    /// Sends all children a command, and waits for the answer of each.
    ///
    /// # Errors
    /// As [`TreeChild::ask`].
    pub fn ask_kids(&mut self, command: &str) -> anyhow::Result<()> {
        let mut kids = self.kids.iter_mut();
        kids.try_for_each(|kid| kid.ask(command).map(drop))
    }

    /// Starts a child with this command line, and waits for its first line of output.
    ///
    /// # Errors
    /// When the process does not start.
    pub fn spawn(&mut self, line: &str) -> anyhow::Result<()> {
        let name = format!("kid-{}", self.kids.len());
        let input = self.path(&format!("{name}.in"));
        let output = self.path(&format!("{name}.out"));
        make_pipe(&input)?;
        let pipe = File::options().read(true).write(true).open(&input)?;
        let answer = self.ask(&format!(
            "spawn {name} {} {} {line}",
            input.display(),
            output.display()
        ))?;
        let pid = answer
            .strip_prefix("ok ")
            .and_then(|pid| Pid::from_raw(pid.parse().ok()?));
        let pid = pid.context("no process number")?;
        self.kids.push(TreeChild {
            name,
            pid,
            input: pipe,
            output,
            heard: 0,
            is_dead: false,
        });
        let kid = self.kids.last_mut().context("just added")?;
        kid.line().map(|_| ())
    }

    /// Sends the parent a command, and waits for the answer.
    ///
    /// # Errors
    /// When the parent has ended, or answers that the command failed.
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
        ensure!(
            self.stdout.read_line(&mut line)? > 0,
            "the parent has ended"
        );
        Ok(line.trim_end().to_owned())
    }

    /// Kills the parent, and waits until it is dead.
    ///
    /// # Errors
    /// When the parent cannot be killed or waited for.
    pub fn kill_parent(&mut self) -> anyhow::Result<()> {
        self.parent.kill()?;
        self.parent.wait()?;
        self.is_parent_dead = true;
        Ok(())
    }

    /// Kills the parent and all children at once.
    ///
    /// # Errors
    /// When the end of a process is not confirmed.
    pub fn kill_all(&mut self) -> anyhow::Result<()> {
        self.kids.iter().for_each(|kid| kid.signal(Signal::KILL));
        self.kill_parent()?;
        self.kids
            .iter_mut()
            .try_for_each(|kid| kid.end().map(|_| ()))
    }

    /// Sends the parent a signal.
    pub fn signal_parent(&self, signal: Signal) {
        let _ = rustix::process::kill_process(Pid::from_child(&self.parent), signal);
    }

    /// The parent's process number.
    pub fn parent_pid(&self) -> u32 {
        self.parent.id()
    }

    /// Closes the input of the parent, which then ends in order, and waits for its end.
    ///
    /// # Errors
    /// When the parent does not exit with code 0.
    pub fn dismiss(&mut self) -> anyhow::Result<()> {
        self.parent.stdin = None;
        let status = self.parent.wait()?;
        self.is_parent_dead = true;
        ensure!(status.success(), "the parent: {status}");
        Ok(())
    }

    /// Returns a path for a file of the test.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the files that are left in the temporary directory of the parent and its children.
    pub fn left_over(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("tmp"))
            .into_iter()
            .flatten()
            .flatten();
        entries.map(|entry| entry.path()).collect()
    }

    /// Returns whether the only files that are left are the directory of the session's address,
    /// which a parent that is killed cannot remove and the next session removes.
    pub fn leaves_only_its_address(&self) -> bool {
        let signature = format!("profiler-{}-", self.parent_pid());
        let is_signed = |directory: &PathBuf| {
            let mut names = fs::read_dir(directory).into_iter().flatten().flatten();
            names.any(|entry| entry.file_name().to_string_lossy().starts_with(&signature))
        };
        let left = self.left_over();
        left.len() == 1 && left.iter().all(is_signed)
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
    /// Sends the child a command, and waits for the answer.
    ///
    /// # Errors
    /// When the child does not answer, or answers that the command failed.
    pub fn ask(&mut self, command: &str) -> anyhow::Result<String> {
        self.tell(command)?;
        let answer = self.line()?;
        ensure!(!answer.starts_with("error "), "{command}: {answer}");
        Ok(answer)
    }

    /// Sends the child a command.
    ///
    /// # Errors
    /// When the pipe is broken.
    pub fn tell(&self, command: &str) -> anyhow::Result<()> {
        Ok(writeln!(&self.input, "{command}")?)
    }

    /// Waits for the next line of output.
    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = None;
        let has_line = || {
            let said = self.said().unwrap_or_default();
            let end = said.iter().position(|byte| *byte == b'\n');
            line = end.and_then(|end| String::from_utf8(said[..end].to_vec()).ok());
            line.is_some()
        };
        ensure!(until(has_line), "{} prints no line", self.name);
        let line = line.context("no line")?;
        self.heard += line.len() + 1;
        Ok(line)
    }

    /// Returns the output after the last line that was read.
    ///
    /// # Errors
    /// When the output cannot be read.
    pub fn said(&self) -> anyhow::Result<Vec<u8>> {
        let mut said = fs::read(&self.output)?;
        Ok(said.split_off(self.heard.min(said.len())))
    }

    /// Sends the child a signal.
    pub fn signal(&self, signal: Signal) {
        let _ = rustix::process::kill_process(self.pid, signal);
    }

    /// The child's process number.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().cast_unsigned()
    }

    /// Waits for the end of the child. The parent must be dead, so that the child belongs to this
    /// process.
    ///
    /// # Errors
    /// When the child does not end, or another process has reaped it.
    pub fn wait(&mut self) -> anyhow::Result<WaitStatus> {
        self.end()?.context("no status")
    }

    /// Waits for the end of the child. Returns no status if another process has reaped it.
    fn end(&mut self) -> anyhow::Result<Option<WaitStatus>> {
        let mut ended = None;
        let has_ended = || {
            let status = rustix::process::waitpid(Some(self.pid), WaitOptions::NOHANG);
            ended = status.ok().flatten();
            // Reaped by another process.
            let is_gone = rustix::process::test_kill_process(self.pid).is_err();
            ended.is_some() || is_gone
        };
        ensure!(until(has_ended), "{} does not end", self.name);
        self.is_dead = true;
        Ok(ended.map(|(_, status)| status))
    }
}
