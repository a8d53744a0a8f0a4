//! The spool of a pusher that was given no directory.
//!
//! Made by the pusher in the directory for temporary files, and removed by it. If its process is
//! killed, the directory stays; the next such pusher of the same user removes it. Invariants: the
//! directory of a living pusher is not removed; a forked child removes nothing.

use std::fs::{self, DirEntry, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use profiler_core::ids::ProcessId;
use profiler_core::internal::sys;

use super::directory_lock::is_in_use;
use super::spool_access::is_own;
use super::spool_directory::directories;

/// What the names of these directories begin with.
const PREFIX: &str = "profiler-push-";

/// A temporary directory. Removed when it is dropped by the process that made it.
#[derive(Debug)]
pub(super) struct TemporarySpool {
    directory: PathBuf,
    maker: ProcessId,
}

impl TemporarySpool {
    /// Makes one, and removes those of dead pushers.
    pub(super) fn create() -> io::Result<Self> {
        Self::create_in(&std::env::temp_dir())
    }

    fn create_in(parent: &Path) -> io::Result<Self> {
        remove_left_behind(parent);
        let private = Permissions::from_mode(0o700);
        let mut builder = tempfile::Builder::new();
        let made = builder.prefix(PREFIX).permissions(private);
        Ok(Self {
            directory: made.tempdir_in(parent)?.keep(),
            maker: sys::process_id(),
        })
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.directory
    }
}

impl Drop for TemporarySpool {
    fn drop(&mut self) {
        if self.maker == sys::process_id() {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

/// Removes the temporary spools of dead pushers of this user.
fn remove_left_behind(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_spool = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_spool && is_own_directory(&entry) {
            remove_if_unused(&entry.path());
        }
    }
}

fn is_own_directory(entry: &DirEntry) -> bool {
    let metadata = entry.metadata(); // not that of the target of a link
    metadata.is_ok_and(|metadata| metadata.is_dir() && is_own(&metadata))
}

/// Removes a temporary spool, unless a pusher uses a directory in it. A living pusher may not have
/// made its directory yet, so an empty spool stays.
fn remove_if_unused(spool: &Path) {
    let homes = directories(spool).unwrap_or_default();
    let is_unused = |home: &Path| matches!(is_in_use(home), Ok(false));
    if !homes.is_empty() && homes.iter().all(|(_, home)| is_unused(home)) {
        let _ = fs::remove_dir_all(spool);
    }
}

#[cfg(test)]
mod tests {
    use super::super::directory_lock::DirectoryLock;
    use super::*;

    fn spools(parent: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(parent).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// The files that a killed pusher leaves.
    fn leave_behind(parent: &Path) -> PathBuf {
        let spool = parent.join("profiler-push-killed");
        let home = spool.join("0".repeat(32));
        fs::create_dir_all(&home).unwrap();
        for file in ["state", "owner-1-0", "0000000000-1.json.gz"] {
            fs::write(home.join(file), "").unwrap();
        }
        spool
    }

    #[test]
    fn what_a_killed_pusher_leaves_is_removed_and_that_of_a_living_one_stays() {
        let parent = tempfile::tempdir().unwrap();
        let living = TemporarySpool::create_in(parent.path()).unwrap();
        let killed = leave_behind(parent.path());
        let next = TemporarySpool::create_in(parent.path()).unwrap();
        assert!(!killed.exists());
        assert!(living.path().exists() && next.path().exists());
        drop((living, next));
        assert_eq!(spools(parent.path()), [] as [PathBuf; 0]);
    }

    #[test]
    fn a_spool_of_which_a_directory_is_in_use_stays() {
        let parent = tempfile::tempdir().unwrap();
        let killed = leave_behind(parent.path());
        let home = killed.join("0".repeat(32));
        let lock = DirectoryLock::of_new(&home).unwrap();
        remove_left_behind(parent.path());
        assert!(home.exists());
        drop(lock);
        remove_left_behind(parent.path());
        assert!(!killed.exists());
    }

    #[test]
    fn a_link_to_a_directory_is_not_followed() {
        let parent = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(other.path(), parent.path().join("profiler-push-x")).unwrap();
        remove_left_behind(parent.path());
        assert!(other.path().exists());
        assert_eq!(spools(other.path()), [] as [PathBuf; 0]);
    }

    #[test]
    fn a_forked_child_does_not_remove_the_spool_of_its_parent() {
        let parent = tempfile::tempdir().unwrap();
        let mut spool = TemporarySpool::create_in(parent.path()).unwrap();
        spool.maker = ProcessId::new(0);
        let path = spool.path().to_owned();
        drop(spool);
        assert!(path.exists());
    }
}
