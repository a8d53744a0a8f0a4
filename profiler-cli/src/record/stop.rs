//! The handling of Ctrl-C during a recording.
//!
//! Started by `record`. A Ctrl-C from the terminal also reaches the program, which is expected to
//! end; this command continues to wait. A signal sent by a process may have reached only this
//! command, so it is passed on, unless the program ends at once. The third signal kills the
//! program. After the program has ended, a signal ends the sending to engines, unless it may have
//! been meant for the program. While the profile is written, the second signal ends the command.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use profiler_parent::ChildSignals;
use profiler_push::PushCanceller;
use profiler_sys::spawn_quiet;

use crate::console::tell;
use crate::signals::{Caught, Signals};

/// The time in which a program may end before the signal is passed on to it. It may have received
/// the signal already, as all processes of a process group do.
const GRACE: Duration = Duration::from_millis(300);
const STEPS: u32 = 15;
/// The number of signals after which the program is killed.
const PATIENCE: u32 = 3;
const SIGKILL: i32 = 9;
/// The time after the end of the program in which a signal may have been meant for the program.
const LATE: Duration = Duration::from_secs(1);

/// What the command does.
#[derive(Clone, Debug)]
enum RecordPhase {
    /// The program runs.
    Running,
    /// The program has ended, and the command sends its last batches since this instant.
    Sending(PushCanceller, Instant),
    /// The program has ended, and the command writes its profile.
    Saving,
}

/// The phase of the command, which decides what a signal means.
#[derive(Clone, Debug)]
struct SharedPhase(Arc<Mutex<RecordPhase>>);

impl SharedPhase {
    fn get(&self) -> RecordPhase {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set(&self, phase: RecordPhase) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = phase;
    }

    fn is_running(&self) -> bool {
        matches!(self.get(), RecordPhase::Running)
    }
}

/// Handles the signals of a recording.
#[derive(Debug)]
pub(super) struct Stopping {
    phase: SharedPhase,
}

impl Stopping {
    /// Handles signals from now on, on a thread that ends with the command.
    pub(super) fn watch(mut signals: Signals, child: ChildSignals) -> io::Result<Self> {
        let phase = SharedPhase(Arc::new(Mutex::new(RecordPhase::Running)));
        let phase_of_thread = phase.clone();
        spawn_quiet("profiler-stop", move || {
            let (mut while_it_ran, mut while_it_was_saved) = (0, 0);
            let mut has_cancelled = false;
            while let Ok(caught) = signals.next() {
                match phase_of_thread.get() {
                    RecordPhase::Running => {
                        while_it_ran += 1;
                        while_running(caught, while_it_ran, &child, &phase_of_thread);
                    }
                    RecordPhase::Sending(_, since) if since.elapsed() < LATE => {}
                    RecordPhase::Sending(canceller, _) if !has_cancelled => {
                        has_cancelled = true;
                        tell("\nprofiler: stopped sending");
                        canceller.cancel();
                    }
                    RecordPhase::Sending(..) | RecordPhase::Saving => {
                        while_it_was_saved += 1;
                        while_saving(caught, while_it_was_saved);
                    }
                }
            }
        })?;
        Ok(Self { phase })
    }

    /// Notes that the program has ended and that the command sends its last batches.
    #[allow(clippy::disallowed_methods)] // compared with the same clock only
    pub(super) fn is_sending(&self, canceller: PushCanceller) {
        let since = Instant::now();
        self.phase.set(RecordPhase::Sending(canceller, since));
    }

    /// Notes that the program has ended and that only its profile is left to be written.
    pub(super) fn is_saving(&self) {
        self.phase.set(RecordPhase::Saving);
    }
}

fn while_running(caught: Caught, number: u32, child: &ChildSignals, phase: &SharedPhase) {
    if number >= PATIENCE {
        tell("\nprofiler: killing the program");
        let _ = child.send(SIGKILL);
    } else if !caught.from_terminal && !ends_soon(phase) {
        let _ = child.send(caught.signal); // it may have ended meanwhile
    }
}

fn while_saving(caught: Caught, number: u32) {
    if number == 1 {
        tell("\nprofiler: writing the profile; another signal cancels it");
    } else {
        crate::signals::end(caught);
    }
}

fn ends_soon(phase: &SharedPhase) -> bool {
    (0..STEPS).any(|_| {
        std::thread::sleep(GRACE / STEPS);
        !phase.is_running()
    })
}
