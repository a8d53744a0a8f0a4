//! Programs that know nothing of the profiler: compiled from C, or found on this machine, and
//! recorded by the command with its agent.
//!
//! Used by the tests `agent_*`. Each runs in a directory of its own.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::profile::Profile;
use crate::tools;

/// The name of the profile that [`Recorded`] has.
const PROFILE: &str = "out.json";

/// A directory for programs.
#[derive(Debug)]
pub struct Workplace(tempfile::TempDir);

/// The results of a program that the command has recorded.
#[derive(Debug)]
pub struct Recorded {
    /// The program's exit code, and its output. The standard error also contains the command's.
    pub output: Output,
    directory: PathBuf,
}

impl Workplace {
    /// Makes an empty directory.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self(tempfile::tempdir()?))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Compiles a program from C; `options` follow the source.
    ///
    /// # Errors
    /// When the compiler reports anything.
    pub fn compile(&self, name: &str, source: &str, options: &[&str]) -> anyhow::Result<PathBuf> {
        let file = self.path().join(format!("{name}.c"));
        fs::write(&file, source)?;
        self.compile_file("cc", name, &file, options)
    }

    /// Compiles a program from a file with this compiler.
    ///
    /// # Errors
    /// When the compiler reports anything.
    pub fn compile_file(
        &self,
        compiler: &str,
        name: &str,
        file: &Path,
        options: &[&str],
    ) -> anyhow::Result<PathBuf> {
        let program = self.path().join(name);
        let mut command = Command::new(compiler);
        command.args(["-Wall", "-Wextra", "-Werror", "-O1", "-g", "-o"]);
        command.arg(&program).arg(file).args(options);
        let output = command.output().context(compiler.to_owned())?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{name}: {said}");
        Ok(program)
    }

    /// Installs the agent's library and the files for C. Returns the options of the compiler that
    /// the file for pkg-config names.
    ///
    /// # Errors
    /// When the command cannot install them.
    pub fn install_agent(&self) -> anyhow::Result<Vec<String>> {
        let prefix = self.prefix();
        let words = [
            OsStr::new("agent"),
            OsStr::new("--install"),
            prefix.as_os_str(),
        ];
        tools::succeed(&words)?;
        let about = fs::read_to_string(prefix.join("lib/pkgconfig/profiler-agent.pc"))?;
        let prefix = prefix.to_str().context("a path that is no text")?;
        let lines = about.lines().filter_map(|line| {
            let options = line
                .strip_prefix("Cflags: ")
                .or(line.strip_prefix("Libs: "));
            Some(options?.replace("${libdir}", &format!("{prefix}/lib")))
        });
        let lines = lines.map(|line| line.replace("${includedir}", &format!("{prefix}/include")));
        let words = |line: String| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        Ok(lines.flat_map(words).collect())
    }

    /// Where [`Self::install_agent`] installs.
    pub fn prefix(&self) -> PathBuf {
        self.path().join("prefix")
    }

    /// Runs a program without the profiler.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run(&self, program: &[&str]) -> anyhow::Result<Output> {
        let (first, rest) = program.split_first().context("no program")?;
        let mut command = Command::new(first);
        command.args(rest).current_dir(self.path());
        command.env("LD_LIBRARY_PATH", self.prefix().join("lib"));
        Ok(command.stdin(Stdio::null()).output()?)
    }

    /// Records a program, as `profiler record` does without options.
    ///
    /// # Errors
    /// When the command cannot be started.
    pub fn record(&self, program: &[&str]) -> anyhow::Result<Recorded> {
        self.record_with(&[], program)
    }

    /// Records a program with options of the command.
    ///
    /// # Errors
    /// When the command cannot be started.
    pub fn record_with(&self, options: &[&str], program: &[&str]) -> anyhow::Result<Recorded> {
        self.record_by(options, program, |_| {})
    }

    /// Records a program; `change` changes how the command is started.
    ///
    /// # Errors
    /// When the command cannot be started.
    pub fn record_by(
        &self,
        options: &[&str],
        program: &[&str],
        change: impl FnOnce(&mut Command),
    ) -> anyhow::Result<Recorded> {
        let mut command = Command::new(tools::profiler()?);
        let words = ["record", "-o", PROFILE, "--format", "gecko"];
        command.args(words).args(options).arg("--").args(program);
        command.current_dir(self.path()).stdin(Stdio::null());
        command.env("LD_LIBRARY_PATH", self.prefix().join("lib"));
        command.env("XDG_CACHE_HOME", tools::cache()?);
        // A slow machine may need longer than the default.
        command.env("PROFILER_JOIN_WAIT_MS", "10000");
        change(&mut command);
        Ok(self.recorded(command.output()?))
    }

    /// The results of a command that has written the profile `out.json` here, in the Gecko format.
    pub fn recorded(&self, output: Output) -> Recorded {
        Recorded {
            output,
            directory: self.path().to_owned(),
        }
    }
}

impl Recorded {
    /// What the program has written to standard error: without the command's own lines.
    pub fn error_of_program(&self) -> String {
        let all = String::from_utf8_lossy(&self.output.stderr);
        let lines = all.lines().filter(|line| !line.starts_with("profiler: "));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The lines of the command on standard error.
    pub fn said(&self) -> String {
        let all = String::from_utf8_lossy(&self.output.stderr);
        let lines = all.lines().filter(|line| line.starts_with("profiler: "));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Whether a profile was written.
    pub fn has_profile(&self) -> bool {
        self.path().exists()
    }

    /// The path of the profile.
    pub fn path(&self) -> PathBuf {
        self.directory.join(PROFILE)
    }

    /// The profile.
    ///
    /// # Errors
    /// When there is none.
    pub fn profile(&self) -> anyhow::Result<Profile> {
        Profile::read(&self.path()).with_context(|| self.said())
    }

    /// The verdicts on the processes of this name, from the gathering log of the profile.
    ///
    /// # Errors
    /// When there is no log.
    pub fn verdicts(&self, name: &str) -> anyhow::Result<Vec<String>> {
        let profile = self.profile()?;
        let rows = profile.log_rows()?.iter().filter(|row| row["name"] == name);
        let verdict = |row: &Value| row["verdict"].as_str().unwrap_or_default().to_owned();
        Ok(rows.map(verdict).collect())
    }
}

/// Whether a program can be found on this machine. Tests that need one that is rare are left out
/// without it, and say so.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|directory| directory.join(program).is_file());
    if !found {
        eprintln!("left out: {program} is not installed");
    }
    found
}
