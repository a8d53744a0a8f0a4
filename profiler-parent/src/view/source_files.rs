//! Finds and reads source files on this machine.
//!
//! Called by [`super::source`] with a path that the profile names: the path of the machine that
//! compiled the code, or the viewer's form of a published file ([`crate::source_path`]). A
//! published file may be in Cargo's registry or in a toolchain of rustup, whose component
//! `rust-src` contains the standard library. Invariants: only regular files are opened, and only
//! read as far as their size says, so no file can block this process; a file that was found by the
//! name of a package or of a compiler, or in the directories of this user's Cargo and rustup, is
//! within its package's or toolchain's directory, also after following links; at most [`LARGEST_SOURCE`] bytes are read; only text is returned.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use crate::source_path::{PublishedSource, RUST_REGISTRY};
use crate::sys::open_regular;

/// Limit on the bytes of a source file.
const LARGEST_SOURCE: u64 = 16 << 20;
/// Limit on the bytes read of the description of a toolchain.
const LARGEST_MANIFEST: u64 = 16 << 20;
/// The description of a toolchain that rustup has installed.
const MANIFEST: &str = "lib/rustlib/multirust-channel-manifest.toml";
/// The standard library's repository in a toolchain.
const RUST_SOURCES: &str = "lib/rustlib/src/rust";
/// The packages of the standard library in its repository.
const RUST_VENDORED: &str = "library/vendor";

/// The reason why a source file cannot be shown.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceFileError {
    /// There is no such file.
    #[error("the file {0} is not on this machine")]
    NotHere(String),
    /// The path is not absolute, so it is unknown which directory it starts from.
    #[error("the path {0} does not begin at the root directory")]
    Relative(String),
    /// The file cannot be opened or read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// It is a directory, a device, or a pipe.
    #[error("{} is not a regular file", .0.display())]
    NotAFile(PathBuf),
    /// It leads out of the package's or toolchain's directory.
    #[error("{} leads to another directory", .0.display())]
    Elsewhere(PathBuf),
    /// It has too many bytes.
    #[error("{} has {size} bytes, more than {LARGEST_SOURCE}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        size: u64,
    },
    /// It is not text.
    #[error("{} is not a text file", .0.display())]
    NotText(PathBuf),
}

/// The directories in which published files are searched for.
#[derive(Clone, Debug, Default)]
pub(super) struct SourceFiles {
    /// The directory of the unpacked packages of all registries.
    pub(super) registries: Option<PathBuf>,
    /// The directory of rustup's toolchains.
    pub(super) toolchains: Option<PathBuf>,
}

impl SourceFiles {
    /// The directories of this user's Cargo and rustup.
    pub(super) fn of_this_user() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let below_home = |name| Some(PathBuf::from(variable("HOME")?).join(name));
        let home = |name, usual| {
            variable(name)
                .map(PathBuf::from)
                .or_else(|| below_home(usual))
        };
        Self {
            registries: home("CARGO_HOME", ".cargo").map(|home| home.join("registry/src")),
            toolchains: home("RUSTUP_HOME", ".rustup").map(|home| home.join("toolchains")),
        }
    }

    /// Reads the file of a path, which may have the viewer's form.
    pub(super) fn read(&self, path: &str) -> Result<String, SourceFileError> {
        let own = PublishedSource::of_form(path);
        let own_path = own.is_none().then_some(path);
        let first = match own_path {
            Some(path) if !Path::new(path).is_absolute() => {
                return Err(SourceFileError::Relative(path.to_owned()));
            }
            Some(path) => match self.own_place(Path::new(path)) {
                Some(place) => place.read(),
                None => read_text(Path::new(path)),
            },
            None => Err(SourceFileError::NotHere(path.to_owned())),
        };
        first.or_else(|problem| {
            let published = own.or_else(|| PublishedSource::of_path(path));
            let places = published.map(|published| self.places(published));
            for place in places.into_iter().flatten() {
                match place.read() {
                    Err(SourceFileError::NotHere(_)) => {}
                    found => return found,
                }
            }
            Err(problem)
        })
    }

    /// The place of a path that leads through a package or a toolchain of this user.
    fn own_place(&self, path: &Path) -> Option<Within> {
        // A package is below its registry.
        let package = SourceHome::new(self.registries.as_deref(), 2);
        let toolchain = SourceHome::new(self.toolchains.as_deref(), 1);
        let homes: Vec<SourceHome> = package.into_iter().chain(toolchain).collect();
        let mut parents = path.ancestors().skip(1);
        let directory = parents.find_map(|parent| {
            let parent = fs::canonicalize(parent).ok()?;
            homes.iter().find_map(|home| home.part(&parent))
        })?;
        let file = path.to_owned();
        Some(Within { directory, file })
    }

    /// The places where a published file may be.
    fn places(&self, published: PublishedSource<'_>) -> Vec<Within> {
        match published {
            PublishedSource::Rust { revision, path } => self
                .toolchains()
                .filter(|toolchain| is_of_revision(toolchain, revision))
                .filter_map(|toolchain| Within::new(toolchain.join(RUST_SOURCES), path))
                .collect(),
            PublishedSource::Package {
                registry,
                package,
                path,
            } => {
                let directories: Vec<PathBuf> = if registry == RUST_REGISTRY {
                    let vendored =
                        |toolchain: PathBuf| toolchain.join(RUST_SOURCES).join(RUST_VENDORED);
                    let toolchains = self.toolchains().map(vendored);
                    toolchains
                        .chain(directories_in(self.registries.as_deref()))
                        .collect()
                } else if is_within(registry) {
                    self.registries
                        .iter()
                        .map(|all| all.join(registry))
                        .collect()
                } else {
                    Vec::new()
                };
                let place = |directory: PathBuf| Within::new(directory.join(package), path);
                directories.into_iter().filter_map(place).collect()
            }
        }
    }

    fn toolchains(&self) -> impl Iterator<Item = PathBuf> {
        directories_in(self.toolchains.as_deref())
    }
}

