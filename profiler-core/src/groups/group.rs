//! A group: its identity, and its path from a static to its cell in the pool.
//!
//! Called by `groups::local` and by the public handles. A group is registered once per process, by
//! kind, name and labels: all statics and handles that agree in these are the same group. A
//! registered group stays for the life of the process, at most [`MAX_GROUPS`] of them, and gets a
//! cell when a session first counts it. Invariants: for a group that has its cell, nothing here
//! takes a lock or allocates; for one that has none, an entry never waits for a lock: ticks that
//! cannot be placed at once are kept and placed with the next iteration.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

use crate::counter::GroupTrack;
use crate::group_kind::GroupKind;
use crate::ids::{CounterIndex, GroupIndex};
use crate::manager::ChunkManager;
use crate::pending_sum::PendingSum;
use crate::pool::definitions::Definition;
use crate::pool::header::cut;
use crate::pool::layout::MAX_GROUPS;
use crate::pool::live::GroupCell;
use crate::pool::live::group::Run;
use crate::pool::tag::belongs_to;
use crate::record::backoff::spin_then_yield;
use crate::record::session_state;
use crate::sync::fixed::{AtomicU64, Ordering};

/// Longest name of a group, and of a label's key or value, in bytes; a longer one is cut.
pub(crate) const MAX_NAME_BYTES: usize = 256;
/// Maximum number of labels of a group; further ones are left out.
pub(crate) const MAX_LABELS: usize = 16;
/// Maximum number of groups that have a track of their own in the profile; the program's own
/// counters need rows too.
const MAX_TRACKS: u32 = 512;
/// Maximum number of groups of threads, one per thread name. All other threads form one group, also
/// when there is no room for more names.
const MAX_THREADS: usize = 1024;
/// Names of the implied groups. Room for these groups is always reserved, because every entry needs
/// the process's group and a thread's group.
const PROCESS: &str = "process";
const UNNAMED_THREADS: &str = "(unnamed threads)";
const OTHER_THREADS: &str = "(other threads)";
const RESERVED: u64 = 3;
/// Iterations of a group between two requests to a pool that had no room for it.
const ASK_AGAIN: u64 = 256;
/// Attempts to lock the registry at the first use of a group: about a microsecond.
const TRIES: usize = 32;
/// How long a forked child waits for the registry, whose lock may belong to a thread that does not
/// exist in the child.
const PATIENCE_MS: u32 = 20;

/// Identity of a group in its process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Identity {
    kind: GroupKind,
    name: String,
    labels: Vec<(String, String)>,
    is_fine: bool,
}

/// A group, shared by all its handles.
#[derive(Debug)]
pub(crate) struct Registered {
    identity: Identity,
    /// Tag of a pool (high 32), number of the group's cell in it + 1 (low 32).
    cell: AtomicU64,
    /// Tag and number, in the same form, of the counter that is the group's track.
    track: AtomicU64,
    /// Tag of the pool that last had no room for the group.
    refused_by: AtomicU64,
    tries: AtomicU64,
    /// Ticks that have no cell yet.
    waiting: PendingSum,
}

impl Identity {
    fn is_reserved(&self) -> bool {
        let is_implied = match self.kind {
            GroupKind::Process => self.name == PROCESS,
            GroupKind::Thread => self.name == UNNAMED_THREADS || self.name == OTHER_THREADS,
            _ => false,
        };
        is_implied && self.labels.is_empty() && !self.is_fine
    }
}

/// All groups of the process.
#[derive(Debug, Default)]
struct Known {
    groups: HashMap<Identity, &'static Registered>,
    /// Number of groups of threads.
    threads: usize,
    /// Hashes of the groups that found no room, for one pool. At most [`MAX_GROUPS`].
    refused: HashSet<u64>,
    refused_in: u64,
}

impl Known {
    fn has_room_for(&self, identity: &Identity) -> bool {
        let used = self.groups.len() as u64;
        used < MAX_GROUPS - RESERVED || used < MAX_GROUPS && identity.is_reserved()
    }

