//! Finds and reads source files on this machine.
//!
//! Called by [`super::source`] with a path that the profile names: the path of the machine that
//! compiled the code, or the viewer's form of a published file ([`profiler_symbols::source_path`]).
//! A published file may be in Cargo's registry or in a toolchain of rustup, whose component
//! `rust-src` contains the standard library. Invariants:
//!
//! - Only regular files of file systems that store files are opened, and only read as far as their
//!   size says. So no pipe, device or file of the kernel can block this process.
//! - A file that was found by the name of a package or of a compiler, or in the directories of this
//!   user's Cargo and rustup, is within its package's or toolchain's directory.
//! - Any other file that only the profile names has the name of a source file
//!   ([`super::source_name`]).
//! - Both rules hold for the path of the opened file, after following links.
//! - At most [`LARGEST_SOURCE`] bytes are read; only text is returned.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use super::source_name::{SourceNameError, check_source_name};
use super::toolchains::{Toolchains, directories_in};
use profiler_symbols::source_path::{PublishedSource, RUST_REGISTRY};
use profiler_sys::FoundFile;

/// Limit on the bytes of a source file.
const LARGEST_SOURCE: u64 = 16 << 20;
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
    /// It is a directory, a device, a pipe, or a file of the kernel.
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
    /// Only the profile names it, and it does not have the name of a source file.
    #[error(transparent)]
    Name(#[from] SourceNameError),
}

/// The source of a file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamedBy {
    /// The debug information of a library on this machine.
    DebugInformation,
    /// Only the profile.
    Profile,
}

/// The directories in which published files are searched for.
#[derive(Debug, Default)]
pub(super) struct SourceFiles {
    /// The directory of the unpacked packages of all registries.
    registries: Option<PathBuf>,
    toolchains: Toolchains,
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
            toolchains: Toolchains::new(
                home("RUSTUP_HOME", ".rustup").map(|home| home.join("toolchains")),
            ),
        }
    }

    /// Reads the file of a path, which may have the viewer's form.
    pub(super) fn read(&self, path: &str, named_by: NamedBy) -> Result<String, SourceFileError> {
        let form = PublishedSource::of_form(path);
        let first = match form {
            Some(_) => Err(SourceFileError::NotHere(path.to_owned())),
            None => self.read_own(path, named_by),
        };
        first.or_else(|problem| {
            let published = form.or_else(|| PublishedSource::of_path(path));
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

    /// Reads the file of a path of this machine.
    fn read_own(&self, path: &str, named_by: NamedBy) -> Result<String, SourceFileError> {
        let own = Path::new(path);
        if !own.is_absolute() {
            return Err(SourceFileError::Relative(path.to_owned()));
        }
        if let Some(place) = self.own_place(own) {
            return place.read();
        }
        let file = SourceFile::at(own)?;
        if named_by == NamedBy::Profile {
            check_source_name(&file.real_path.to_string_lossy())?;
        }
        file.read()
    }

    /// The place of a path that leads through a package or a toolchain of this user.
    fn own_place(&self, path: &Path) -> Option<Within> {
        // A package is below its registry.
        let package = SourceHome::new(self.registries.as_deref(), 2);
        let toolchain = SourceHome::new(self.toolchains.directory(), 1);
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
                .toolchains
                .of_revision(revision)
                .iter()
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
                    directories_in(self.toolchains.directory())
                        .map(vendored)
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
        let directory = fs::canonicalize(&self.directory)
            .map_err(|error| unreadable(&self.directory, error))?;
        let file = SourceFile::at(&self.file)?;
        if !file.real_path.starts_with(directory) {
            return Err(SourceFileError::Elsewhere(self.file.clone()));
        }
        file.read()
    }
}

/// A file that was found, but is not open yet.
#[derive(Debug)]
struct SourceFile<'p> {
    /// The path that led to it.
    path: &'p Path,
    /// Its path without links.
    real_path: PathBuf,
    found: FoundFile,
}

impl<'p> SourceFile<'p> {
    fn at(path: &'p Path) -> Result<Self, SourceFileError> {
        let failed = |error| unreadable(path, error);
        let found = FoundFile::at(path).map_err(failed)?;
        Ok(Self {
            path,
            real_path: found.real_path().map_err(failed)?,
            found,
        })
    }

    /// Reads the file if it is a text file.
    fn read(&self) -> Result<String, SourceFileError> {
        let path = || self.path.to_owned();
        let failed = |error| unreadable(self.path, error);
        let mut file = self
            .found
            .open()
            .map_err(failed)?
            .ok_or_else(|| SourceFileError::NotAFile(path()))?;
        let size = file.seek(SeekFrom::End(0)).map_err(failed)?;
        if size > LARGEST_SOURCE {
            return Err(SourceFileError::TooLarge { path: path(), size });
        }
        file.rewind().map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(size).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.contains(&0) {
            return Err(SourceFileError::NotText(path()));
        }
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
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

#[cfg(test)]
mod tests;
