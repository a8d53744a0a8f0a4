//! Profiles captured from the page: one at a time, on a separate thread, into a temporary
//! directory.
//!
//! Invariants: the number of profiles is bounded, and the latest are kept; their files are removed
//! with the server, or at the end of a capture that outlives it; only files in the list are served.
//! Each profile has its own secret, for the path that the viewer's page gets.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use profiler_sys::new_secret;
use profiler_sys::spawn_quiet;
use serde::{Serialize, Serializer};
use tempfile::TempDir;

use crate::capture::{Capture, CaptureReport, CaptureSources};
use crate::session_time::SessionNs;
use profiler_http::is_same;

/// Limit on the profiles kept.
const KEPT: usize = 16;

/// The content of a profile to capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Everything.
    All,
    /// This range of session time.
    Range(SessionNs, SessionNs),
    /// This much time before the request.
    Last(Duration),
    /// The evidence file of an alert.
    File(PathBuf),
}

/// The reason why no capture was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotBegun {
    /// Another capture is running.
    Busy,
    /// The system has no thread or no random bytes.
    System,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum ProfileState {
    Writing,
    Ready,
    Failed,
}

/// A secret and a file name: the first and the last part of a path. Shown only to clients with the
/// token.
#[derive(Clone, PartialEq, Eq)]
struct Link(String, String);

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

impl Serialize for Link {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("/{}/{}", self.0, self.1))
    }
}

/// A profile in the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Profile {
    number: u64,
    /// The last part of its path below the token.
    name: String,
    /// Its path for pages of other sites.
    link: Link,
    /// The description of its content, from the page.
    what: String,
    state: ProfileState,
    /// The path of the file on this machine, for `profiler view`.
    path: PathBuf,
    bytes: u64,
    error: Option<String>,
}

#[derive(Debug, Default)]
struct List {
    count: u64,
    /// The latest first.
    profiles: VecDeque<Profile>,
}

/// The profiles captured from the page. See the head of this file.
#[derive(Debug)]
pub(super) struct Profiles {
    captures: Arc<CaptureSources>,
    kept: Arc<KeptProfiles>,
}

/// The data that a capture keeps alive.
#[derive(Debug)]
struct KeptProfiles {
    directory: TempDir,
    list: Mutex<List>,
}

impl Profiles {
    pub(super) fn new(captures: Arc<CaptureSources>) -> io::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("profiler-live-")
            .tempdir()?;
        Ok(Self {
            captures,
            kept: Arc::new(KeptProfiles {
                directory,
                list: Mutex::default(),
            }),
        })
    }

    /// All profiles, the latest first.
    pub(super) fn all(&self) -> Vec<Profile> {
        self.kept.lock().profiles.iter().cloned().collect()
    }

    /// Opens the file of this name, if it is complete.
    pub(super) fn open(&self, name: &str) -> Option<File> {
        self.find(|one| one.name == name)
    }

    /// Opens the file with this secret and name, if it is complete.
    pub(super) fn shared(&self, secret: &str, name: &str) -> Option<File> {
        self.find(|one| one.name == name && is_same(secret, &one.link.0))
    }

    fn find(&self, is_it: impl Fn(&Profile) -> bool) -> Option<File> {
        let list = self.kept.lock();
        let profile = list
            .profiles
            .iter()
            .find(|one| one.state == ProfileState::Ready && is_it(one))?;
        File::open(&profile.path).ok()
    }

    /// Starts writing a profile, and returns its number.
    pub(super) fn begin(&self, wanted: Wanted, what: String) -> Result<u64, NotBegun> {
        let number = self.kept.add(what)?;
        let capture = Capture::new(Arc::clone(&self.captures));
        let kept = Arc::clone(&self.kept);
        let write = move || {
            let written = catch_unwind(AssertUnwindSafe(|| kept.write(number, wanted, capture)));
            kept.settle(
                number,
                written.unwrap_or_else(|_| Err("the capture panicked".to_owned())),
            );
        };
        match spawn_quiet("profiler-live-capture", write) {
            Ok(_) => Ok(number),
            Err(error) => {
                self.kept.settle(number, Err(error.to_string()));
                Err(NotBegun::System)
            }
        }
    }
}

impl KeptProfiles {
    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, number: u64) -> (String, PathBuf) {
        let name = format!("profile-{number}.json.gz");
        let path = self.directory.path().join(&name);
        (name, path)
    }

    fn add(&self, what: String) -> Result<u64, NotBegun> {
        let mut list = self.lock();
        if list
            .profiles
            .iter()
            .any(|one| one.state == ProfileState::Writing)
        {
            return Err(NotBegun::Busy);
        }
        let secret = new_secret().map_err(|_| NotBegun::System)?;
        list.count += 1;
        let number = list.count;
        let (name, path) = self.path(number);
        let link = Link(secret, name.clone());
        list.profiles.push_front(Profile {
            number,
            name,
            link,
            what,
            state: ProfileState::Writing,
            path,
            bytes: 0,
            error: None,
        });
        if let Some(gone) = (list.profiles.len() > KEPT)
            .then(|| list.profiles.pop_back())
            .flatten()
        {
            let _ = std::fs::remove_file(gone.path); // a failed capture has no file
        }
        Ok(number)
    }

    fn write(&self, number: u64, wanted: Wanted, capture: Capture) -> Result<u64, String> {
        let (_, path) = self.path(number);
        let save = |capture: Capture| {
            capture
                .save(&path)
                .map(|report: CaptureReport| report.bytes)
                .map_err(|error| error.to_string())
        };
        match wanted {
            Wanted::All => save(capture),
            Wanted::Range(from, to) => save(capture.range(from, to)),
            Wanted::Last(time) => save(capture.last(time)),
            Wanted::File(file) => std::fs::copy(file, &path).map_err(|error| error.to_string()),
        }
    }

    fn settle(&self, number: u64, written: Result<u64, String>) {
        let mut list = self.lock();
        let Some(profile) = list.profiles.iter_mut().find(|one| one.number == number) else {
            return;
        };
        match written {
            Ok(bytes) => (profile.state, profile.bytes) = (ProfileState::Ready, bytes),
            Err(error) => (profile.state, profile.error) = (ProfileState::Failed, Some(error)),
        }
    }
}