    /// Counts a group that found no room, once per pool.
    fn refuse(&mut self, identity: &Identity) {
        let mut hasher = DefaultHasher::new();
        identity.hash(&mut hasher);
        let _ = crate::record::local::with_manager(|manager| {
            if self.refused_in != manager.tag() {
                self.refused.clear();
                self.refused_in = manager.tag();
            }
            let is_full = self.refused.len() as u64 >= MAX_GROUPS;
            if is_full && !self.refused.contains(&hasher.finish())
                || self.refused.insert(hasher.finish())
            {
                manager.pool().count_group_left_out();
            }
            Some(())
        });
    }
}

static REGISTRY: Mutex<Option<Known>> = Mutex::new(None);
/// Set when a forked child has waited for the registry without getting its lock.
static IS_LOST: AtomicBool = AtomicBool::new(false);

impl Registered {
    fn new(identity: Identity) -> Self {
        let word = || AtomicU64::new(0);
        let waiting = PendingSum::new();
        Self {
            identity,
            cell: word(),
            track: word(),
            refused_by: word(),
            tries: word(),
            waiting,
        }
    }

    pub(crate) const fn is_fine(&self) -> bool {
        self.identity.is_fine
    }

    /// Adds a run to the group's cell.
    pub(crate) fn commit(&self, manager: &ChunkManager, run: &Run) {
        let Some(cell) = self.cell(manager) else {
            return self.keep(run.ticks);
        };
        let kept = self.take_kept();
        cell.commit(&Run {
            ticks: run.ticks.saturating_add(kept),
            ..*run
        });
        let track =
            number_in(self.track.load(Ordering::Relaxed), manager.tag()).map(CounterIndex::new);
        if let Some(track) = track.and_then(|track| manager.pool().counter(track)) {
            let wall = i64::try_from(run.wall_ns.unwrap_or(0)).unwrap_or(i64::MAX);
            track.add_many(wall, run.ticks.saturating_add(kept));
        }
    }

    /// Keeps ticks until they can be placed.
    #[cold]
    pub(crate) fn keep(&self, ticks: u64) {
        let ticks = i64::try_from(ticks).unwrap_or(i64::MAX);
        self.waiting
            .add(session_state::epoch_of(session_state::word()), ticks);
    }

    fn take_kept(&self) -> u64 {
        if self.waiting.is_empty() {
            0
        } else {
            ticks_of(&self.waiting)
        }
    }

    fn cell<'a>(&self, manager: &'a ChunkManager) -> Option<&'a GroupCell> {
        let known = number_in(self.cell.load(Ordering::Acquire), manager.tag());
        let number = known.or_else(|| self.place_again(manager))?;
        manager.pool().group(GroupIndex::new(number))
    }

    /// Tries to give the group a cell. Retries only every `ASK_AGAIN` iterations if the pool had no
    /// room.
    #[cold]
    fn place_again(&self, manager: &ChunkManager) -> Option<u32> {
        let is_refused = self.refused_by.load(Ordering::Relaxed) == manager.tag();
        let is_time = self
            .tries
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(ASK_AGAIN);
        if is_refused && !is_time {
            None
        } else {
            self.place(manager, false)
        }
    }

    /// Gives the group a cell. Waits for the manager's lock only if it `may_wait`. Otherwise
    /// retries a fixed number of times when the group is first used, because the maintenance thread
    /// of a new session holds the lock for microseconds.
    #[cold]
    fn place(&self, manager: &ChunkManager, may_wait: bool) -> Option<u32> {
        let mut state = match may_wait {
            true => manager.lock(),
            false if self.waiting.is_empty() => spin_then_yield(|| manager.try_lock())?,
            false => manager.try_lock()?, // the first use has retried already
        };
        let tag = manager.tag();
        if let Some(known) = number_in(self.cell.load(Ordering::Relaxed), tag) {
            return Some(known); // another thread was faster
        }
        let Some(cell) = state
            .rows
            .add_group(manager, |cell| self.define(manager, cell))
        else {
            if self.refused_by.swap(tag, Ordering::Relaxed) != tag {
                manager.pool().count_group_left_out();
            }
            return None;
        };
        if cell.get() < MAX_TRACKS
            && let Some(track) = GroupTrack::add(manager, &mut state, &self.track_name())
        {
            self.track
                .store(tagged(tag, track.get()), Ordering::Relaxed);
        }
        // Stored last: a thread that finds the cell finds the track too.
        self.cell.store(tagged(tag, cell.get()), Ordering::Release);
        Some(cell.get())
    }

    fn define(&self, manager: &ChunkManager, cell: GroupIndex) -> Option<()> {
        let Identity {
            kind,
            name,
            labels,
            is_fine,
        } = self.identity.clone();
        let kind = kind.name().to_owned();
        let definition = Definition::Group {
            cell,
            kind,
            name,
            labels,
            is_fine,
        };
        let id = manager.pool().define(&definition).ok()?;
        manager.pool().group(cell)?.publish(id);
        Some(())
    }

    fn track_name(&self) -> String {
        let Identity { kind, name, .. } = &self.identity;
        match kind {
            GroupKind::Process => "all groups".to_owned(),
            GroupKind::Thread => format!("all groups of {name}"),
            kind => format!("{kind} {name}"),
        }
    }
}

