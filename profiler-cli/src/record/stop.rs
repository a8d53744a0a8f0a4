//! The handling of Ctrl-C during a recording.
//!
//! Started by `record`. A Ctrl-C from the terminal also reaches the program, which is expected to
//! end; this command continues to wait. A signal sent by a process may have reached only this
//! command, so it is passed on, unless the program ends at once. The third signal kills the
//! program. While the profile is written, the second signal ends the command.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use profiler_parent::ChildSignals;
use profiler_parent::core::internal::sys::spawn_quiet;

use crate::signals::{Caught, Signals};

/// The time in which a program may end before the signal is passed on to it. It may have received
/// the signal already, as all processes of a process group do.
const GRACE: Duration = Duration::from_millis(300);
const STEPS: u32 = 15;
/// The number of signals after which the program is killed.
const PATIENCE: u32 = 3;
const SIGKILL: i32 = 9;

/// Whether the program has ended.
#[derive(Debug)]
pub(super) struct Stopping {
    ended: Arc<AtomicBool>,
}

impl Stopping {
    /// Handles signals from now on, on a thread that ends with the command.
    pub(super) fn watch(mut signals: Signals, child: ChildSignals) -> io::Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let has_ended_flag = Arc::clone(&ended);
        spawn_quiet("profiler-stop", move || {
            let mut before = 0;
            let mut after = 0;
            while let Ok(caught) = signals.next() {
                if has_ended_flag.load(Ordering::Acquire) {
                    after += 1;
                    while_saving(caught, after);
                } else {
                    before += 1;
                    while_running(caught, before, &child, &has_ended_flag);
                }
            }
        })?;
        Ok(Self { ended })
    }

    /// Notes that the program has ended and that only the writing of its profile is left.
    pub(super) fn has_ended(&self) {
        self.ended.store(true, Ordering::Release);
    }
}

fn while_running(caught: Caught, number: u32, child: &ChildSignals, ended: &AtomicBool) {
    if number >= PATIENCE {
        crate::report::tell("\nprofiler: killing the program");
        let _ = child.send(SIGKILL);
    } else if !caught.from_terminal && !ends_soon(ended) {
        let _ = child.send(caught.signal); // it may have ended meanwhile
    }
}

fn while_saving(caught: Caught, number: u32) {
    if number == 1 {
        crate::report::tell("\nprofiler: writing the profile; another signal cancels it");
    } else {
        crate::signals::end(caught);
    }
}

fn ends_soon(ended: &AtomicBool) -> bool {
    (0..STEPS).any(|_| {
        std::thread::sleep(GRACE / STEPS);
        ended.load(Ordering::Acquire)
    })
}
