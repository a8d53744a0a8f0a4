//! The toolchains that rustup has installed, by the version of their compiler.
//!
//! Called by [`super::source_files`], which finds the sources of the standard library in them. The
//! description of a toolchain has about a megabyte, so its version is kept. Invariants: a version
//! is kept only as long as the description has the same size and time of change; at most
//! [`LARGEST_MANIFEST`] bytes of a description are read.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use profiler_sys::open_regular;

/// Limit on the bytes read of the description of a toolchain.
const LARGEST_MANIFEST: u64 = 16 << 20;
/// The description of a toolchain.
pub(super) const MANIFEST: &str = "lib/rustlib/multirust-channel-manifest.toml";

/// The toolchains of a user.
#[derive(Debug, Default)]
pub(super) struct Toolchains {
    directory: Option<PathBuf>,
    known: Mutex<HashMap<PathBuf, Described>>,
}

/// The content of a description.
#[derive(Debug)]
struct Described {
    stamp: Stamp,
    release: Option<Release>,
}

/// The size and the time of the last change of a description.
#[derive(Debug, PartialEq, Eq)]
struct Stamp(u64, Option<SystemTime>);

/// A compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Release {
    version: String,
    /// The first digits of the commit.
    commit: String,
}

impl Toolchains {
    /// The toolchains in a directory, if there is one.
    pub(super) fn new(directory: Option<PathBuf>) -> Self {
        Self {
            directory,
            known: Mutex::default(),
        }
    }

    /// The directory of all toolchains.
    pub(super) fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// The toolchains whose compiler has this version or commit, in order of their names.
    pub(super) fn of_revision(&self, revision: &str) -> Vec<PathBuf> {
        let is_wanted = |toolchain: &PathBuf| {
            let release = self.release(toolchain);
            release.is_some_and(|release| release.is(revision))
        };
        directories_in(self.directory()).filter(is_wanted).collect()
    }

    fn release(&self, toolchain: &Path) -> Option<Release> {
        let manifest = toolchain.join(MANIFEST);
        let metadata = fs::metadata(&manifest).ok()?;
        let stamp = Stamp(metadata.len(), metadata.modified().ok());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(described) = known.get(&manifest)
            && described.stamp == stamp
        {
            return described.release.clone();
        }
        let release = Release::of(&read(&manifest).ok()?);
        let described = Described {
            stamp,
            release: release.clone(),
        };
        known.insert(manifest, described);
        release
    }
}

impl Release {
    /// The version and the abbreviated commit of the compiler in a description:
    /// `version = "1.95.0 (59807616e 2026-04-14)"`.
    fn of(manifest: &str) -> Option<Self> {
        let (_, package) = manifest.split_once("[pkg.rustc]")?;
        let (_, text) = package.split_once("version = \"")?;
        let (text, _) = text.split_once('"')?;
        let (version, rest) = text.split_once(" (")?;
        let (commit, _) = rest.split_once(' ')?;
        Some(Self {
            version: version.to_owned(),
            commit: commit.to_owned(),
        })
    }

    /// Whether this is the release with this version or commit.
    fn is(&self, revision: &str) -> bool {
        let has_commit = self.commit.len() >= 7 && revision.starts_with(&self.commit);
        has_commit || self.version == revision
    }
}

fn read(manifest: &Path) -> io::Result<String> {
    let file = open_regular(manifest)?.ok_or(io::ErrorKind::InvalidInput)?;
    let mut bytes = Vec::new();
    file.take(LARGEST_MANIFEST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The entries of a directory in order of their names.
pub(super) fn directories_in(directory: Option<&Path>) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = directory.and_then(|directory| fs::read_dir(directory).ok());
    let mut paths: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    paths.sort_unstable();
    paths.into_iter()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_description_of_a_toolchain_is_read_again_only_after_a_change() {
        let directory = tempfile::tempdir().unwrap();
        let manifest = directory.path().join("one").join(MANIFEST);
        fs::create_dir_all(manifest.parent().unwrap()).unwrap();
        let describe = |version: &str, changed: SystemTime| {
            let mut file = fs::File::create(&manifest).unwrap();
            let text = format!("[pkg.rustc]\nversion = \"{version} (0123456 2026-03-01)\"\n");
            file.write_all(text.as_bytes()).unwrap();
            file.set_modified(changed).unwrap();
        };
        let toolchains = Toolchains::new(Some(directory.path().to_owned()));
        let has = |version| !toolchains.of_revision(version).is_empty();
        let first = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        describe("1.90.0", first);
        assert!(has("1.90.0"));
        describe("1.91.0", first);
        assert!(has("1.90.0") && !has("1.91.0"), "it is read again");
        describe("1.91.0", first + Duration::from_secs(1));
        assert!(has("1.91.0") && !has("1.90.0"));
    }
}