/// Takes the ticks of this session. Only ticks of this session are kept, so the sum is never below
/// zero.
fn ticks_of(kept: &PendingSum) -> u64 {
    u64::try_from(kept.take(session_state::epoch_of(session_state::word()))).unwrap_or(0)
}

fn tagged(tag: u64, number: u32) -> u64 {
    (tag << 32) | u64::from(number).saturating_add(1)
}

/// The number in `word` if it belongs to the pool with this tag.
fn number_in(word: u64, tag: u64) -> Option<u32> {
    let number = u32::try_from(word & 0xffff_ffff).ok()?.checked_sub(1)?;
    belongs_to(word, tag).then_some(number)
}

/// Makes every known group visible, except fine ones. Called when a session has begun.
pub(super) fn place_all(manager: &ChunkManager) {
    let all: Vec<&'static Registered> = lock().map_or_else(Vec::new, |known| {
        known
            .iter()
            .flat_map(|known| known.groups.values())
            .copied()
            .collect()
    });
    for group in all {
        // Implied groups are placed when they are first needed.
        if !group.is_fine()
            && !matches!(group.identity.kind, GroupKind::Process | GroupKind::Thread)
        {
            group.place(manager, true);
        }
    }
}

/// Locks the registry, after preparing the process for forks. `None` in a forked child that cannot
/// record, and in a forked child whose parent was holding the lock at the fork.
fn lock() -> Option<MutexGuard<'static, Option<Known>>> {
    if !cfg!(feature = "enabled") || session_state::is_forked_child() {
        return None;
    }
    session_state::prepare_for_forks();
    if session_state::may_have_lost_locks() {
        return lock_unless_lost();
    }
    Some(REGISTRY.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Waits for the registry at most [`PATIENCE_MS`] milliseconds. If its lock is lost, later calls do
/// not wait.
fn lock_unless_lost() -> Option<MutexGuard<'static, Option<Known>>> {
    let found = try_lock();
    if found.is_some() || IS_LOST.load(Ordering::Relaxed) {
        return found;
    }
    let found = (0..PATIENCE_MS).find_map(|_| {
        std::thread::sleep(Duration::from_millis(1));
        try_lock()
    });
    if found.is_none() {
        IS_LOST.store(true, Ordering::Relaxed);
    }
    found
}

/// Locks the registry; gives up if it stays locked.
fn try_lock() -> Option<MutexGuard<'static, Option<Known>>> {
    let tries = if IS_LOST.load(Ordering::Relaxed) {
        1
    } else {
        TRIES
    };
    (0..tries).find_map(|_| match REGISTRY.try_lock() {
        Ok(known) => Some(known),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => {
            std::hint::spin_loop();
            None
        }
    })
}

