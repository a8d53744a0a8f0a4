//! A recovery: its options, and its start.
//!
//! Used by the `profiler` command and by applications. The events are those of a capture, because a
//! recovery writes the same profile.

use std::path::{Path, PathBuf};

use crossbeam_channel::Sender;

use super::merge::Recovery;
use super::survey::{SurveyedProcess, survey};
use super::{RecoverError, merge, processed_recovery};
use crate::capture::{self, CaptureEvent, CaptureEvents, Format};

/// A recovery that has not begun.
///
/// ```no_run
/// # fn main() -> Result<(), profiler_parent::recover::RecoverError> {
/// use profiler_parent::recover::PoolRecovery;
///
/// let recovery = PoolRecovery::new("/var/lib/app/pools");
/// let events = recovery.events();
/// std::thread::Builder::new().spawn(move || events.for_each(|event| println!("{event:?}")));
/// recovery.save("profile.json.gz")?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a recovery does nothing until it is saved"]
pub struct PoolRecovery {
    directory: PathBuf,
    format: Format,
    events: (Sender<CaptureEvent>, CaptureEvents),
}

impl PoolRecovery {
    /// A recovery of the session in `directory`, or of the only session directory in it.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            format: Format::default(),
            events: capture::events(),
        }
    }

    /// Sets the file format.
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Returns the events of this recovery, to watch on another thread.
    pub fn events(&self) -> CaptureEvents {
        self.events.1.clone()
    }

    /// Writes the profile to `target`. It contains all data up to the last entry that each process
    /// committed. The file is compressed if its name ends in `.gz`, readable only by its owner, and
    /// appears only when it is complete. Nothing in the directory is changed.
    ///
    /// # Errors
    /// [`RecoverError`]; an existing file at `target` is unchanged then.
    pub fn save(self, target: impl AsRef<Path>) -> Result<Recovery, RecoverError> {
        let target = target.as_ref();
        let survey = survey(&self.directory)?;
        let events = &self.events.0;
        match self.format {
            Format::Processed => processed_recovery::recover(survey, target, events),
            Format::Gecko => merge::recover(survey, target, events),
        }
    }
}

/// Writes the profile of the session in `directory` to `target`; see [`PoolRecovery`].
///
/// # Errors
/// As [`PoolRecovery::save`].
pub fn recover(directory: &Path, target: &Path, format: Format) -> Result<Recovery, RecoverError> {
    PoolRecovery::new(directory).format(format).save(target)
}

/// Sends the event of a process that is about to be read.
pub(super) fn send_reading(
    events: &Sender<CaptureEvent>,
    process: &SurveyedProcess,
    number: usize,
    of: usize,
) {
    let _ = events.try_send(CaptureEvent::Progress {
        pid: process.pid,
        proportion: number as f64 / of.max(1) as f64,
        location: "reading its memory".to_owned(),
    });
}
