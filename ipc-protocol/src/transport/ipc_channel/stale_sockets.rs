//! Removes directories of sockets whose listener was killed before its child connected.
//!
//! ipc-channel binds each listener to a socket in a separate temporary directory and removes both
//! when a peer connects. A parent that is killed before that leaves them, and they do not identify
//! their owner. So each listener [`sign`]s its directory, and the start of a session [`sweep`]s the
//! directories whose signer is dead. Invariant: only directories with the signature of a dead
//! process of this user, in this process's PID namespace, are removed, and only the two known files
//! in them.

use std::fs;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use profiler_core::ids::{PoolId, ProcessId, ProcessKey, ProcessStart};
use profiler_core::internal::sys;

/// The prefix of ipc-channel's directory names.
const DIRECTORY: &str = ".tmp";
/// The prefix of a signature: `profiler-PID-START-NAMESPACE`.
const SIGNATURE: &str = "profiler-";
/// Name of the socket.
const SOCKET: &str = "socket";

/// Signs the directory of `socket` with this process's identity. A directory without a signature is
/// never swept.
pub(super) fn sign(socket: &Path) {
    let Some(namespace) = namespace() else { return };
    let name = format!(
        "{SIGNATURE}{}-{}-{namespace}",
        sys::process_id(),
        sys::own_process_start()
    );
    let path = socket.with_file_name(name);
    let _ = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
}

/// Removes the sockets that killed processes of this user have left in the temporary directory.
pub fn sweep() {
    sweep_in(&std::env::temp_dir());
}

fn sweep_in(place: &Path) {
    let own = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let is_ours = |about: fs::Metadata| about.is_dir() && about.uid() == own;
        if entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(DIRECTORY.as_bytes())
            && entry.path().symlink_metadata().is_ok_and(is_ours)
        {
            sweep_one(&entry.path());
        }
    }
}

fn sweep_one(directory: &Path) {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    let names: Vec<String> = files
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .collect();
    let Some(signature) = names.iter().find(|name| is_signature_of_dead_process(name)) else {
        return;
    };
    if names.iter().all(|name| name == SOCKET || name == signature) {
        // The signature is removed last, so that the next sweep recognises a directory left
        // half-way.
        let _ = fs::remove_file(directory.join(SOCKET));
        let _ = fs::remove_file(directory.join(signature));
        let _ = fs::remove_dir(directory);
    }
}

fn is_signature_of_dead_process(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(SIGNATURE) else {
        return false;
    };
    let numbers: Vec<u64> = rest
        .split('-')
        .map_while(|number| number.parse().ok())
        .collect();
    let &[pid, start, seen] = numbers.as_slice() else {
        return false;
    };
    let Ok(pid) = u32::try_from(pid) else {
        return false;
    };
    let key = ProcessKey {
        pid: ProcessId::new(pid),
        start: ProcessStart::new(start),
        pool: PoolId::new(0),
    };
    namespace() == Some(seen) && pid != 0 && !sys::is_alive(&key)
}

/// The PID namespace of this process; `None` if unknown.
fn namespace() -> Option<u64> {
    fs::metadata("/proc/self/ns/pid")
        .ok()
        .map(|about| about.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory like ipc-channel's, with these files in it.
    fn directory(place: &Path, name: &str, files: &[&str]) -> std::path::PathBuf {
        let path = place.join(name);
        fs::create_dir(&path).unwrap();
        files
            .iter()
            .for_each(|file| fs::write(path.join(file), "").unwrap());
        path
    }

    fn dead() -> String {
        format!("{SIGNATURE}{}-1-{}", u32::MAX - 1, namespace().unwrap())
    }

    #[test]
    fn directories_of_dead_processes_are_swept() {
        let place = tempfile::tempdir().unwrap();
        let whole = directory(place.path(), ".tmpaaaaaa", &[SOCKET, &dead()]);
        let half = directory(place.path(), ".tmpbbbbbb", &[&dead()]);
        sweep_in(place.path());
        assert!(!whole.exists() && !half.exists());
    }

    #[test]
    fn all_other_directories_stay() {
        let place = tempfile::tempdir().unwrap();
        let elsewhere = format!("{SIGNATURE}{}-1-{}", u32::MAX - 1, namespace().unwrap() + 1);
        let kept = [
            directory(place.path(), ".tmpaaaaaa", &[SOCKET]),
            directory(place.path(), ".tmpbbbbbb", &[SOCKET, &elsewhere]),
            directory(
                place.path(),
                ".tmpcccccc",
                &[SOCKET, &dead(), "of somebody"],
            ),
            directory(place.path(), "dddddd", &[SOCKET, &dead()]),
            directory(
                place.path(),
                ".tmpeeeeee",
                &[SOCKET, "profiler-1-2-3-4", "profiler-x"],
            ),
            directory(place.path(), ".tmpffffff", &[SOCKET]),
        ];
        sign(&kept[5].join(SOCKET));
        assert_eq!(fs::read_dir(&kept[5]).unwrap().count(), 2, "signed");
        let count = |path: &std::path::PathBuf| fs::read_dir(path).map_or(0, Iterator::count);
        let before = kept.each_ref().map(count);
        sweep_in(place.path());
        assert_eq!(kept.each_ref().map(count), before);
    }
}
