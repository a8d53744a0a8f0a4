//! The directories of a spool that a pusher uses: its own, and those that it has taken over.
//!
//! Used by the spool. Invariants: the index of a directory does not change, because batches refer
//! to it; the last directory is the pusher's own. If another pusher takes over that directory, the
//! pusher makes a new one for all later batches.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::PushIdentity;
use super::dead_directories::{DeadDirectories, LeftDirectories, candidates};
use super::destination::PushDestination;
use super::directory_lock::LockError;
use super::spool_directory::SpoolDirectory;

/// The place of a directory among those of a pusher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirectoryIndex(usize);

/// The directories of a pusher.
#[derive(Debug)]
pub(super) struct PusherDirectories {
    /// The directory that contains them.
    spool: PathBuf,
    destinations: Vec<PushDestination>,
    identity: PushIdentity,
    directories: Mutex<Vec<Arc<SpoolDirectory>>>,
    /// The directories that it has not taken over.
    pub(super) left: LeftDirectories,
}

impl PusherDirectories {
    /// Makes a directory for this pusher, and takes over at most `most` directories of dead
    /// pushers.
    pub(super) fn open(
        spool: &Path,
        destinations: &[PushDestination],
        identity: &PushIdentity,
        most: usize,
    ) -> io::Result<Self> {
        let own = SpoolDirectory::create(spool, destinations, identity)?;
        let found = DeadDirectories::take_over(spool, &own.series, destinations, most);
        let found = found.inspect_err(|_| own.remove_new())?;
        let mut directories = found.taken;
        directories.push(own);
        Ok(Self {
            spool: spool.to_owned(),
            destinations: destinations.to_vec(),
            identity: identity.clone(),
            directories: Mutex::new(directories.into_iter().map(Arc::new).collect()),
            left: found.left,
        })
    }

    /// The directories of a temporary spool of files. No batch is added.
    pub(super) fn of_files(spool: &Path, destinations: &[PushDestination]) -> io::Result<Self> {
        let mut directories = Vec::new();
        for (series, path) in candidates(spool)? {
            let directory = SpoolDirectory::of_file(series, path, destinations)?;
            directories.push(Arc::new(directory));
        }
        Ok(Self {
            spool: spool.to_owned(),
            destinations: destinations.to_vec(),
            identity: PushIdentity::default(),
            directories: Mutex::new(directories),
            left: LeftDirectories::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<SpoolDirectory>>> {
        self.directories
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// All directories, in the order of their places.
    pub(super) fn all(&self) -> Vec<(DirectoryIndex, Arc<SpoolDirectory>)> {
        let all = self.lock();
        let places = (0..).map(DirectoryIndex);
        places.zip(all.iter().cloned()).collect()
    }

    /// The directory at a place.
    pub(super) fn at(&self, place: DirectoryIndex) -> Option<Arc<SpoolDirectory>> {
        self.lock().get(place.0).cloned()
    }

    /// The directory for new batches.
    pub(super) fn own(&self) -> Option<(DirectoryIndex, Arc<SpoolDirectory>)> {
        let all = self.lock();
        let place = all.len().checked_sub(1)?;
        Some((DirectoryIndex(place), Arc::clone(all.get(place)?)))
    }

    /// Makes sure that new batches have a directory which no other pusher uses. Called only by the
    /// thread that adds batches.
    ///
    /// # Errors
    /// The directory cannot be locked, or it was lost and no new one can be made.
    pub(super) fn keep_own(&self) -> io::Result<()> {
        let own = self.own().ok_or(io::ErrorKind::NotFound)?;
        match own.1.keep_locked() {
            Ok(()) => return Ok(()),
            Err(LockError::Lost) => {}
            Err(error) => return Err(error.into()),
        }
        let new = SpoolDirectory::create(&self.spool, &self.destinations, &self.identity)?;
        self.lock().push(Arc::new(new));
        Ok(())
    }
}
