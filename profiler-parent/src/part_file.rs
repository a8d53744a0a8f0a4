//! The part file: the file in which a child passes its part of a profile to the parent.
//!
//! Created by the parent for each child before spawn, written by the child when it is asked to
//! gather, read by the parent. It is on disk, so that no process holds a whole part in memory.
//! Invariants: on Linux the file has no name, so it disappears with the processes that have it
//! open; the parent reads at explicit positions and never moves the file's offset, which it shares
//! with the child. An untrusted child gets no file, because it could fill the disk through it at
//! any time; its pool is read instead.
//!
//! The child may write at any time, also while the parent reads. A reader that needs the bytes
//! twice (to check them, then to use them) therefore reads them once, through a [`Tee`] into a file
//! that the child does not have.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use profiler_sys::OwnFile;

use crate::sys;
use tempfile::TempPath;

use crate::spawn::ChildFile;

/// The reason why a part file could not be created.
#[derive(Debug, thiserror::Error)]
#[error("cannot create a temporary file in {}: {source}", directory.display())]
pub struct PartFileError {
    /// The directory of the file.
    pub directory: PathBuf,
    /// The error of the system.
    #[source]
    pub source: io::Error,
}

/// A file that one child writes and the parent reads.
#[derive(Debug)]
pub(crate) struct PartFile {
    file: OwnFile,
    /// The path, on systems where descriptors are not inherited. Dropping it removes the file.
    path: Option<TempPath>,
}

impl PartFile {
    /// Creates the file in `TMPDIR`, otherwise in `/var/tmp` (which is on disk where `/tmp` is in
    /// memory), otherwise in the system's directory for temporary files.
    ///
    /// # Errors
    /// [`PartFileError`].
    pub(crate) fn create() -> Result<Self, PartFileError> {
        Self::create_in(&profiler_files::spill::directory())
    }

    /// Creates the file in this directory, accessible only to its owner.
    ///
    /// # Errors
    /// [`PartFileError`].
    pub(crate) fn create_in(directory: &Path) -> Result<Self, PartFileError> {
        let made = if sys::INHERITS {
            tempfile::tempfile_in(directory).map(|file| Self {
                file: file.into(),
                path: None,
            })
        } else {
            tempfile::NamedTempFile::new_in(directory).map(|named| {
                let (file, path) = named.into_parts();
                Self {
                    file: file.into(),
                    path: Some(path),
                }
            })
        };
        made.map_err(|source| PartFileError {
            directory: directory.to_owned(),
            source,
        })
    }

    /// The form in which the child gets the file.
    pub(crate) fn child_file(&self) -> ChildFile<'_> {
        match &self.path {
            Some(path) => ChildFile::At(path),
            None => ChildFile::Open(self.file.unchecked()),
        }
    }

    /// Returns a reader of the first `length` bytes. It fails with `UnexpectedEof` if the file
    /// becomes shorter meanwhile.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file is shorter than `length` now: the parent does not wait for a
    /// child to write the bytes that it announced.
    pub(crate) fn read(&self, length: u64) -> io::Result<PartFileReader<'_>> {
        let file = self.file.get()?;
        if file.metadata()?.len() < length {
            return Err(too_short());
        }
        Ok(PartFileReader {
            file,
            at: 0,
            length,
        })
    }

    /// Truncates the file to free its disk space. The child writes from the beginning next time.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn clear(&self) -> io::Result<()> {
        self.file.get()?.set_len(0)
    }
}

fn too_short() -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the part file is shorter than announced",
    )
}

/// Reads a part of a profile from its part file.
#[derive(Debug)]
pub(crate) struct PartFileReader<'a> {
    file: &'a File,
    at: u64,
    length: u64,
}

impl Read for PartFileReader<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.length.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let wanted = room.len().min(left);
        let Some(room) = room.get_mut(..wanted).filter(|room| !room.is_empty()) else {
            return Ok(0);
        };
        match profiler_sys::read_at(self.file, room, self.at)? {
            0 => Err(too_short()),
            got => {
                self.at = self.at.saturating_add(u64::try_from(got).unwrap_or(0));
                Ok(got)
            }
        }
    }
}

/// A reader that copies all bytes that it reads to a writer.
#[derive(Debug)]
pub(crate) struct Tee<R, W> {
    from: R,
    copy: W,
}

impl<R: Read, W: Write> Tee<R, W> {
    /// Reads `from`, copying to `copy`.
    pub(crate) const fn new(from: R, copy: W) -> Self {
        Self { from, copy }
    }
}

impl<R: Read, W: Write> Read for Tee<R, W> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let got = self.from.read(room)?;
        self.copy.write_all(room.get(..got).unwrap_or_default())?;
        Ok(got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(content: &str) -> PartFile {
        let part_file = PartFile::create().unwrap();
        match part_file.child_file() {
            ChildFile::Open(mut file) => file.write_all(content.as_bytes()).unwrap(),
            ChildFile::At(path) => std::fs::write(path, content).unwrap(),
        }
        part_file
    }

    #[test]
    fn the_announced_length_is_read_and_no_more() {
        let part_file = filled("{}and more");
        for _ in 0..2 {
            assert_eq!(
                io::read_to_string(part_file.read(2).unwrap()).unwrap(),
                "{}"
            );
        }
        assert_eq!(io::read_to_string(part_file.read(0).unwrap()).unwrap(), "");
    }

    #[test]
    fn a_length_beyond_the_file_is_an_error() {
        let error = filled("{}").read(3).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        let shrinking = filled("{}");
        let reader = shrinking.read(2).unwrap();
        shrinking.clear().unwrap();
        assert_eq!(
            io::read_to_string(reader).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
    }

    #[test]
    fn reading_does_not_move_the_shared_offset() {
        use std::io::Seek;
        let part_file = filled("abc");
        let mut file = part_file.file.get().unwrap();
        let before = file.stream_position().unwrap();
        io::read_to_string(part_file.read(3).unwrap()).unwrap();
        assert_eq!(file.stream_position().unwrap(), before);
    }

    #[test]
    fn a_cleared_part_file_is_empty() {
        let part_file = filled("abc");
        part_file.clear().unwrap();
        assert_eq!(part_file.file.get().unwrap().metadata().unwrap().len(), 0);
    }

    #[test]
    fn the_error_names_the_missing_directory() {
        let error = PartFile::create_in(Path::new("/no/such/directory")).unwrap_err();
        assert!(error.to_string().contains("/no/such/directory"), "{error}");
    }

    #[test]
    fn a_dropped_part_file_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let part_file = PartFile::create_in(directory.path()).unwrap();
        assert!(!sys::INHERITS || std::fs::read_dir(directory.path()).unwrap().count() == 0);
        drop(part_file);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_tee_copies_exactly_what_was_read() {
        let mut copy = Vec::new();
        let mut tee = Tee::new(&b"abcdef"[..], &mut copy);
        let mut room = [0; 4];
        assert_eq!(tee.read(&mut room).unwrap(), 4);
        assert_eq!(copy, b"abcd");
    }
}
