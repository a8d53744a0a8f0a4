//! The calls of a session that start children, or let processes join that others start.

use std::process::Command;

use ipc_protocol::environment::{SESSION_VARIABLE, STARTUP_VARIABLE, SessionAddress, VARIABLE};

use super::Session;
use crate::supervisor::{HostCommand, ProfiledChild, SessionAddressError, SpawnError, Trust};

impl Session {
    /// Starts a child that records for this session. `name` is its name in the profile. The
    /// processes that the child starts can join the session by themselves ([`Session::prepare`]).
    ///
    /// ```no_run
    /// # use profiler_parent::Session;
    /// # fn example(session: &Session) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut worker = session.spawn("worker 1", std::process::Command::new("./worker"))?;
    /// println!("{}", worker.wait()?); // its exit status
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The session reaps the child; [`ProfiledChild::wait`] returns the exit status. If the memory
    /// limit cannot hold one more process, or the profiler does not get what it needs (a temporary
    /// file or a socket below `TMPDIR`, memory, random bytes), the child runs without profiling
    /// ([`ProfiledChild::is_profiled`]), and the profile says why.
    ///
    /// # Errors
    /// When the program cannot be started; no process runs then.
    pub fn spawn(&self, name: &str, command: Command) -> Result<ProfiledChild, SpawnError> {
        self.supervisor.spawn(name, command, Trust::Trusted)
    }

    /// Starts a child that records for this session with a command of another library, which waits
    /// for the child and takes its exit status. `profiler-tokio` has such a command for
    /// `tokio::process::Command` (feature `process`).
    ///
    /// Otherwise as [`Session::spawn`]: the child has this name and its verdict in profiles.
    /// [`ProfiledChild::wait`] returns the exit status if the system or the application
    /// ([`ProfiledChild::tell_end`]) has told it. [`HostCommand`] has an example.
    ///
    /// # Errors
    /// As [`Session::spawn`]. Always on systems other than Linux, and on Linux before 5.3.
    pub fn spawn_by(
        &self,
        name: &str,
        command: &mut dyn HostCommand,
    ) -> Result<ProfiledChild, SpawnError> {
        self.supervisor.spawn_by(name, command)
    }

    /// Starts a program that does not call the profiler, and observes it with all programs below
    /// it. `command` must load the library of `profiler-observed`, through `LD_PRELOAD`. The
    /// program gets no descriptor. If it calls `profiler_child::init()` after all, it joins the
    /// session.
    ///
    /// Otherwise as [`Session::spawn`]. With the feature `observed`.
    ///
    /// # Errors
    /// When the program cannot be started, or the system refuses the directory for its samples.
    /// Always on systems other than Linux on x86-64 and aarch64.
    #[cfg(feature = "observed")]
    pub fn spawn_observed(
        &self,
        name: &str,
        command: Command,
    ) -> Result<ProfiledChild, SpawnError> {
        self.supervisor.spawn_observed(name, command)
    }

    /// Starts an untrusted child that records for this session: one that runs foreign code, or
    /// parses foreign data in a sandbox. The child communicates through its own inherited socket.
    /// Nothing that it sends can make this process block, grow or exit; at worst its control
    /// channel is closed, and its data is read from its memory. The child's code is the same:
    /// `profiler_child::init()`. It does not get the address of the session, so the processes that
    /// it starts do not join.
    ///
    /// Only the started process itself may use the channel: a wrapper must `exec` the program that
    /// records, not fork it. `docs/security.md` lists the other guarantees, and the system calls
    /// that the child's sandbox must allow.
    ///
    /// # Errors
    /// As [`Session::spawn`]; [`SpawnError::Channel`] on other systems than Linux.
    pub fn spawn_untrusted(
        &self,
        name: &str,
        command: Command,
    ) -> Result<ProfiledChild, SpawnError> {
        self.supervisor.spawn(name, command, Trust::Untrusted)
    }

    /// Lets the process that `command` starts join this session, whichever process starts it: the
    /// command may be started without [`Session::spawn`], for example by another library. The
    /// processes that it starts can join, too, because they inherit the variable. The program calls
    /// `profiler_child::init()`; other programs run as usual.
    ///
    /// ```no_run
    /// # use profiler_parent::Session;
    /// # fn example(session: &Session) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut command = std::process::Command::new("./worker");
    /// session.prepare(&mut command)?;
    /// command.spawn()?; // by whichever library
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A process that joins is recorded like an untrusted child ([`Session::spawn_untrusted`]),
    /// under the name of its program, within the same memory limit. The session does not wait for
    /// it, and reports its exit status only if the system tells it.
    ///
    /// The first call makes a socket in a private directory, below `$XDG_RUNTIME_DIR` or the
    /// temporary directory, and starts a thread. A process costs this process three descriptors;
    /// at most half of the descriptors that this process may have are used for processes that have
    /// joined.
    ///
    /// # Errors
    /// [`SessionAddressError`]; `command` is unchanged then. Always on systems other than Linux.
    pub fn prepare(&self, command: &mut Command) -> Result<(), SessionAddressError> {
        for (name, value) in self.environment()? {
            command.env(name, value);
        }
        // This process may have a parent of its own, whose resources are not for other processes.
        command.env_remove(VARIABLE);
        // The process joins this session, and starts no other one.
        command.env_remove(STARTUP_VARIABLE);
        Ok(())
    }

    /// The environment variable that makes programs observed that do not call the profiler. They
    /// must also load the library of `profiler-observed`, through `LD_PRELOAD`.
    ///
    /// The first call makes a private directory, below `$XDG_RUNTIME_DIR`, `/dev/shm` or the
    /// temporary directory, and starts a thread that reads the files of the programs.
    ///
    /// # Errors
    /// If the system refuses the directory or the thread. Always on systems other than Linux on
    /// x86-64 and aarch64.
    #[cfg(feature = "observed")]
    pub fn observed_variable(&self) -> std::io::Result<(&'static str, std::ffi::OsString)> {
        self.supervisor.observed_variable()
    }

    /// The environment variables with which a process can join this session, for spawners that do
    /// not use [`Command`] or that clear the environment. [`Session::prepare`] sets them.
    ///
    /// They contain a secret: every process of this user that knows it can join.
    ///
    /// # Errors
    /// As [`Session::prepare`].
    pub fn environment(&self) -> Result<Vec<(&'static str, String)>, SessionAddressError> {
        let address = self.address()?;
        Ok(vec![(SESSION_VARIABLE, address.to_value())])
    }

    /// Where the session listens.
    ///
    /// # Errors
    /// As [`Session::prepare`].
    pub(crate) fn address(&self) -> Result<SessionAddress, SessionAddressError> {
        self.supervisor.address()
    }
}
