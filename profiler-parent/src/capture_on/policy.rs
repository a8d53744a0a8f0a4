//! Where the profiles of captures on a sign are written, what they contain, and how many there are.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::CaptureOnError;
use super::cause::CaptureNotice;
use crate::capture::Capture;
use crate::kept_files::KeptFiles;

type Configure = Arc<dyn Fn(Capture) -> Capture + Send + Sync>;
type Listener = Arc<dyn Fn(&CaptureNotice) + Send + Sync>;

/// What captures on a sign write, and how often.
#[derive(Clone)]
#[must_use = "a policy does nothing until it is given to Session::capture_on"]
pub struct CapturePolicy {
    directory: PathBuf,
    name: String,
    last: Option<Duration>,
    kept: usize,
    apart: Duration,
    configure: Option<Configure>,
    listener: Option<Listener>,
}

impl std::fmt::Debug for CapturePolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CapturePolicy")
            .field("directory", &self.directory)
            .field("name", &self.name)
            .field("last", &self.last)
            .field("kept", &self.kept)
            .field("apart", &self.apart)
            .finish_non_exhaustive()
    }
}

impl CapturePolicy {
    /// Writes profiles to this directory. Creates it, for this user alone, if it does not exist.
    /// A profile has the last 10 s; the newest 16 profiles are kept; a profile begins at least 60 s
    /// after the one before.
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            name: "capture".to_owned(),
            last: Some(Duration::from_secs(10)),
            kept: 16,
            apart: Duration::from_secs(60),
            configure: None,
            listener: None,
        }
    }

    /// Sets how the names of the files begin. Default: `capture`. After it come the time in
    /// milliseconds since the Unix epoch, the number of this process, a number, and the kind of the
    /// sign: `capture-1700000000123-4711-0001-death.json.gz`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets how much time before the capture a profile shows. The profile of an alert shows the
    /// slow runs also if they began earlier.
    pub const fn last(mut self, time: Duration) -> Self {
        self.last = Some(time);
        self
    }

    /// Writes everything that the session keeps, not only the last seconds.
    pub const fn everything(mut self) -> Self {
        self.last = None;
        self
    }

    /// Keeps this many of the newest profiles, at least one. Removes only files that these captures
    /// have written, and that were not changed since.
    pub const fn kept(mut self, files: usize) -> Self {
        self.kept = files;
        self
    }

    /// Sets the shortest time from the begin of a capture to the begin of the next one, whether the
    /// first one fails or not. Signs within that time are skipped and counted.
    pub const fn at_least_apart(mut self, time: Duration) -> Self {
        self.apart = time;
        self
    }

    /// Changes each capture before it is written, for example its format or its symbols. Called on
    /// the thread that writes. If it panics, the capture fails.
    pub fn configure(
        mut self,
        configure: impl Fn(Capture) -> Capture + Send + Sync + 'static,
    ) -> Self {
        self.configure = Some(Arc::new(configure));
        self
    }

    /// Calls `listener` after each capture, also after one that has failed. Called on the thread
    /// that writes; signs that come meanwhile wait. A panic in it has no further effect.
    pub fn on_capture(mut self, listener: impl Fn(&CaptureNotice) + Send + Sync + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    pub(super) const fn apart(&self) -> Duration {
        self.apart
    }

    pub(super) const fn listener(&self) -> Option<&Listener> {
        self.listener.as_ref()
    }

    /// The directory with the files that are kept.
    pub(super) fn files(&self) -> Result<KeptFiles, CaptureOnError> {
        if !is_plain_name(&self.name) {
            let name = self.name.clone();
            return Err(CaptureOnError::Name { name });
        }
        KeptFiles::in_directory(&self.directory, &self.name, self.kept).map_err(|source| {
            CaptureOnError::Directory {
                directory: self.directory.clone(),
                source,
            }
        })
    }

    /// A capture as this policy wants it, which shows at least this much time.
    pub(super) fn prepare(&self, capture: Capture, at_least: Duration) -> Capture {
        let capture = match self.last {
            Some(time) => capture.last(time.max(at_least)),
            None => capture,
        };
        match &self.configure {
            Some(configure) => configure(capture),
            None => capture,
        }
    }
}

/// Whether a name is that of a file in a directory.
fn is_plain_name(name: &str) -> bool {
    !name.contains('\0') && Path::new(name).file_name().is_some_and(|file| file == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_does_not_lead_to_another_directory() {
        for name in ["capture", "my app", ".hidden"] {
            assert!(is_plain_name(name), "{name}");
        }
        for name in ["", "..", "a/b", "/a", "a/", "a\0b"] {
            assert!(!is_plain_name(name), "{name:?}");
        }
    }
}
