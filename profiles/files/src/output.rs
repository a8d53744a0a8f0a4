//! The file that a profile is written to. It appears complete and private, or not at all.
//!
//! Written by the capture and by the exporters. The bytes go to a temporary file in the target's
//! directory, `.NAME.XXXXXX.part`, which replaces the target in one step once all its bytes are on
//! disk. Invariants: only the owner can read the file; an existing target is replaced, never
//! written through (a symbolic link is replaced, not followed); a target that is not a file (a
//! device, a pipe) is refused; an unfinished file is removed, unless the process is killed. A
//! command that ends because of a signal calls [`remove_unfinished`] first.

mod unfinished;

mod behind;
mod bounded;
mod commit_behind;

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::{GzDecoder, GzEncoder};
use tempfile::NamedTempFile;

pub use self::behind::WriteBehind;
pub use self::bounded::{BoundedWriter, most_bytes, too_long};
pub use self::commit_behind::CommitBehind;

use unfinished::Unfinished;
pub use unfinished::remove_unfinished;

/// How much time the compression of a `.gz` file may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GzipLevel {
    /// Level 1, for a file that is read once and then deleted: less time, and more bytes.
    Fast,
    /// Level 6.
    Small,
}

impl GzipLevel {
    const fn compression(self) -> Compression {
        match self {
            Self::Fast => Compression::new(1),
            Self::Small => Compression::new(6),
        }
    }
}

/// Size of the write buffer in bytes.
const BUFFER_BYTES: usize = 256 * 1024;

/// The reason why a profile could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct OutputError {
    /// The step that failed.
    pub action: &'static str,
    /// The target file.
    pub path: PathBuf,
    /// The error of the system.
    #[source]
    pub source: io::Error,
}

type Temporary = BufWriter<NamedTempFile<File>>;

/// A profile being written.
#[derive(Debug)]
pub struct ProfileFile {
    target: PathBuf,
    sink: Sink,
    /// Dropped after the file.
    unfinished: Unfinished,
}

#[derive(Debug)]
enum Sink {
    Plain(Temporary),
    Gzip(Box<GzEncoder<Temporary>>),
    /// Gets a compressed file.
    Unpack(Box<GzDecoder<Temporary>>),
}

impl ProfileFile {
    /// Creates a temporary file, which [`Self::commit`] moves to `target`. The content is
    /// compressed if the name of `target` ends in `.gz`.
    ///
    /// # Errors
    /// [`OutputError`]; no file is left then.
    pub fn create(target: impl Into<PathBuf>) -> Result<Self, OutputError> {
        Self::create_with(target, GzipLevel::Small)
    }

    /// Creates a temporary file like [`Self::create`], compressed with this level.
    pub fn create_with(target: impl Into<PathBuf>, level: GzipLevel) -> Result<Self, OutputError> {
        Self::create_as(target.into(), |file, is_gzip| match is_gzip {
            true => Sink::Gzip(Box::new(GzEncoder::new(file, level.compression()))),
            false => Sink::Plain(file),
        })
    }

    /// Creates a temporary file like [`Self::create`] for the bytes of a compressed profile, which
    /// come from elsewhere. They are written as they are if the name of `target` ends in `.gz`, and
    /// unpacked otherwise.
    ///
    /// # Errors
    /// As [`Self::create`]. [`Self::commit`] fails if unpacked bytes are not those of a whole file.
    pub fn create_of_gzip(target: impl Into<PathBuf>) -> Result<Self, OutputError> {
        Self::create_as(target.into(), |file, is_gzip| match is_gzip {
            true => Sink::Plain(file),
            false => Sink::Unpack(Box::new(GzDecoder::new(file))),
        })
    }