/// The group with this identity, registered if it is new; `None` if there are too many.
fn find(known: &mut Option<Known>, identity: Identity) -> Option<&'static Registered> {
    let known = known.get_or_insert_with(Known::default);
    if let Some(found) = known.groups.get(&identity) {
        return Some(found);
    }
    if !known.has_room_for(&identity) {
        known.refuse(&identity);
        return None;
    }
    known.threads += usize::from(identity.kind == GroupKind::Thread);
    // Leaked on purpose: a group lives as long as the process, and their number is bounded.
    let group: &'static Registered = Box::leak(Box::new(Registered::new(identity.clone())));
    known.groups.insert(identity, group);
    Some(group)
}

fn identity(kind: GroupKind, name: &str, labels: &[(&str, &str)], is_fine: bool) -> Identity {
    let text = |text: &str| cut(text, MAX_NAME_BYTES).to_owned();
    let labels = labels
        .iter()
        .take(MAX_LABELS)
        .map(|(key, value)| (text(key), text(value)))
        .collect();
    Identity {
        kind,
        name: text(name),
        labels,
        is_fine,
    }
}

/// The group of the whole process. `None` while the registry cannot be locked.
pub(super) fn of_process() -> Option<&'static Registered> {
    static FOUND: OnceLock<&'static Registered> = OnceLock::new();
    if let Some(known) = FOUND.get() {
        return Some(known);
    }
    let mut known = try_lock()?;
    let found = find(
        &mut known,
        identity(GroupKind::Process, PROCESS, &[], false),
    )?;
    // Initialised under the registry's lock. If the process forks meanwhile, the child cannot get
    // that lock, so it never waits for this cell.
    Some(FOUND.get_or_init(|| found))
}

/// The group of threads of this name. Threads without a name form one group; threads beyond the
/// maximum form another.
pub(super) fn of_thread(name: Option<&str>) -> Option<&'static Registered> {
    let mut known = try_lock()?;
    let own = identity(
        GroupKind::Thread,
        name.unwrap_or(UNNAMED_THREADS),
        &[],
        false,
    );
    let is_distinguished = known.as_ref().is_none_or(|known| {
        known.groups.contains_key(&own) || known.threads < MAX_THREADS && known.has_room_for(&own)
    });
    let own = if is_distinguished {
        own
    } else {
        identity(GroupKind::Thread, OTHER_THREADS, &[], false)
    };
    find(&mut known, own)
}

/// An entity that work is done for: a plugin, a tenant, a class of requests, a part of the program.
///
/// Made as a static, by [`crate::group!`] or [`Group::new`], or registered while the program runs.
/// All handles with the same kind, name and labels are one group of the process. A program should
/// have few groups: they stay for the life of the process. Groups beyond 4,093 are left out and
/// counted, each once.
#[derive(Debug)]
pub struct Group {
    /// `None`: the kind is the part of the name before a colon.
    kind: Option<GroupKind>,
    name: &'static str,
    is_fine: bool,
    registered: OnceLock<Option<&'static Registered>>,
    /// Entries made while the registry could not be locked.
    missed: PendingSum,
}

impl Group {
    /// A group for use as a static.
    pub const fn new(kind: GroupKind, name: &'static str) -> Self {
        Self::make(Some(kind), name, false)
    }

    /// A group from one text, such as `plugin:foo`. Without a known kind before the colon it is a
    /// component of that name.
    pub const fn named(text: &'static str) -> Self {
        Self::make(None, text, false)
    }

    /// A group that is measured only while [`super::Probes::FINE`] is requested, and does not
    /// appear in a profile before.
    pub const fn fine(kind: GroupKind, name: &'static str) -> Self {
        Self::make(Some(kind), name, true)
    }

    const fn make(kind: Option<GroupKind>, name: &'static str, is_fine: bool) -> Self {
        Self {
            kind,
            name,
            is_fine,
            registered: OnceLock::new(),
            missed: PendingSum::new(),
        }
    }

    /// The group of this kind and name, for names that are known only at run time, such as a
    /// tenant's. Takes a lock and may allocate: keep the handle. If there are too many groups
    /// already, the handle counts nothing.
    pub fn register(kind: GroupKind, name: &str) -> Self {
        Self::register_with(kind, name, &[])
    }

