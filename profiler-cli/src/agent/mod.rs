//! The agent: the library that records programs that do not contain the profiler.
//!
//! `record` preloads it; `profiler agent --install` installs it for programs in C. The command
//! contains the library (`profiler_agent_embed::library!`), because `cargo install` installs
//! executables only and a copied command has nothing beside it. The first use writes the library to
//! a directory of the user (`place`). Invariant: only a library that belongs to this user or to
//! root, and that no other user can change, is loaded into programs, unless the user names another
//! one.

mod install;
mod place;
mod trust;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::process::Command;

pub(crate) use install::{AgentArgs, run};

/// The file name of the library.
const FILE_NAME: &str = "libprofiler_agent.so";
/// The bytes of the library; empty if the command was built without it (`cargo check`).
const LIBRARY: &[u8] = profiler_agent_embed::library!();
/// Names a library to use instead.
const LIBRARY_VARIABLE: &str = "PROFILER_AGENT";
/// The loader loads the libraries that this variable names into every program.
const PRELOAD: &str = "LD_PRELOAD";
const ASAN_OPTIONS: &str = "ASAN_OPTIONS";
/// Lets the address sanitizer of GCC accept that it is not the first library.
const ASAN_MAY_BE_LATER: &str = "verify_asan_link_order=0";

/// Why the loader does not take a path.
const UNUSABLE: &str = "the path is relative, or contains a space, a colon or a dollar sign";

/// Why the library cannot be loaded into programs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    /// Programs can be made to load a library only there.
    #[error("libraries are preloaded only on Linux")]
    Unsupported,
    /// The command does not contain the library.
    #[error(
        "this build of the command does not contain {FILE_NAME}; {LIBRARY_VARIABLE} may name one"
    )]
    NotBuilt,
    /// No directory can hold the library.
    #[error("{FILE_NAME} cannot be written to {path}: {source}")]
    NotWritten {
        /// The last directory that was tried.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The loader would divide the path, or replace a part of it.
    #[error("{0}: {UNUSABLE}")]
    UnusablePath(PathBuf),
    /// The library that the user names cannot be read.
    #[error("{LIBRARY_VARIABLE} names {path}: {source}")]
    NotThere {
        /// The path that the variable has.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// The library, as the loader is told to find it.
#[derive(Debug)]
pub(crate) struct Agent {
    entry: OsString,
}

impl Agent {
    /// Finds the library: the one that [`LIBRARY_VARIABLE`] names, or the one that this command
    /// contains. Writes the latter to a directory of this user, unless it is there already.
    ///
    /// # Errors
    /// [`AgentError`].
    pub(crate) fn find() -> Result<Self, AgentError> {
        if !cfg!(target_os = "linux") {
            return Err(AgentError::Unsupported);
        }
        let path = match std::env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty()) {
            Some(named) => readable(PathBuf::from(named))?,
            None => place::path_for_loader(LIBRARY)?,
        };
        if place::is_usable_by_loader(&path) {
            Ok(Self {
                entry: path.into_os_string(),
            })
        } else {
            Err(AgentError::UnusablePath(path))
        }
    }

    /// The library that observes programs from outside. Writes it like the agent.
    ///
    /// # Errors
    /// [`AgentError`].
    pub(crate) fn observer() -> Result<Self, AgentError> {
        let path = place::path_for_loader(profiler_observed::LIBRARY)?;
        Ok(Self {
            entry: path.into_os_string(),
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

/// A library that the user names. The loader may replace a part of the path, which is then not
/// checked.
fn readable(path: PathBuf) -> Result<PathBuf, AgentError> {
    let is_plain = place::is_plain(&path);
    match std::fs::File::open(&path) {
        Err(source) if is_plain => Err(AgentError::NotThere { path, source }),
        _ => Ok(path),
    }
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
        let joined = |earlier: &str| joined(OsStr::new(earlier), OsStr::new("/a/agent.so"));
        assert_eq!(joined(""), "/a/agent.so");
        assert_eq!(joined("/lib/malloc.so"), "/lib/malloc.so:/a/agent.so");
    }

    #[test]
    fn a_named_library_must_exist() {
        let missing = readable("/no/such/agent.so".into());
        assert!(matches!(missing, Err(AgentError::NotThere { .. })));
        readable("/no/$LIB/agent.so".into()).unwrap();
    }

    #[test]
    fn a_command_gets_the_library_and_passes_it_on() {
        let agent = Agent {
            entry: "/a/agent.so".into(),
        };
        let mut command = Command::new("true");
        agent.load_into(&mut command);
        let value = |name: &str| {
            let mut all = command.get_envs();
            let found = all.find(|(known, _)| *known == name);
            found.and_then(|(_, value)| value).map(OsStr::to_owned)
        };
        let preload = value(PRELOAD).unwrap();
        assert!(preload.to_string_lossy().ends_with("/a/agent.so"));
        let asan = value(ASAN_OPTIONS).unwrap();
        assert!(asan.to_string_lossy().ends_with(ASAN_MAY_BE_LATER));
    }
}
