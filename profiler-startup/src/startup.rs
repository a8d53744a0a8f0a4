//! The call of the host: joins a session, or starts one.
//!
//! Invariant: a process that a session records, or has refused, starts no session.

use std::time::Duration;

use profiler_child::{InitError, JOIN_WAIT, Status, init_silently, tell_if_off};
use profiler_parent::Session;

use crate::own_session::{self, finish};

/// Like `profiler_child::init()`. In a program with no session, starts one if the variable
/// `MULTIPROCESS_PROFILER` asks for it, and returns [`Status::Started`].
///
/// [`Session::from_env`] describes the variable. If the session cannot start, for example because
/// the variable is not understood, the process runs on without a profiler, and the result is
/// [`Status::Off`] with [`InitError::Startup`]. With `MULTIPROCESS_PROFILER_VERBOSE=1`, the reason
/// is printed, also if the profile cannot be written later.
///
/// # At your own risk
/// A child of a session never waits for a profile. A program that starts its own session does:
///
/// - With `at=exit`, the default, and with `at=10s` before that time, the profile is written inside
///   of [`std::process::exit`] or after `main`, while other threads go on. The exit takes as long
///   as that: usually less than a second, and at most two minutes. If the program calls `exit` in a
///   signal handler that has interrupted `malloc`, it may take these two minutes, and the profile
///   is lost.
/// - `_exit`, `exec` and a signal, such as Ctrl-C, end the process without a profile. Use `at=10s`,
///   `at=signal`, or `profiler record`.
/// - `at=signal` installs a handler for `SIGUSR2`, if the signal has its default action.
/// - A process runs one session: one that the program starts itself later is refused.
/// - A call before other threads exist changes the environment of this process, so that the
///   processes below it join the session.
/// - The profile is written to the file that the environment names, with the rights of this
///   process. Programs with more rights than their parent process ignore the variable.
pub fn init() -> Status {
    init_within(JOIN_WAIT)
}

/// Like [`init`], with another limit on the wait for a session that this process joins by itself.
pub fn init_within(patience: Duration) -> Status {
    let status = match init_silently(patience) {
        Status::NoParent => start(),
        status => status,
    };
    tell_if_off(&status);
    status
}

/// Starts a session if the environment asks for it.
fn start() -> Status {
    match Session::from_env() {
        Ok(None) => Status::NoParent,
        Ok(Some(session)) => match own_session::keep(session) {
            Ok(()) => Status::Started,
            Err(error) => Status::Off(error.into()),
        },
        Err(error) => Status::Off(InitError::Startup(error.into())),
    }
}

/// Like `profiler_child::shutdown()`. Before that, ends a session of the process's own as
/// [`finish`] does.
pub fn shutdown() {
    if let Err(error) = finish() {
        own_session::tell_error(&error);
    }
    profiler_child::shutdown();
}