/// The entries of a directory in order of their names.
fn directories_in(directory: Option<&Path>) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = directory.and_then(|directory| fs::read_dir(directory).ok());
    let mut paths: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    paths.sort_unstable();
    paths.into_iter()
}

/// Whether a path stays below the directory that it is joined to.
fn is_within(path: &str) -> bool {
    let is_normal = |part| matches!(part, Component::Normal(_));
    Path::new(path).components().all(is_normal)
}

/// A directory of Cargo or rustup, and how deep below it its packages or toolchains are.
struct SourceHome {
    directory: PathBuf,
    depth: usize,
}

impl SourceHome {
    fn new(directory: Option<&Path>, depth: usize) -> Option<Self> {
        let directory = fs::canonicalize(directory?).ok()?;
        Some(Self { directory, depth })
    }

    /// The package or toolchain that contains a canonical path.
    fn part(&self, path: &Path) -> Option<PathBuf> {
        let below = path.strip_prefix(&self.directory).ok()?;
        let names: PathBuf = below.components().take(self.depth).collect();
        (!names.as_os_str().is_empty()).then(|| self.directory.join(names))
    }
}

/// A file that must be within a directory.
#[derive(Debug)]
struct Within {
    directory: PathBuf,
    file: PathBuf,
}

impl Within {
    fn new(directory: PathBuf, path: &str) -> Option<Self> {
        is_within(path).then(|| Self {
            file: directory.join(path),
            directory,
        })
    }

    fn read(&self) -> Result<String, SourceFileError> {
        let follow = |path: &Path| fs::canonicalize(path).map_err(|error| unreadable(path, error));
        let file = follow(&self.file)?;
        if !file.starts_with(follow(&self.directory)?) {
            return Err(SourceFileError::Elsewhere(self.file.clone()));
        }
        read_text(&file)
    }
}

fn unreadable(path: &Path, source: io::Error) -> SourceFileError {
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            SourceFileError::NotHere(path.display().to_string())
        }
        _ => SourceFileError::Unreadable {
            path: path.to_owned(),
            source,
        },
    }
}

/// Reads a text file. Files of the system, some of which block their reader, are not read: their
/// end is unknown, or they say that they are empty.
fn read_text(path: &Path) -> Result<String, SourceFileError> {
    let bytes = read_regular(path, LARGEST_SOURCE)?;
    if bytes.contains(&0) {
        return Err(SourceFileError::NotText(path.to_owned()));
    }
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

fn read_regular(path: &Path, largest: u64) -> Result<Vec<u8>, SourceFileError> {
    let failed = |error| unreadable(path, error);
    let mut file = open_regular(path)
        .map_err(failed)?
        .ok_or_else(|| SourceFileError::NotAFile(path.to_owned()))?;
    let size = file.seek(SeekFrom::End(0)).map_err(failed)?;
    if size > largest {
        let path = path.to_owned();
        return Err(SourceFileError::TooLarge { path, size });
    }
    file.rewind().map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(size).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// Whether a toolchain is the release with this version or commit.
fn is_of_revision(toolchain: &Path, revision: &str) -> bool {
    let manifest = read_regular(&toolchain.join(MANIFEST), LARGEST_MANIFEST).unwrap_or_default();
    let manifest = String::from_utf8_lossy(&manifest);
    version_of_rustc(&manifest).is_some_and(|(version, commit)| {
        version == revision || (commit.len() >= 7 && revision.starts_with(commit))
    })
}

/// The version and the abbreviated commit of the compiler in the description of a toolchain:
/// `version = "1.95.0 (59807616e 2026-04-14)"`.
fn version_of_rustc(manifest: &str) -> Option<(&str, &str)> {
    let (_, package) = manifest.split_once("[pkg.rustc]")?;
    let (_, text) = package.split_once("version = \"")?;
    let (text, _) = text.split_once('"')?;
    let (version, rest) = text.split_once(" (")?;
    let (commit, _) = rest.split_once(' ')?;
    Some((version, commit))
}

#[cfg(test)]
mod tests;
