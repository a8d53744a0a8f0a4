//! The registry: all groups of the process.
//!
//! Called by the handles (`groups::group`) and by `groups::local`. A group is registered once per
//! process, by kind, name and labels: all statics and handles that agree in these are the same
//! group. A registered group stays for the life of the process, at most [`MAX_GROUPS`] of them.
//! Invariants: room for the implied groups is reserved; the functions that entries call, such as
//! [`of_process`], never wait for the registry's lock.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

use super::registered::{Identity, Registered};
use crate::group_kind::GroupKind;
use crate::manager::ChunkManager;
use crate::pool::layout::MAX_GROUPS;
use crate::record::session_state;
use crate::sync::fixed::Ordering;

/// Maximum number of groups of threads, one per thread name. All other threads form one group, also
/// when there is no room for more names.
const MAX_THREADS: usize = 1024;
/// Names of the implied groups. Room for these groups is always reserved, because every entry needs
/// the process's group and a thread's group.
const PROCESS: &str = "process";
const UNNAMED_THREADS: &str = "(unnamed threads)";
const OTHER_THREADS: &str = "(other threads)";
const RESERVED: u64 = 3;
/// Attempts to lock the registry at the first use of a group: about a microsecond.
const TRIES: usize = 32;
/// How long a forked child waits for the registry, whose lock may belong to a thread that does not
/// exist in the child.
const PATIENCE_MS: u32 = 20;

thread_local! {
    /// Whether the calling thread has locked the registry. The registry allocates, and the program's
    /// allocator may register and enter groups.
    static IS_LOCKED_HERE: Cell<bool> = const { Cell::new(false) };
}

/// The registry while the calling thread has it locked.
#[derive(Debug)]
pub(super) struct Locked(MutexGuard<'static, Option<GroupRegistry>>);

impl Locked {
    fn new(guard: MutexGuard<'static, Option<GroupRegistry>>) -> Self {
        IS_LOCKED_HERE.set(true);
        Self(guard)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        IS_LOCKED_HERE.set(false);
    }
}

impl Deref for Locked {
    type Target = Option<GroupRegistry>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// All groups of the process.
#[derive(Debug, Default)]
pub(super) struct GroupRegistry {
    groups: HashMap<Identity, &'static Registered>,
    /// Number of groups of threads.
    threads: usize,
    /// Hashes of the groups that found no room, for one pool. At most [`MAX_GROUPS`].
    refused: HashSet<u64>,
    refused_in: u64,
}

impl GroupRegistry {
    fn has_room_for(&self, identity: &Identity) -> bool {
        let used = self.groups.len() as u64;
        used < MAX_GROUPS - RESERVED || used < MAX_GROUPS && is_reserved(identity)
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

/// Whether room for this group is reserved.
fn is_reserved(identity: &Identity) -> bool {
    let is_implied = match identity.kind {
        GroupKind::Process => identity.name == PROCESS,
        GroupKind::Thread => identity.name == UNNAMED_THREADS || identity.name == OTHER_THREADS,
        _ => false,
    };
    is_implied && !identity.has_labels() && !identity.is_fine
}

static REGISTRY: Mutex<Option<GroupRegistry>> = Mutex::new(None);
/// Set when a forked child has waited for the registry without getting its lock.
static IS_LOST: AtomicBool = AtomicBool::new(false);

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
        if !group.is_fine() && !matches!(group.kind(), GroupKind::Process | GroupKind::Thread) {
            group.place(manager, true);
        }
    }
}

/// Locks the registry, after preparing the process for forks. `None` in a forked child that cannot
/// record, in a forked child whose parent was holding the lock at the fork, and if the calling
/// thread has locked it.
pub(super) fn lock() -> Option<Locked> {
    let is_usable = !session_state::is_forked_child() && !IS_LOCKED_HERE.get();
    if !cfg!(feature = "enabled") || !is_usable {
        return None;
    }
    session_state::prepare_for_forks();
    if session_state::may_have_lost_locks() {
        return lock_unless_lost();
    }
    Some(Locked::new(
        REGISTRY.lock().unwrap_or_else(PoisonError::into_inner),
    ))
}

/// Waits for the registry at most [`PATIENCE_MS`] milliseconds. If its lock is lost, later calls do
/// not wait.
fn lock_unless_lost() -> Option<Locked> {
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
pub(super) fn try_lock() -> Option<Locked> {
    let tries = match (IS_LOCKED_HERE.get(), IS_LOST.load(Ordering::Relaxed)) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => TRIES,
    };
    let found = (0..tries).find_map(|_| match REGISTRY.try_lock() {
        Ok(known) => Some(known),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => {
            std::hint::spin_loop();
            None
        }
    });
    found.map(Locked::new)
}

/// The group with this identity, registered if it is new; `None` if there are too many.
pub(super) fn find(
    known: &mut Option<GroupRegistry>,
    identity: Identity,
) -> Option<&'static Registered> {
    let known = known.get_or_insert_with(GroupRegistry::default);
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

/// The group of the whole process. `None` while the registry cannot be locked.
pub(super) fn of_process() -> Option<&'static Registered> {
    static FOUND: OnceLock<&'static Registered> = OnceLock::new();
    if let Some(known) = FOUND.get() {
        return Some(known);
    }
    let mut known = try_lock()?;
    let found = find(
        &mut known,
        Identity::new(GroupKind::Process, PROCESS, &[], false),
    )?;
    // Initialised under the registry's lock. If the process forks meanwhile, the child cannot get
    // that lock, so it never waits for this cell.
    Some(FOUND.get_or_init(|| found))
}

/// The group of threads of this name. Threads without a name form one group; threads beyond the
/// maximum form another.
pub(super) fn of_thread(name: Option<&str>) -> Option<&'static Registered> {
    let mut known = try_lock()?;
    let own = Identity::new(
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
        Identity::new(GroupKind::Thread, OTHER_THREADS, &[], false)
    };
    find(&mut known, own)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn implied_groups_have_room_when_all_others_are_refused() {
        let mut known = Some(GroupRegistry::default());
        let of = |kind, name: &str| Identity::new(kind, name, &[], false);
        let tenants = (0..MAX_GROUPS + 10).map(|number| of(GroupKind::Tenant, &number.to_string()));
        let found = tenants
            .filter_map(|tenant| find(&mut known, tenant))
            .count() as u64;
        assert_eq!(found, MAX_GROUPS - RESERVED);
        assert!(find(&mut known, of(GroupKind::Thread, "worker")).is_none());
        for (kind, name) in [
            (GroupKind::Process, PROCESS),
            (GroupKind::Thread, UNNAMED_THREADS),
            (GroupKind::Thread, OTHER_THREADS),
        ] {
            assert!(find(&mut known, of(kind, name)).is_some(), "{name}");
        }
        let labelled = Identity::new(GroupKind::Process, PROCESS, &[("a", "b")], false);
        assert!(find(&mut known, labelled).is_none());
        assert_eq!(known.unwrap().groups.len() as u64, MAX_GROUPS);
    }
}
