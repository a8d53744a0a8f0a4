//! Signals to this command, as events that a thread can wait for.
//!
//! Used by `view` and by the commands that write files, which catch the requests to end
//! ([`Signals::catch`]), and by `record`, which catches every signal that its program may get
//! ([`Signals::catch_all`]). Invariants: a signal that was ignored when the command began ends
//! nothing (`nohup`, a background job); programs that the command starts do not inherit the
//! handling.

pub(crate) use imp::Signals;
#[cfg(unix)]
pub(crate) use imp::{caught, restore};

use profiler_files::output::remove_unfinished;
use profiler_sys::spawn_quiet;

use crate::progress::ProgressLine;

#[cfg(unix)]
#[path = "unix.rs"]
#[allow(unsafe_code)]
mod imp;
#[cfg(not(unix))]
#[path = "none.rs"]
mod imp;

/// A caught signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caught {
    /// Its number.
    pub(crate) signal: i32,
    /// Whether the system sent it, not a process. `SIGINT` is then that of the terminal, to all
    /// processes of the foreground group.
    pub(crate) from_system: bool,
}

/// From now on, a signal removes unfinished files and the progress line, and then ends the command.
/// Call once per process, instead of [`Signals::catch`].
pub(crate) fn end_without_leftovers(line: &ProgressLine) -> std::io::Result<()> {
    let mut signals = Signals::catch()?;
    let line = line.clone();
    spawn_quiet("profiler-stop", move || {
        if let Ok(caught) = signals.next() {
            line.clear();
            end(caught.signal);
        }
    })?;
    Ok(())
}

/// Removes unfinished files, and ends the command as the signal would have ended it: a shell then
/// ends the script that called the command, too.
pub(crate) fn end(signal: i32) -> ! {
    remove_unfinished();
    imp::die_of(signal)
}

/// As [`end`], on the main thread and without a core dump: it would be that of this command.
pub(crate) fn end_like_the_program(signal: i32) -> ! {
    imp::dump_no_core();
    end(signal)
}
