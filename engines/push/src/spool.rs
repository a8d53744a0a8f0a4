//! The spool: batches on disk, which the capturing thread adds and the senders take.
//!
//! Shared by the threads of a pusher. `queue` decides; this file waits, and removes files.
//! Invariants: a thread waits only in [`Spool::take`] and [`Spool::pause`], and both end when the
//! pusher ends; the lock of the queue is not held while a file is read or written; no file is
//! changed after [`Spool::stop`], so another pusher can use the directory then.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::PushIdentity;
use super::batch::BatchId;
use super::clock::now;
use super::dead_directories::{DeadDirectories, LeftDirectories};
use super::destination::PushDestination;
use super::directory_lock::LockError;
use super::queue::{
    Amount, BatchEnd, BatchNumber, BatchQueue, DestinationCounts, DestinationIndex,
};
use super::spool_directory::{SpoolDirectory, StoredBatch};
use super::spool_state::{BatchProgress, FinishedBodies};

/// The phase of a pusher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpoolPhase {
    /// Batches are added and sent.
    Running,
    /// No batch is added any more; those that wait are sent until this time.
    Draining(Instant),
    /// Nothing is sent any more.
    Stopped,
}

impl SpoolPhase {
    fn is_ending(self) -> bool {
        self != Self::Running
    }

    fn is_over(self) -> bool {
        match self {
            Self::Running => false,
            Self::Draining(until) => now() >= until,
            Self::Stopped => true,
        }
    }
}

/// The batches of a pusher.
#[derive(Debug)]
pub(super) struct Spool {
    /// The directory that contains those of all pushers.
    directory: PathBuf,
    /// The addresses of the destinations.
    addresses: Vec<String>,
    identity: PushIdentity,
    /// The directory for new batches. `None` for files, and after the end.
    own: Mutex<Option<Arc<SpoolDirectory>>>,
    /// The directories of dead pushers, which are in the first one of this pusher.
    taken: Vec<Arc<SpoolDirectory>>,
    left: LeftDirectories,
    waiting: Mutex<WaitingBatches>,
    /// Notified when a batch is added, and at the end.
    changed: Condvar,
    /// Held while files are changed. Taken before `waiting`.
    files: Mutex<()>,
    keeps_for_others: bool,
}

#[derive(Debug)]
struct WaitingBatches {
    queue: BatchQueue<SpooledFile>,
    phase: SpoolPhase,
    /// The number of the next batch of this pusher.
    next: u64,
    /// The number of batches that were kept for other destinations.
    kept: u64,
}

/// The file of a batch in the queue.
#[derive(Debug)]
struct SpooledFile {
    stored: StoredBatch,
    /// `None` for a file of a user.
    home: Option<Arc<SpoolDirectory>>,
}

impl SpooledFile {
    /// What a destination has of it from an earlier pusher; `None` if it has all.
    fn done(&self, address: &str) -> Option<FinishedBodies> {
        let progress = self.home.as_ref().map(|home| home.progress(address));
        progress.unwrap_or_default().of_batch(self.stored.id.number)
    }
}

/// A batch that a sender has to send.
#[derive(Clone, Debug)]
pub(super) struct BatchToSend {
    pub(super) number: BatchNumber,
    pub(super) id: BatchId,
    pub(super) path: PathBuf,
    /// Its directory; `None` for a file of a user.
    home: Option<Arc<SpoolDirectory>>,
    /// The bodies that the destination has accepted or refused, from an earlier pusher.
    pub(super) done: FinishedBodies,
}

impl BatchToSend {
    /// The identity of the pusher that has captured it; `None` if it is not known.
    pub(super) fn identity(&self) -> Option<&PushIdentity> {
        self.home.as_ref()?.identity.as_ref()
    }

    /// Makes sure that no other pusher sends it.
    ///
    /// # Errors
    /// [`LockError::Lost`] if another pusher has taken over its directory, and sends it.
    pub(super) fn keep_locked(&self) -> Result<(), LockError> {
        let home = self.home.as_ref();
        home.map_or(Ok(()), |home| home.keep_locked())
    }
}

