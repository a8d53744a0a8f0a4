//! Finds the directory of one session, and opens the files in it without following links or
//! waiting.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::pools::SESSION_PREFIX;

/// The reason why a directory is not the directory of one session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It contains no readable pool.
    #[error("{} contains no readable pool{}", path.display(), list(why))]
    NoPools {
        /// The directory.
        path: PathBuf,
        /// The other files in it, with the reason why each is not a pool.
        why: Vec<String>,
    },
    /// It contains the directories of several sessions.
    #[error("{} contains several sessions, choose one{}", path.display(), list(sessions))]
    Several {
        /// The directory.
        path: PathBuf,
        /// Their names.
        sessions: Vec<String>,
    },
}

fn list(items: &[String]) -> String {
    if items.is_empty() {
        String::new()
    } else {
        format!(": {}", items.join("; "))
    }
}

/// Returns the session's directory: `path` itself if it contains pools, otherwise the only session
/// directory in it.
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
        (None, _) => Err(FindError::NoPools {
            path: path.to_owned(),
            why: Vec::new(),
        }),
        (Some(last), false) => {
            sessions.push(last);
            let sessions = sessions
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            Err(FindError::Several {
                path: path.to_owned(),
                sessions,
            })
        }
    }
}

/// The paths of all entries of a directory, sorted.
pub(super) fn entries(path: &Path) -> Result<Vec<PathBuf>, FindError> {
    let failed = |source| FindError::Read {
        path: path.to_owned(),
        source,
    };
    let entries: io::Result<Vec<PathBuf>> = std::fs::read_dir(path)
        .map_err(failed)?
        .map(|entry| Ok(entry?.path()))
        .collect();
    let mut entries = entries.map_err(failed)?;
    entries.sort();
    Ok(entries)
}

pub(super) fn is_pool_name(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "pool")
}

/// Opens a regular file for reading, without following a link or waiting for a pipe.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let irregular = || io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
    if !path.symlink_metadata()?.is_file() {
        return Err(irregular()); // clearer than the error of opening it
    }
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(irregular())
    }
}
