//! Finding the directory of one session, and opening what lies in it with care.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::pools::SESSION_PREFIX;

/// Why a directory is not that of a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It holds no pool that can be read.
    #[error("{} holds no pool that can be read{}", path.display(), list(why))]
    NoPools {
        /// The directory.
        path: PathBuf,
        /// What there is instead.
        why: Vec<String>,
    },
    /// It holds the directories of several sessions.
    #[error("{} holds several sessions, name one{}", path.display(), list(sessions))]
    Several {
        /// The directory.
        path: PathBuf,
        /// Their names.
        sessions: Vec<String>,
    },
}

fn list(items: &[String]) -> String {
    if items.is_empty() { String::new() } else { format!(": {}", items.join("; ")) }
}

/// The session's directory: `path` itself if pools lie in it, else the only one below it.
pub(super) fn session_directory(path: &Path) -> Result<PathBuf, FindError> {
    let entries = entries(path)?;
    if entries.iter().any(|entry| is_pool_name(entry)) {
        return Ok(path.to_owned());
    }
    let is_session = |entry: &PathBuf| {
        super::shown(entry).starts_with(SESSION_PREFIX)
            && entry.symlink_metadata().is_ok_and(|about| about.is_dir())
    };
    let mut sessions: Vec<PathBuf> = entries.into_iter().filter(is_session).collect();
    match (sessions.pop(), sessions.is_empty()) {
        (Some(only), true) => Ok(only),
        (None, _) => Err(FindError::NoPools { path: path.to_owned(), why: Vec::new() }),
        (Some(last), false) => {
            sessions.push(last);
            let sessions = sessions.iter().map(|path| path.display().to_string()).collect();
            Err(FindError::Several { path: path.to_owned(), sessions })
        }
    }
}

/// Everything in a directory, by name.
pub(super) fn entries(path: &Path) -> Result<Vec<PathBuf>, FindError> {
    let failed = |source| FindError::Read { path: path.to_owned(), source };
    let entries: io::Result<Vec<PathBuf>> =
        std::fs::read_dir(path).map_err(failed)?.map(|entry| Ok(entry?.path())).collect();
    let mut entries = entries.map_err(failed)?;
    entries.sort();
    Ok(entries)
}

pub(super) fn is_pool_name(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "pool")
}

/// Opens a file for reading: no link is followed, no pipe is waited for.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let irregular = || io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
    if !path.symlink_metadata()?.is_file() {
        return Err(irregular()); // says more than what opening it would
    }
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(irregular()) }
}