impl Spool {
    /// Opens a spool in a directory, and takes over what dead pushers have left there. What it
    /// cannot take over counts towards the limit, of which a quarter remains in any case.
    pub(super) fn open(
        directory: &Path,
        limit: u64,
        destinations: &[PushDestination],
        identity: &PushIdentity,
    ) -> io::Result<Self> {
        let mut spool = Self::new(directory, limit, destinations);
        spool.identity = identity.clone();
        spool.take_over()
    }

    /// Opens the spool of a dead pusher, to send what is there.
    pub(super) fn open_leftovers(
        directory: &Path,
        destinations: &[PushDestination],
        keeps_for_others: bool,
    ) -> io::Result<Self> {
        let mut spool = Self::new(directory, u64::MAX, destinations);
        spool.keeps_for_others = keeps_for_others;
        spool.take_over()
    }

    /// A spool of files of a user, which are not in a directory of it.
    pub(super) fn of_files(files: Vec<StoredBatch>, destinations: &[PushDestination]) -> Self {
        let spool = Self::new(Path::new(""), u64::MAX, destinations);
        for stored in files {
            spool.enqueue(SpooledFile { stored, home: None });
        }
        spool
    }

    fn new(directory: &Path, limit: u64, destinations: &[PushDestination]) -> Self {
        Self {
            directory: directory.to_owned(),
            addresses: destinations.iter().map(PushDestination::address).collect(),
            identity: PushIdentity::default(),
            own: Mutex::default(),
            taken: Vec::new(),
            left: LeftDirectories::default(),
            waiting: Mutex::new(WaitingBatches {
                queue: BatchQueue::new(limit, destinations.len()),
                phase: SpoolPhase::Running,
                next: 0,
                kept: 0,
            }),
            changed: Condvar::new(),
            files: Mutex::default(),
            keeps_for_others: false,
        }
    }

    /// Makes a directory for new batches, and moves those of dead pushers into it.
    fn take_over(mut self) -> io::Result<Self> {
        let own = self.create_own()?;
        let found = DeadDirectories::take_over(&self.directory, &own);
        let DeadDirectories { taken, left } = found.inspect_err(|_| own.remove_new())?;
        self.own = Mutex::new(Some(Arc::new(own)));
        self.left = left;
        self.lock().queue.spare(left.bytes);
        self.with(taken)
    }

    fn create_own(&self) -> io::Result<SpoolDirectory> {
        SpoolDirectory::create(&self.directory, &self.addresses, &self.identity)
    }

    /// The same, with the batches in these directories.
    fn with(mut self, homes: Vec<SpoolDirectory>) -> io::Result<Self> {
        self.taken = homes.into_iter().map(Arc::new).collect();
        let mut files = Vec::new();
        for home in &self.taken {
            let of_home = |stored| SpooledFile {
                stored,
                home: Some(Arc::clone(home)),
            };
            files.extend(home.batches()?.into_iter().map(of_home));
        }
        // Only now: a full queue removes files.
        files.into_iter().for_each(|file| self.enqueue(file));
        Ok(self)
    }

