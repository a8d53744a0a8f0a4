//! The spool: batches on disk, which the capturing thread adds and the senders take.
//!
//! Shared by the threads of a pusher. `queue` decides; this file waits, and removes files.
//! Invariants: a thread waits only in [`Spool::take`] and [`Spool::pause`], and both end when the
//! pusher ends; the lock of the queue is not held while a file is read or written; no file is
//! changed after [`Spool::stop`], so another pusher can use the directory then.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::PushIdentity;
use super::batch::BatchId;
use super::dead_directories::LeftDirectories;
use super::destination::PushDestination;
use super::directory_lock::LockError;
use super::progress_file::{BatchProgress, FinishedBodies};
use super::pusher_directories::{DirectoryIndex, PusherDirectories};
use super::queue::{
    Amount, BatchEnd, BatchNumber, BatchQueue, DestinationCounts, DestinationIndex,
};
use super::spool_directory::StoredBatch;

/// The most directories of dead pushers that a pusher takes over, beside the program's own work.
const MOST_TAKEN: usize = 64;
/// The same for a pusher that does nothing else.
const MOST_TAKEN_ALONE: usize = 512;

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
            Self::Draining(until) => super::now() >= until,
            Self::Stopped => true,
        }
    }
}

/// The batches of a pusher.
#[derive(Debug)]
pub(super) struct Spool {
    homes: PusherDirectories,
    waiting: Mutex<WaitingBatches>,
    /// Notified when a batch is added, and at the end.
    changed: Condvar,
    /// Held while files are changed. Taken before `waiting`.
    files: Mutex<()>,
    keeps_for_others: bool,
}

#[derive(Debug)]
struct WaitingBatches {
    queue: BatchQueue,
    files: HashMap<BatchNumber, SpooledFile>,
    phase: SpoolPhase,
    /// The number of the next batch of this pusher.
    next: u64,
    /// The number of batches that were kept for other destinations.
    kept: u64,
}

/// The file of a batch in the queue.
#[derive(Clone, Debug)]
struct SpooledFile {
    stored: StoredBatch,
    /// The place of its directory.
    home: DirectoryIndex,
    /// For each destination the bodies that it had when the directory was taken over; `None` if it
    /// had all.
    earlier: Arc<[Option<FinishedBodies>]>,
    /// That of the pusher that has captured it.
    identity: Option<Arc<PushIdentity>>,
}