    /// Like [`Group::register`], with labels, which belong to the group's identity.
    pub fn register_with(kind: GroupKind, name: &str, labels: &[(&str, &str)]) -> Self {
        Self::registered_as(identity(kind, name, labels, false))
    }

    /// Like [`Group::register`], for a group that is measured only while [`super::Probes::FINE`] is
    /// requested.
    pub fn register_fine(kind: GroupKind, name: &str) -> Self {
        Self::registered_as(identity(kind, name, &[], true))
    }

    fn registered_as(identity: Identity) -> Self {
        let is_fine = identity.is_fine;
        let found = lock().and_then(|mut known| find(&mut known, identity));
        if let Some(group) = found.filter(|_| !is_fine && session_state::is_active()) {
            // Makes the group visible before it is entered.
            let _ = crate::record::local::with_manager(|manager| group.place(manager, true));
        }
        let group = Self::make(None, "", is_fine);
        let _ = group.registered.set(found);
        group
    }

    /// Whether the group is measured only while fine groups are requested.
    #[inline(always)]
    pub(super) const fn is_fine(&self) -> bool {
        self.is_fine
    }

    /// The group behind the handle; `None` if there are too many, or while the registry cannot be
    /// locked.
    #[inline]
    pub(super) fn registered(&self) -> Option<&'static Registered> {
        match self.registered.get() {
            Some(known) => *known,
            None => self.find(),
        }
    }

    /// Like `registered`, but waits for the registry; not for use on entries.
    pub(super) fn resolve(&self) -> Option<&'static Registered> {
        match self.registered.get() {
            Some(known) => *known,
            None => lock().and_then(|known| self.register_in(known)),
        }
    }

    #[cold]
    fn find(&self) -> Option<&'static Registered> {
        if let Some(known) = try_lock() {
            return self.register_in(known);
        }
        self.miss();
        None
    }

    fn register_in(
        &self,
        mut known: MutexGuard<'static, Option<Known>>,
    ) -> Option<&'static Registered> {
        let (kind, name) = self
            .kind
            .map_or_else(|| GroupKind::split(self.name), |kind| (kind, self.name));
        let found = find(&mut known, identity(kind, name, &[], self.is_fine));
        // Under the registry's lock, like the cell of the process's group.
        let found = *self.registered.get_or_init(|| found);
        drop(known);
        found.into_iter().for_each(|found| self.hand_over(found));
        found
    }

    /// Counts an entry made while the registry could not be locked.
    fn miss(&self) {
        self.missed
            .add(session_state::epoch_of(session_state::word()), 1);
        // A thread that registered the group meanwhile may have collected `missed` before this
        // entry was added.
        if let Some(Some(found)) = self.registered.get() {
            self.hand_over(found);
        }
    }

    /// Moves the missed entries to the registered group. Every thread that finds the group
    /// registered calls this once afterwards; [`PendingSum`] explains why no entry is lost.
    fn hand_over(&self, found: &'static Registered) {
        let missed = ticks_of(&self.missed);
        if missed > 0 {
            found.keep(missed);
        }
    }
}

/// A clone is the same group.
impl Clone for Group {
    fn clone(&self) -> Self {
        // Resolved before the copy, so that all clones share one registration and one set of missed
        // entries.
        let _ = self.resolve();
        let group = Self::make(self.kind, self.name, self.is_fine);
        if let Some(known) = self.registered.get() {
            let _ = group.registered.set(*known);
        }
        group
    }
}

#[cfg(test)]
pub(super) mod model {
    use super::*;

    /// A group outside the registry, for tests of stopwatches.
    pub(crate) fn unregistered(name: &str) -> &'static Registered {
        Box::leak(Box::new(Registered::new(identity(
            GroupKind::Component,
            name,
            &[],
            false,
        ))))
    }

    impl Registered {
        pub(crate) fn name(&self) -> &str {
            &self.identity.name
        }

        /// Ticks that have no cell yet.
        pub(crate) fn kept(&self) -> u64 {
            self.waiting.peek().unsigned_abs()
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
