//! What is known of the place of a process's files, from its `Hello` to the end of its data.
//!
//! Created by a session when a child connects, because a process that has ended no longer has
//! a root directory. Invariants: [`ProcessFiles::note`] reads only
//! `/proc` on the calling thread; at most a sixteenth of the descriptors of this process are kept
//! open, one for a trusted child with a root directory or mounts of its own.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use profiler_core::ids::ProcessId;

use crate::patience::{self, NoResult};
use crate::sys::{self, CodeDirectory, Whereabouts};

/// The part of the descriptors that may be kept open.
const KEPT_PART: u64 = 16;

/// The number of directories that are kept open, of all sessions.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// Where a process runs, and how its files are reached.
#[derive(Debug)]
pub struct ProcessFiles {
    /// Where it ran when it connected.
    noted: Whereabouts,
    /// Where it ran at the latest look-up.
    latest: Mutex<Option<Whereabouts>>,
    /// Its directory for temporary files, if the path does not lead to it.
    temporary: OnceLock<KeptDirectory>,
    /// Number of look-ups that run.
    running: AtomicUsize,
    /// Whether the last look-up was late.
    is_late: AtomicBool,
}

/// A directory that stays open.
#[derive(Debug)]
struct KeptDirectory {
    directory: Arc<CodeDirectory>,
    _place: KeptPlace,
}

/// A place among the directories that are kept open.
#[derive(Debug)]
struct KeptPlace;

impl KeptPlace {
    fn take() -> Option<Self> {
        let most =
            usize::try_from(profiler_sys::descriptor_limit() / KEPT_PART).unwrap_or(usize::MAX);
        let add = |kept: usize| Some(kept + 1).filter(|kept| *kept <= most);
        let added = KEPT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        added.ok().map(|_| Self)
    }
}

impl Drop for KeptPlace {
    fn drop(&mut self) {
        KEPT.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ProcessFiles {
    /// Notes where a process runs. `None` if it has ended, or if `/proc` is not available.
    pub fn note(pid: ProcessId, is_trusted: bool) -> Option<Arc<Self>> {
        let files = Arc::new(Self::new(sys::whereabouts(pid)?));
        if is_trusted && !files.noted.shares_paths {
            files.keep_directory(pid);
        }
        Some(files)
    }

    pub(crate) fn new(noted: Whereabouts) -> Self {
        Self {
            noted,
            latest: Mutex::default(),
            temporary: OnceLock::new(),
            running: AtomicUsize::new(0),
            is_late: AtomicBool::new(false),
        }
    }

    /// Opens the directory for temporary files on another thread, and keeps it.
    pub(crate) fn keep_directory(self: &Arc<Self>, pid: ProcessId) {
        let files = Arc::downgrade(self);
        let open = move || {
            let place = KeptPlace::take()?;
            let directory = sys::temporary_directory_of(pid).ok()?;
            let files = files.upgrade()?;
            // Another process has the number if the process has ended.
            let is_same = files.is_same(&sys::whereabouts(pid)?);
            let kept = KeptDirectory {
                directory: Arc::new(directory),
                _place: place,
            };
            is_same.then(|| files.temporary.set(kept))
        };
        // Without a thread, the code has no names after the end of the process.
        let _ = patience::start(move || drop(open()));
    }

    /// Whether this is where the same process runs.
    pub(crate) fn is_same(&self, now: &Whereabouts) -> bool {
        self.noted.start == now.start
    }

    /// Notes where the process runs now.
    pub(crate) fn refresh(&self, now: Whereabouts) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    /// Where the process ran, the latest first.
    pub(crate) fn known(&self) -> Vec<Whereabouts> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let latest = latest.clone().filter(|latest| *latest != self.noted);
        latest.into_iter().chain([self.noted.clone()]).collect()
    }

    /// Its directory for temporary files, if it is kept open.
    pub(crate) fn temporary(&self) -> Option<Arc<CodeDirectory>> {
        let kept = self.temporary.get()?;
        Some(Arc::clone(&kept.directory))
    }

    /// Runs a look-up in the files, and waits for it for at most this time. While a look-up that
    /// was late has not ended, the files are not looked at again.
    pub(crate) fn within<T: Send + 'static>(
        self: &Arc<Self>,
        patience: Duration,
        look_up: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NoResult> {
        if self.is_late.load(Ordering::Relaxed) && self.running.load(Ordering::Relaxed) > 0 {
            return Err(NoResult::Late);
        }
        let running = RunningLookUp::begin(self);
        let result = patience::within(patience, move || {
            let _running = running;
            look_up()
        });
        let is_late = matches!(result, Err(NoResult::Late));
        self.is_late.store(is_late, Ordering::Relaxed);
        result
    }
}

/// A look-up that runs.
struct RunningLookUp(Arc<ProcessFiles>);

impl RunningLookUp {
    fn begin(files: &Arc<ProcessFiles>) -> Self {
        files.running.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(files))
    }
}

impl Drop for RunningLookUp {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, target_os = "linux", not(profiler_portable)))]
mod tests {
    use profiler_core::internal::sys::process_id;
    use test_support::own_process;
    use test_support::patience::until;

    use super::*;

    #[test]
    fn files_whose_look_up_was_late_are_not_looked_at_until_it_has_ended() {
        let files = Arc::new(ProcessFiles::new(sys::whereabouts(process_id()).unwrap()));
        let (release, wait) = crossbeam_channel::bounded::<()>(0);
        let short = Duration::from_millis(1);
        let late = files.within(short, move || wait.recv().is_ok());
        assert!(matches!(late, Err(NoResult::Late)), "{late:?}");
        let long = Duration::from_secs(120);
        assert!(matches!(files.within(long, || 1), Err(NoResult::Late)));
        drop(release);
        assert!(until(|| files.within(long, || 1).is_ok()));
    }

    #[test]
    fn a_directory_is_kept_open_as_long_as_the_notes_exist() {
        own_process!(); // counts the directories of the process
        let files = Arc::new(ProcessFiles::new(sys::whereabouts(process_id()).unwrap()));
        assert!(files.temporary().is_none() && KEPT.load(Ordering::Relaxed) == 0);
        files.keep_directory(process_id());
        assert!(until(|| files.temporary().is_some()));
        let kept = files.temporary().unwrap();
        assert!(kept.is_same(&sys::own_temporary_directory().unwrap()));
        assert_eq!(KEPT.load(Ordering::Relaxed), 1);
        drop(files);
        assert!(until(|| KEPT.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn a_directory_of_a_process_that_has_ended_is_not_kept() {
        own_process!();
        let mut other = sys::whereabouts(process_id()).unwrap();
        other.start = profiler_core::ids::ProcessStart::new(other.start.get() + 1);
        let files = Arc::new(ProcessFiles::new(other));
        files.keep_directory(process_id());
        assert!(
            until(|| Arc::weak_count(&files) == 0),
            "the thread has ended"
        );
        assert!(files.temporary().is_none());
    }
}