    /// Creates a temporary file. `sink` is told whether the name of `target` ends in `.gz`.
    fn create_as(
        target: PathBuf,
        sink: impl FnOnce(Temporary, bool) -> Sink,
    ) -> Result<Self, OutputError> {
        let created = Unfinished::create(|| temporary_beside(&target));
        let (temporary, unfinished) = match created {
            Ok((file, unfinished)) => (BufWriter::with_capacity(BUFFER_BYTES, file), unfinished),
            Err(source) => {
                return Err(OutputError {
                    action: "create",
                    path: target,
                    source,
                });
            }
        };
        let is_gzip = target
            .extension()
            .is_some_and(|extension| extension == "gz");
        let sink = sink(temporary, is_gzip);
        Ok(Self {
            target,
            sink,
            unfinished,
        })
    }

    /// Creates a temporary file like [`Self::create`], and writes it on another thread, so that the
    /// caller does not wait for compression.
    pub fn create_behind(target: &Path) -> Result<WriteBehind<Self>, OutputError> {
        Ok(WriteBehind::new(Self::create(target)?))
    }

    /// The path at which [`Self::commit`] puts the file.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Moves the file to its target, with all its bytes on disk. Returns its size in bytes.
    ///
    /// # Errors
    /// [`OutputError`]; the target is unchanged then.
    pub fn commit(self) -> Result<u64, OutputError> {
        let Self {
            target,
            sink,
            unfinished,
        } = self;
        finish(sink, &target, unfinished).map_err(|source| OutputError {
            action: "write",
            path: target,
            source,
        })
    }
}

impl Write for ProfileFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.sink {
            Sink::Plain(file) => file.write(bytes),
            Sink::Gzip(file) => file.write(bytes),
            Sink::Unpack(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::Plain(file) => file.flush(),
            Sink::Gzip(file) => file.flush(),
            Sink::Unpack(file) => file.flush(),
        }
    }
}

fn finish(sink: Sink, target: &Path, unfinished: Unfinished) -> io::Result<u64> {
    let buffered = match sink {
        Sink::Plain(file) => file,
        Sink::Gzip(file) => file.finish()?,
        Sink::Unpack(file) => file.finish()?,
    };
    let file = buffered
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    file.as_file().sync_all()?;
    let length = file.as_file().metadata()?.len();
    let persist = || file.persist(target).map_err(|error| error.error);
    unfinished.finish(persist)?;
    sync_directory(target);
    Ok(length)
}

fn temporary_beside(target: &Path) -> io::Result<NamedTempFile<File>> {
    let Some(name) = target.file_name() else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path has no file name",
        ));
    };
    if names_directory(target) {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    if names_a_device(target) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is a device or a pipe, not a file",
        ));
    }
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    tempfile::Builder::new()
        .prefix(&prefix)
        .suffix(".part")
        .make_in(directory_of(target), create_private)
}

/// Whether the target is a directory. Renaming to a directory would fail, but only after the whole
/// profile has been written.
fn names_directory(target: &Path) -> bool {
    target.as_os_str().as_encoded_bytes().ends_with(b"/")
        || target.symlink_metadata().is_ok_and(|is| is.is_dir())
}

/// Whether the target is a device, a pipe or a socket, or a link to one: the profile would replace
/// it instead of being written to it. Every link into `/proc` or `/dev` counts, such as
/// `/dev/stdout`, also if it leads to a file.
fn names_a_device(target: &Path) -> bool {
    let is_other = target
        .metadata()
        .is_ok_and(|is| !is.is_file() && !is.is_dir());
    is_other
        || target
            .read_link()
            .is_ok_and(|link| link.starts_with("/proc") || link.starts_with("/dev"))
}

fn directory_of(target: &Path) -> &Path {
    target
        .parent()
        .filter(|directory| !directory.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Creates a new file that only its owner can access and that child processes do not inherit:
/// `O_EXCL`, `O_CLOEXEC`, and on Unix `O_NOFOLLOW` and mode 0600.
fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600).custom_flags(libc::O_NOFOLLOW);
    }
    options.open(path)
}

/// Writes the new name to disk. Some file systems cannot do this; the file itself is on disk
/// already.
fn sync_directory(target: &Path) {
    if let Ok(directory) = File::open(directory_of(target)) {
        let _ = directory.sync_all();
    }
}

#[cfg(test)]
mod tests;
