//! What Ctrl-C does to a recording.
//!
//! From the terminal it reaches the program, too, which is to end by it; so nothing is done but to go on waiting. Sent
//! by a process it may have reached the command alone, so it is passed on, unless the program ends at once. Whoever
//! is impatient gets rid of the program at the third one, and of the writing of the profile at the second.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use profiler_parent::ChildSignals;
use profiler_parent::core::internal::sys::spawn_quiet;

use crate::signals::{Caught, Signals};

/// How long a program that was told as well, as all of a process group are, may take until it is told once more.
const GRACE: Duration = Duration::from_millis(300);
const STEPS: u32 = 15;
/// Which signal in a row kills the program.
const PATIENCE: u32 = 3;
const SIGKILL: i32 = 9;

/// Whether the program has ended.
#[derive(Debug)]
pub(super) struct Stopping {
    ended: Arc<AtomicBool>,
}

impl Stopping {
    /// Listens from now on, on a thread that ends with the command.
    pub(super) fn watch(mut signals: Signals, child: ChildSignals) -> io::Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&ended);
        spawn_quiet("profiler-stop", move || {
            let (mut before, mut after) = (0, 0);
            while let Ok(caught) = signals.next() {
                if theirs.load(Ordering::Acquire) {
                    after += 1;
                    while_saving(caught, after);
                } else {
                    before += 1;
                    while_running(caught, before, &child, &theirs);
                }
            }
        })?;
        Ok(Self { ended })
    }

    /// The program is gone; what is left is to write its profile.
    pub(super) fn has_ended(&self) {
        self.ended.store(true, Ordering::Release);
    }
}

fn while_running(caught: Caught, number: u32, child: &ChildSignals, ended: &AtomicBool) {
    if number >= PATIENCE {
        eprintln!("\nprofiler: killing the program");
        let _ = child.send(SIGKILL);
    } else if !caught.from_terminal && !ends_soon(ended) {
        let _ = child.send(caught.signal); // it may have ended by now
    }
}

fn while_saving(caught: Caught, number: u32) {
    if number == 1 {
        eprintln!("\nprofiler: writing the profile; once more gives it up");
    } else {
        std::process::exit(128 + caught.signal);
    }
}

fn ends_soon(ended: &AtomicBool) -> bool {
    (0..STEPS).any(|_| {
        std::thread::sleep(GRACE / STEPS);
        ended.load(Ordering::Acquire)
    })
}