/// A batch that a sender has to send.
#[derive(Clone, Debug)]
pub(super) struct BatchToSend {
    pub(super) number: BatchNumber,
    pub(super) id: BatchId,
    pub(super) path: PathBuf,
    /// The place of its directory.
    home: DirectoryIndex,
    /// The bodies that the destination has accepted or refused, from an earlier pusher.
    pub(super) done: FinishedBodies,
    /// That of the pusher that has captured it; `None` for files.
    pub(super) identity: Option<Arc<PushIdentity>>,
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
        let homes = PusherDirectories::open(directory, destinations, identity, MOST_TAKEN)?;
        let limit = limit.saturating_sub(homes.left.bytes).max(limit / 4);
        Self::of(homes, limit, destinations.len())
    }

    /// Opens the spool of a dead pusher, to send what is there.
    pub(super) fn open_leftovers(
        directory: &Path,
        destinations: &[PushDestination],
        keeps_for_others: bool,
    ) -> io::Result<Self> {
        let identity = PushIdentity::default();
        let most = MOST_TAKEN_ALONE;
        let homes = PusherDirectories::open(directory, destinations, &identity, most)?;
        let mut spool = Self::of(homes, u64::MAX, destinations.len())?;
        spool.keeps_for_others = keeps_for_others;
        Ok(spool)
    }

    /// Opens a temporary spool of files.
    pub(super) fn open_files(
        directory: &Path,
        destinations: &[PushDestination],
    ) -> io::Result<Self> {
        let homes = PusherDirectories::of_files(directory, destinations)?;
        Self::of(homes, u64::MAX, destinations.len())
    }

    fn of(homes: PusherDirectories, limit: u64, destinations: usize) -> io::Result<Self> {
        let spool = Self {
            waiting: Mutex::new(WaitingBatches {
                queue: BatchQueue::new(limit, destinations),
                files: HashMap::new(),
                phase: SpoolPhase::Running,
                next: 0,
                kept: 0,
            }),
            homes,
            changed: Condvar::new(),
            files: Mutex::default(),
            keeps_for_others: false,
        };
        let mut files = Vec::new();
        for (place, home) in spool.homes.all() {
            for stored in home.batches()? {
                let earlier = |destination| home.earlier(destination).of_batch(stored.id.number);
                files.push(SpooledFile {
                    earlier: (0..destinations).map(earlier).collect(),
                    stored,
                    home: place,
                    identity: home.identity.clone(),
                });
            }
        }
        // Only now: a full queue removes files.
        files.into_iter().for_each(|file| spool.enqueue(file));
        Ok(spool)
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

    /// The path of the next batch while it is written. If another pusher has taken over the
    /// directory, makes a new one.
    ///
    /// # Errors
    /// The pusher has no directory, and none can be made.
    pub(super) fn unfinished_path(&self) -> io::Result<PathBuf> {
        let _files = self.change_files().ok_or_else(ended)?;
        self.homes.keep_own()?;
        let (_, home) = self.homes.own().ok_or(io::ErrorKind::NotFound)?;
        Ok(home.unfinished_path())
    }

    /// Adds the batch that is complete under [`Self::unfinished_path`].
    ///
    /// # Errors
    /// The batch is not in the spool then.
    pub(super) fn add(&self, entries: u64) -> io::Result<()> {
        let _files = self.change_files().ok_or_else(ended)?;
        let (place, home) = self.homes.own().ok_or(io::ErrorKind::NotFound)?;
        home.keep_locked()?;
        let number = self.next_number();
        let unfinished = home.unfinished_path();
        let bytes = fs::metadata(&unfinished)?.len();
        let path = home.batch_path(number, entries);
        fs::rename(unfinished, &path)?;
        let id = BatchId {
            series: home.series.clone(),
            number,
        };
        self.enqueue(SpooledFile {
            stored: StoredBatch {
                id,
                path,
                bytes,
                entries,
            },
            home: place,
            earlier: Arc::default(),
            identity: home.identity.clone(),
        });
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
        let mut waiting = self.lock();
        let removed = waiting.add(file);
        let files = waiting.take_files(&removed);
        drop(waiting);
        self.changed.notify_all();
        self.remove(&files);
    }

    /// Waits for the next batch for a destination. `None` when the pusher ends.
    pub(super) fn take(&self, destination: DestinationIndex) -> Option<BatchToSend> {
        let mut waiting = self.lock();
        loop {
            if waiting.phase.is_over() {
                return None;
            }
            if let Some(number) = waiting.queue.next_of(destination) {
                if let Some(batch) = waiting.batch_for(destination, number) {
                    return Some(batch);
                }
                drop(waiting);
                self.skip(destination, number);
                waiting = self.lock();
                continue;
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

    /// A destination has got a batch from an earlier pusher.
    fn skip(&self, destination: DestinationIndex, batch: BatchNumber) {
        let Some(_files) = self.change_files() else {
            return;
        };
        let mut waiting = self.lock();
        let removed = waiting
            .queue
            .finish(destination, batch, BatchEnd::SentEarlier);
        let files = waiting.take_files(&removed);
        drop(waiting);
        self.remove(&files);
    }

    /// Makes sure that no other pusher sends a batch.
    ///
    /// # Errors
    /// [`LockError::Lost`] if another pusher has taken over the directory of the batch, and sends
    /// it.
    pub(super) fn keep_locked(&self, batch: &BatchToSend) -> Result<(), LockError> {
        let home = self.homes.at(batch.home);
        home.map_or(Ok(()), |home| home.keep_locked())
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
        let until = super::now() + pause;
        let mut waiting = self.lock();
        loop {
            let is_there = waiting.queue.is_next_of(destination, batch);
            if !is_there || waiting.phase.is_over() {
                return false;
            }
            let left = until.saturating_duration_since(super::now());
            if left.is_zero() || ends_early(waiting.phase) {
                return true;
            }
            // The end of the time for draining is not announced.
            let left = match waiting.phase {
                SpoolPhase::Draining(end) => left.min(end.saturating_duration_since(super::now())),
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
            SpoolPhase::Draining(until) => until.saturating_duration_since(super::now()),
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
        let waiting = self.lock();
        let is_there = waiting.queue.is_next_of(destination, batch.number);
        let home = waiting.files.get(&batch.number).map(|file| file.home);
        drop(waiting);
        if is_there {
            let next = batch.id.number;
            self.note(home, destination, BatchProgress { next, done });
        }
        is_there
    }

    /// A destination is done with a batch. Without an effect if the spool has been stopped.
    pub(super) fn finish(&self, destination: DestinationIndex, batch: &BatchToSend, end: BatchEnd) {
        let Some(_files) = self.change_files() else {
            return;
        };
        let mut waiting = self.lock();
        let home = waiting.files.get(&batch.number).map(|file| file.home);
        let removed = waiting.queue.finish(destination, batch.number, end);
        let files = waiting.take_files(&removed);
        drop(waiting);
        let next = batch.id.number.saturating_add(1);
        let done = FinishedBodies::default();
        self.note(home, destination, BatchProgress { next, done });
        self.remove(&files);
    }

    /// Stores the progress of a destination. If that fails, the next pusher sends the bodies again;
    /// this one does not.
    fn note(
        &self,
        home: Option<DirectoryIndex>,
        destination: DestinationIndex,
        progress: BatchProgress,
    ) {
        if let Some(home) = home.and_then(|home| self.homes.at(home)) {
            let _ = home.note(destination.0, progress);
        }
    }

    /// Removes files. One that cannot be removed is found, and removed, by the next pusher. Leaves
    /// those alone whose directory another pusher has taken over, and those that are kept for other
    /// destinations.
    fn remove(&self, files: &[SpooledFile]) {
        for file in files {
            let home = self.homes.at(file.home);
            let Some(home) = home.filter(|home| home.keep_locked().is_ok()) else {
                continue;
            };
            if self.keeps_for_others && home.is_for_others(file.stored.id.number) {
                self.lock().kept += 1;
            } else {
                let _ = fs::remove_file(&file.stored.path);
            }
        }
    }

    /// The number of batches that stay because other destinations lack them.
    pub(super) fn kept(&self) -> u64 {
        self.lock().kept
    }

    /// The directories in the spool that were not taken over.
    pub(super) const fn left_directories(&self) -> LeftDirectories {
        self.homes.left
    }

    /// Ends the spool: nothing is added or sent any more, and another pusher can take over its
    /// directories. Waits for the change of a file that is under way.
    pub(super) fn stop(&self) {
        self.set_phase(SpoolPhase::Stopped);
        let _files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        self.release();
    }

    /// Removes the directories that have no batch, and unlocks the others. A forked child leaves
    /// those of its parent alone, and a pusher those that another one has taken over.
    fn release(&self) {
        for (_, home) in self.homes.all() {
            if !home.is_locked() {
                continue;
            }
            let is_ours = home.keep_locked().is_ok();
            if is_ours && home.batches().is_ok_and(|batches| batches.is_empty()) {
                let _ = home.remove();
            }
            home.unlock();
        }
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

impl WaitingBatches {
    /// A batch as a destination gets it; `None` if the destination has got it from an earlier
    /// pusher.
    fn batch_for(&self, destination: DestinationIndex, number: BatchNumber) -> Option<BatchToSend> {
        let file = self.files.get(&number)?;
        let earlier = file
            .earlier
            .get(destination.0)
            .copied()
            .unwrap_or(Some(FinishedBodies::default()))?;
        Some(BatchToSend {
            number,
            id: file.stored.id.clone(),
            path: file.stored.path.clone(),
            home: file.home,
            done: earlier,
            identity: file.identity.clone(),
        })
    }

    /// Adds a batch. Returns the batches to remove.
    fn add(&mut self, file: SpooledFile) -> Vec<BatchNumber> {
        let Self { queue, files, .. } = self;
        let StoredBatch { bytes, entries, .. } = file.stored;
        files.insert(queue.next_number(), file);
        queue.add(bytes, entries, |batch, destination| {
            let file: Option<&SpooledFile> = files.get(&batch);
            file.is_some_and(|file| file.earlier.get(destination.0) == Some(&None))
        })
    }

    fn take_files(&mut self, removed: &[BatchNumber]) -> Vec<SpooledFile> {
        removed
            .iter()
            .filter_map(|number| self.files.remove(number))
            .collect()
    }
}
