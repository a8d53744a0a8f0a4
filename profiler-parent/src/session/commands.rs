//! The commands to all processes of a session: pause, resume, and one more sample of each thread.
//!
//! Part of [`super::Session`]. A command is carried out in this process at once, and sent to the
//! children. Invariant: in a process that records for another session, nothing is carried out.

use std::time::Duration;

use super::{Confirmation, Session};
use crate::supervisor::Control;

/// How long a session waits for its children to confirm a command.
const CONFIRM: Duration = Duration::from_secs(1);

impl Session {
    /// Stops recording in all processes until [`Session::resume`]. Returns when every child has
    /// confirmed, or after a second.
    pub fn pause(&self) -> Confirmation {
        self.here(profiler_core::session::pause);
        self.confirm(Control::Pause)
    }

    /// Ends [`Session::pause`].
    pub fn resume(&self) -> Confirmation {
        self.here(profiler_core::session::resume);
        self.confirm(Control::Resume)
    }

    /// Stops periodic samples in all processes until [`Session::resume_sampling`]. Markers are
    /// still recorded.
    pub fn pause_sampling(&self) -> Confirmation {
        self.here(profiler_core::session::pause_sampling);
        self.confirm(Control::PauseSampling)
    }

    /// Ends [`Session::pause_sampling`].
    pub fn resume_sampling(&self) -> Confirmation {
        self.here(profiler_core::session::resume_sampling);
        self.confirm(Control::ResumeSampling)
    }

    /// Waits until every selected thread of every child has been sampled once more.
    pub fn wait_one_periodic_sampling(&self) -> Confirmation {
        self.here(|| _ = profiler_core::session::wait_one_periodic_sampling());
        self.confirm(Control::WaitOnePeriodicSampling)
    }

    /// Carries out a command in this process, unless it records for another session.
    pub(super) fn here(&self, command: impl FnOnce()) {
        if self.own_process.is_recorded() {
            command();
        }
    }

    fn confirm(&self, control: Control) -> Confirmation {
        Confirmation::new(self.supervisor.handle.control(control, CONFIRM))
    }
}
