//! The library that `record` preloads into programs.
//!
//! The command contains it ([`profiler_observed::LIBRARY`]), because `cargo install` installs
//! executables only and a copied command has nothing beside it. The first use writes the library to
//! a directory of the user (`place`). Invariant: only a library that belongs to this user or to
//! root, and that no other user can change, is loaded into programs.

mod place;
mod trust;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use place::place;
pub(crate) use place::write_whole;

/// The file name of the preloaded library.
const FILE_NAME: &str = "libprofiler_observed.so";
/// The loader loads the libraries that this variable names into every program.
const PRELOAD: &str = "LD_PRELOAD";
const ASAN_OPTIONS: &str = "ASAN_OPTIONS";
/// Lets the address sanitizer of GCC accept that it is not the first library.
const ASAN_MAY_BE_LATER: &str = "verify_asan_link_order=0";

/// Why the loader does not take a path.
const UNUSABLE: &str = "the path is relative, or contains a space, a colon or a dollar sign";

/// Why a library cannot be loaded into programs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LibraryError {
    /// Programs can be made to load a library only there.
    #[error("libraries are preloaded only on Linux")]
    Unsupported,
    /// The command does not contain the library.
    #[error("this build of the command does not contain {0}")]
    NotBuilt(&'static str),
    /// No directory can hold the library.
    #[error("{name} cannot be written to {path}: {source}")]
    NotWritten {
        /// The name of the library.
        name: &'static str,
        /// The last directory that was tried.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// The preloaded library, as the loader is told to find it.
#[derive(Debug)]
pub(crate) struct PreloadedLibrary {
    entry: OsString,
}

impl PreloadedLibrary {
    /// Finds the library that this command contains. Writes it to a directory of this user, unless
    /// it is there already.
    ///
    /// # Errors
    /// [`LibraryError`].
    pub(crate) fn find() -> Result<Self, LibraryError> {
        if !cfg!(target_os = "linux") {
            return Err(LibraryError::Unsupported);
        }
        let directory = placed(FILE_NAME, profiler_observed::LIBRARY)?;
        Ok(Self {
            entry: directory.join(FILE_NAME).into_os_string(),
        })
    }

    /// Makes the program that `command` starts, and all programs below it, load the library. Keeps
    /// what the environment of this process asks for.
    pub(crate) fn load_into(&self, command: &mut Command) {
        let earlier = std::env::var_os(PRELOAD).unwrap_or_default();
        command.env(PRELOAD, joined(&earlier, &self.entry));
        let earlier = std::env::var_os(ASAN_OPTIONS).unwrap_or_default();
        command.env(
            ASAN_OPTIONS,
            joined(&earlier, OsStr::new(ASAN_MAY_BE_LATER)),
        );
    }
}

/// Writes a library to a directory of this user, unless it is there. Returns the directory.
///
/// # Errors
/// [`LibraryError::NotBuilt`], [`LibraryError::NotWritten`].
pub(crate) fn placed(name: &'static str, library: &[u8]) -> Result<PathBuf, LibraryError> {
    if library.is_empty() {
        return Err(LibraryError::NotBuilt(name));
    }
    let mut refused = None;
    for base in trust::bases().filter(|base| trust::may_hold_programs(base)) {
        match place(&base, Path::new(name), library) {
            Ok(directory) => return Ok(directory),
            Err(source) => refused = Some((base, source)),
        }
    }
    let (path, source) = refused.unwrap_or_else(|| {
        let error = io::Error::other("there is no directory for programs");
        (std::env::temp_dir(), error)
    });
    Err(LibraryError::NotWritten { name, path, source })
}

/// Two lists with a colon in between. The earlier entries come first: an allocator or a sanitizer
/// that is preloaded may have to be the first library.
fn joined(earlier: &OsStr, later: &OsStr) -> OsString {
    if earlier.is_empty() {
        return later.to_owned();
    }
    let mut both = earlier.to_owned();
    both.push(":");
    both.push(later);
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_entries_are_kept_and_come_first() {
        let joined = |earlier: &str| joined(OsStr::new(earlier), OsStr::new("/a/library.so"));
        assert_eq!(joined(""), "/a/library.so");
        assert_eq!(joined("/lib/malloc.so"), "/lib/malloc.so:/a/library.so");
    }

    #[test]
    fn a_command_without_the_library_says_so() {
        assert!(matches!(
            placed("a.so", &[]),
            Err(LibraryError::NotBuilt("a.so"))
        ));
    }

    #[test]
    fn a_command_gets_the_library_and_passes_it_on() {
        let library = PreloadedLibrary {
            entry: "/a/library.so".into(),
        };
        let mut command = Command::new("true");
        library.load_into(&mut command);
        let value = |name: &str| {
            let mut all = command.get_envs();
            let found = all.find(|(known, _)| *known == name);
            found.and_then(|(_, value)| value).map(OsStr::to_owned)
        };
        let preload = value(PRELOAD).unwrap();
        assert!(preload.to_string_lossy().ends_with("/a/library.so"));
        let asan = value(ASAN_OPTIONS).unwrap();
        assert!(asan.to_string_lossy().ends_with(ASAN_MAY_BE_LATER));
    }
}