    fn lock(&self) -> MutexGuard<'_, WaitingBatches> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Permission to change files. `None` if the spool has been stopped.
    fn change_files(&self) -> Option<MutexGuard<'_, ()>> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        (!self.is_stopped()).then_some(files)
    }

    /// Whether nothing is added or sent any more.
    pub(super) fn is_stopped(&self) -> bool {
        self.lock().phase == SpoolPhase::Stopped
    }

    /// The directory for new batches.
    fn own(&self) -> MutexGuard<'_, Option<Arc<SpoolDirectory>>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path of the next batch while it is written. If another pusher has taken over the
    /// directory, makes a new one.
    ///
    /// # Errors
    /// The pusher has no directory, and none can be made.
    pub(super) fn unfinished_path(&self) -> io::Result<PathBuf> {
        let _files = self.change_files().ok_or_else(ended)?;
        let mut own = self.own();
        let home = own.as_ref().ok_or(io::ErrorKind::NotFound)?;
        match home.keep_locked() {
            Ok(()) => return Ok(home.unfinished_path()),
            Err(LockError::Lost) => {}
            Err(error) => return Err(error.into()),
        }
        let new = Arc::new(self.create_own()?);
        Ok(own.insert(new).unfinished_path())
    }

    /// Adds the batch that is complete under [`Self::unfinished_path`].
    ///
    /// # Errors
    /// The batch is not in the spool then.
    pub(super) fn add(&self, entries: u64) -> io::Result<()> {
        let _files = self.change_files().ok_or_else(ended)?;
        let home = self.own().clone().ok_or(io::ErrorKind::NotFound)?;
        home.keep_locked()?;
        let number = self.next_number();
        let unfinished = home.unfinished_path();
        let stored = StoredBatch {
            id: BatchId {
                series: home.series.clone(),
                number,
            },
            path: home.batch_path(number, entries),
            bytes: fs::metadata(&unfinished)?.len(),
            entries,
        };
        fs::rename(unfinished, &stored.path)?;
        let home = Some(home);
        self.enqueue(SpooledFile { stored, home });
        Ok(())
    }

    /// A number that no other batch of this pusher gets.
    fn next_number(&self) -> u64 {
        let mut waiting = self.lock();
        let number = waiting.next;
        waiting.next = number.saturating_add(1);
        number
    }

    fn enqueue(&self, file: SpooledFile) {
        let StoredBatch { bytes, entries, .. } = file.stored;
        let has = |address: &String| file.done(address).is_none();
        let has: Vec<bool> = self.addresses.iter().map(has).collect();
        let removed = self.lock().queue.add((bytes, entries), file, has);
        self.changed.notify_all();
        self.remove(removed);
    }

    /// Waits for the next batch for a destination. `None` when the pusher ends.
    pub(super) fn take(&self, destination: DestinationIndex) -> Option<BatchToSend> {
        let address = self.addresses.get(destination.0)?;
        let mut waiting = self.lock();
        loop {
            if waiting.phase.is_over() {
                return None;
            }
            if let Some(batch) = waiting.queue.next_of(destination) {
                let SpooledFile { stored, home } = &batch.file;
                return Some(BatchToSend {
                    number: batch.number,
                    id: stored.id.clone(),
                    path: stored.path.clone(),
                    home: home.clone(),
                    done: batch.file.done(address).unwrap_or_default(),
                });
            }
            if waiting.phase != SpoolPhase::Running {
                return None;
            }
            waiting = self
                .changed
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits before the next attempt to send a batch. False if it must not be sent any more,
    /// because it was removed or because the pusher ends.
    pub(super) fn pause(
        &self,
        destination: DestinationIndex,
        batch: BatchNumber,
        pause: Duration,
    ) -> bool {
        self.pause_unless(destination, batch, pause, |_| false)
    }

    /// Like [`Self::pause`], but ends early when the pusher begins to end.
    pub(super) fn pause_until_ending(
        &self,
        destination: DestinationIndex,
        batch: BatchNumber,
        pause: Duration,
    ) -> bool {
        self.pause_unless(destination, batch, pause, SpoolPhase::is_ending)
    }

    /// Waits for this time, or until `ends_early` returns true.
    fn pause_unless(
        &self,
        destination: DestinationIndex,
        batch: BatchNumber,
        pause: Duration,
        ends_early: impl Fn(SpoolPhase) -> bool,
    ) -> bool {
        let until = now() + pause;
        let mut waiting = self.lock();
        loop {
            let is_there = waiting.queue.is_next_of(destination, batch);
            if !is_there || waiting.phase.is_over() {
                return false;
            }
            let left = until.saturating_duration_since(now());
            if left.is_zero() || ends_early(waiting.phase) {
                return true;
            }
            // The end of the time for draining is not announced.
            let left = match waiting.phase {
                SpoolPhase::Draining(end) => left.min(end.saturating_duration_since(now())),
                _ => left,
            };
            let waited = self.changed.wait_timeout(waiting, left);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether the pusher is ending: it captures nothing more.
    pub(super) fn is_ending(&self) -> bool {
        self.lock().phase.is_ending()
    }

    /// The time left for sending. `None` if the pusher has ended.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let left = match self.lock().phase {
            SpoolPhase::Running => Duration::MAX,
            SpoolPhase::Draining(until) => until.saturating_duration_since(now()),
            SpoolPhase::Stopped => Duration::ZERO,
        };
        (!left.is_zero()).then_some(left)
    }

    /// Stores that a destination has accepted or refused a body. `done` counts the bodies of the
    /// batch so far, with this one. False if the batch was removed meanwhile, or the spool stopped.
    pub(super) fn finish_body(
        &self,
        destination: DestinationIndex,
        batch: &BatchToSend,
        done: FinishedBodies,
    ) -> bool {
        let Some(_files) = self.change_files() else {
            return false;
        };
        let is_there = self.lock().queue.is_next_of(destination, batch.number);
        if is_there {
            let next = batch.id.number;
            self.note(destination, batch, BatchProgress { next, done });
        }
        is_there
    }

    /// A destination is done with a batch. Without an effect if the spool has been stopped.
    pub(super) fn finish(&self, destination: DestinationIndex, batch: &BatchToSend, end: BatchEnd) {
        let Some(_files) = self.change_files() else {
            return;
        };
        let removed = self.lock().queue.finish(destination, batch.number, end);
        let next = batch.id.number.saturating_add(1);
        let done = FinishedBodies::default();
        self.note(destination, batch, BatchProgress { next, done });
        self.remove(removed);
    }

    /// Stores the progress of a destination. If that fails, the next pusher sends the bodies again.
    fn note(&self, destination: DestinationIndex, batch: &BatchToSend, progress: BatchProgress) {
        if let (Some(address), Some(home)) = (self.addresses.get(destination.0), &batch.home) {
            let _ = home.note(address, progress);
        }
    }

    /// Removes files. One that cannot be removed is found, and removed, by the next pusher. Leaves
    /// those of a user alone, those whose directory another pusher has taken over, and those that
    /// are kept for other destinations.
    fn remove(&self, files: impl IntoIterator<Item = SpooledFile>) {
        for SpooledFile { stored, home } in files {
            let Some(home) = home.filter(|home| home.keep_locked().is_ok()) else {
                continue;
            };
            if self.keeps_for_others && home.is_for_others(&self.addresses, stored.id.number) {
                self.lock().kept += 1;
            } else {
                let _ = fs::remove_file(&stored.path);
            }
        }
    }

    /// The number of batches that stay because other destinations lack them.
    pub(super) fn kept(&self) -> u64 {
        self.lock().kept
    }

    /// The directories in the spool that were not taken over.
    pub(super) const fn left_directories(&self) -> LeftDirectories {
        self.left
    }

    /// Ends the spool: nothing is added or sent any more, and another pusher can take over its
    /// directories. Waits for the change of a file that is under way.
    pub(super) fn stop(&self) {
        self.set_phase(SpoolPhase::Stopped);
        let _files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        self.release();
    }

    /// Removes the directories that have no batch, and leaves the others to the next pusher. A
    /// forked child leaves those of its parent alone, and a pusher those that another one has taken
    /// over.
    fn release(&self) {
        let own = self.own().take();
        let taken = self.taken.iter();
        taken.for_each(|taken| taken.give_back(&self.directory));
        own.iter().for_each(|own| own.release());
    }

    /// Sets the phase, and wakes all threads.
    pub(super) fn set_phase(&self, phase: SpoolPhase) {
        self.lock().phase = phase;
        self.changed.notify_all();
    }

    /// The bytes of all batches.
    pub(super) fn bytes(&self) -> u64 {
        self.lock().queue.bytes()
    }

    /// The batches that wait for a destination, and what has become of the others.
    pub(super) fn counts(&self, destination: DestinationIndex) -> (Amount, DestinationCounts) {
        let waiting = self.lock();
        let queue = &waiting.queue;
        (queue.waiting(destination), queue.counts(destination))
    }
}

fn ended() -> io::Error {
    io::Error::other("the pusher has ended")
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.release();
    }
}
