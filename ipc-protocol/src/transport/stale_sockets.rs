//! Directories of sockets, and the removal of those whose listener was killed.
//!
//! A listener of ipc-channel is bound to a socket in a separate temporary directory, and removes
//! both when a peer connects; a session that processes can join ([`super::joining`]) removes its
//! directory at its end. A parent that is killed before that leaves them, and they do not identify
//! their owner. So each listener [`sign`]s its directory, and the start of a session [`sweep`]s the
//! directories whose signer is dead. Invariant: only directories with the signature of a dead
//! process of this user, in this process's PID namespace, are removed, and only the two known files
//! in them.

use std::fs;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use profiler_core::ids::{PoolId, ProcessId, ProcessKey, ProcessStart};
use profiler_core::internal::sys;

/// The prefix of the names of the directories, of ipc-channel and of ours.
const DIRECTORY: &str = ".tmp";
/// The prefix of a signature: `profiler-PID-START-NAMESPACE`.
const SIGNATURE: &str = "profiler-";
/// Name of the socket.
const SOCKET: &str = "socket";

/// Signs the directory of `socket` with this process's identity. A directory without a signature is
/// never swept.
pub(super) fn sign(socket: &Path) {
    let Some(name) = signature() else { return };
    let path = socket.with_file_name(name);
    let _ = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
}

/// The name of this process's signature; `None` if its namespace is not known.
fn signature() -> Option<String> {
    let namespace = namespace()?;
    Some(format!(
        "{SIGNATURE}{}-{}-{namespace}",
        sys::process_id(),
        sys::own_process_start()
    ))
}

/// Makes a directory for a socket, which only this user may enter, and returns the path of the
/// socket in it. The user's runtime directory is preferred, because it is memory and is emptied
/// when the user logs out.
pub(super) fn make_directory() -> std::io::Result<PathBuf> {
    let mut last = std::io::Error::from(std::io::ErrorKind::NotFound);
    for place in places() {
        let mut builder = tempfile::Builder::new();
        builder.permissions(fs::Permissions::from_mode(0o700));
        let made = builder.prefix(DIRECTORY).tempdir_in(&place);
        // The mode of a new directory depends on the program's umask.
        let closed = made.and_then(|directory| {
            fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700))?;
            Ok(directory.keep())
        });
        match closed {
            Ok(directory) => return Ok(directory.join(SOCKET)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Removes a socket of this process and its directory.
pub(super) fn remove_directory(socket: &Path) {
    let _ = fs::remove_file(socket);
    if let Some(name) = signature() {
        let _ = fs::remove_file(socket.with_file_name(name));
    }
    let _ = socket.parent().map(fs::remove_dir);
}

/// The directories in which sockets are made: the user's runtime directory, if it is this user's
/// alone, and the temporary directory.
fn places() -> Vec<PathBuf> {
    let own = rustix::process::geteuid().as_raw();
    let is_own = |place: &PathBuf| {
        let about = fs::metadata(place);
        place.is_absolute()
            && about.is_ok_and(|about| {
                about.is_dir() && about.uid() == own && about.permissions().mode() & 0o077 == 0
            })
    };
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let mut places: Vec<PathBuf> = runtime.into_iter().filter(is_own).collect();
    places.push(std::env::temp_dir());
    places
}

/// Removes the sockets that killed processes of this user have left in the runtime directory and in
/// the temporary directory.
pub fn sweep() {
    places().iter().for_each(|place| sweep_in(place));
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

    #[test]
    fn a_directory_is_closed_to_others_and_removed_with_its_files() {
        let socket = make_directory().unwrap();
        let directory = socket.parent().unwrap();
        let mode = fs::metadata(directory).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        sign(&socket);
        fs::write(&socket, "").unwrap();
        assert_eq!(fs::read_dir(directory).unwrap().count(), 2);
        remove_directory(&socket);
        assert!(!directory.exists());
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
