//! Tests of a pool in a named file: on a full file system entries are dropped and counted, and the
//! host is not harmed. A file that other users may change is refused.

#![cfg(all(target_os = "linux", not(profiler_portable)))]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::support;
use profiler_core::counter::Counter;
use profiler_core::ids::ByteLimit;
use profiler_core::internal::pool::AttachError;
use profiler_core::internal::reader::{PoolReader, Snapshot};
use profiler_core::session::{self, SessionParams, StartError, StartOptions};
use profiler_core::session::{DropReason, EntryCounts};
use profiler_core::{marker, text_marker};
use test_support::assert_matches;
use test_support::own_process;

/// A small file system in memory, which is unmounted on drop.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts a file system of `kib` KiB. Returns `None` if mounting is not allowed.
    fn mount(kib: u32) -> Option<Self> {
        let place = tempfile::tempdir().unwrap().keep();
        let options = format!("size={kib}k,mode=0700");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(&place)
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(place));
        }
        eprintln!("NOT TESTED: mounting a small file system is not allowed here");
        None
    }

    /// Fills the file system except for `spare` bytes. Returns the path of the file that fills it.
    fn fill(&self, spare: usize) -> PathBuf {
        let path = self.0.join("filler");
        let mut filler = File::create(&path).unwrap();
        let mut written = 0;
        while filler.write_all(&[1; 4096]).is_ok() {
            written += 4096;
        }
        filler.set_len((written - spare) as u64).unwrap();
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn private_file(path: &Path) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .unwrap()
}

fn start_in(file: &Arc<File>, limit: u64) -> Result<(), StartError> {
    let params = SessionParams {
        limit: ByteLimit::new(limit),
        ..SessionParams::default()
    };
    session::start(
        params,
        StartOptions {
            file: Some(Arc::clone(file)),
            ..StartOptions::default()
        },
    )
}

fn snapshot(file: &File) -> Snapshot {
    PoolReader::open(file).unwrap().snapshot().unwrap()
}

/// Records `count` markers on each of four threads, with pauses in which the manager can prepare
/// chunks.
fn record(count: u64) {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for number in 0..count {
                    text_marker!(
                        "text",
                        &profiler_core::marker::category::OTHER,
                        Default::default(),
                        "some text"
                    );
                    if number % 200 == 0 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            });
        }
    });
}

fn total(before: EntryCounts, after: EntryCounts) -> u64 {
    after.recorded() - before.recorded()
}

#[test]
fn on_a_full_file_system_entries_are_counted_and_the_host_is_not_harmed() {
    own_process!();
    let Some(disk) = SmallDisk::mount(256) else {
        return;
    };
    let file = Arc::new(private_file(&disk.0.join("pool")));
    start_in(&file, 8 << 20).unwrap();
    let before = snapshot(&file).counts();
    record(5_000);
    let after = snapshot(&file).counts();
    assert_eq!(total(before, after), 20_000, "{after:?}");
    assert!(
        after.delivered > 100,
        "the entries that fit are not kept: {after:?}"
    );
    assert!(
        after.evicted + after.dropped.of(DropReason::NoBudget) > 0,
        "the file system was not full: {after:?}"
    );
    assert!(profiler_sys::allocated_bytes(&file).unwrap() <= 256 << 10);
    session::stop();
}

#[test]
fn every_first_touch_on_a_full_file_system_is_refused_and_later_ones_succeed() {
    own_process!();
    let Some(disk) = SmallDisk::mount(512) else {
        return;
    };
    let file = Arc::new(private_file(&disk.0.join("pool")));
    start_in(&file, 8 << 20).unwrap();
    let filler = disk.fill(0);
    let before = snapshot(&file).counts();
    static COUNTER: Counter = Counter::new("room", "Memory", "is there any");
    COUNTER.add(1); // a page of counters
    marker!("a name"); // a page of names
    session::pause(); // a page of pauses
    session::resume();
    many_threads(40); // pages of rows and slots
    let full = snapshot(&file).counts();
    assert_eq!(total(before, full), 41, "{full:?}");
    assert!(
        full.dropped.total() > 0,
        "the file system was not full: {full:?}"
    );
    std::fs::remove_file(filler).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    many_threads(40);
    let after = snapshot(&file).counts();
    assert_eq!(total(full, after), 40);
    // Forty threads that begin at once may find the manager busy, which is not a lack of space.
    let busy = after.dropped.of(DropReason::Full) - full.dropped.of(DropReason::Full);
    assert!(busy < 40, "{after:?}");
    assert_eq!(
        after.delivered,
        full.delivered + 40 - busy,
        "entries are dropped although there is space again: {full:?} {after:?}"
    );
    session::stop();
}

/// Records one marker on each of `count` threads, which live at the same time.
fn many_threads(count: usize) {
    let barrier = std::sync::Barrier::new(count);
    std::thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                marker!("on a thread");
                barrier.wait();
            });
        }
    });
}

#[test]
fn a_pool_for_which_there_is_no_space_is_an_error() {
    own_process!();
    let Some(disk) = SmallDisk::mount(64) else {
        return;
    };
    let file = Arc::new(private_file(&disk.0.join("pool")));
    disk.fill(0);
    let refused = start_in(&file, 8 << 20);
    assert!(matches!(refused, Err(StartError::System(_))), "{refused:?}");
    assert!(!session::is_active());
}

#[test]
fn a_file_that_other_users_may_open_is_refused() {
    own_process!();
    let directory = tempfile::tempdir().unwrap();
    let file = Arc::new(private_file(&directory.path().join("pool")));
    for mode in [0o640, 0o604, 0o620] {
        file.set_permissions(PermissionsExt::from_mode(mode))
            .unwrap();
        file.set_len(0).unwrap();
        let refused = start_in(&file, 1 << 20);
        assert_matches!(refused, Err(StartError::Attach(AttachError::NotPrivate)));
    }
    file.set_permissions(PermissionsExt::from_mode(0o600))
        .unwrap();
    file.set_len(0).unwrap();
    start_in(&file, 1 << 20).unwrap();
    session::stop();
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_no_signal() {
    own_process!();
    let before = rustix::process::getrlimit(rustix::process::Resource::Fsize);
    let small = rustix::process::Rlimit {
        current: Some(1 << 20),
        ..before
    };
    rustix::process::setrlimit(rustix::process::Resource::Fsize, small).unwrap();
    let refused = session::start(SessionParams::default(), StartOptions::default());
    rustix::process::setrlimit(rustix::process::Resource::Fsize, before).unwrap();
    assert!(matches!(refused, Err(StartError::System(_))), "{refused:?}");
    let params = SessionParams::default();
    let spec = support::pool_spec(&params);
    assert!(spec.create_pool().is_ok());
}
