//! The file in which a child hands over its part of a profile.
//!
//! Made by the parent per child, before spawn; written by the child when it is asked to gather;
//! read by the parent. On disk, so that a part is whole in nobody's memory. Invariants: no name
//! leads to it (on Linux), so nothing is left of it whoever dies; the parent reads at positions
//! of its own and never moves the file's offset, which it shares with the child. A child that is
//! not trusted gets no file, because it could fill the disk with it at any time: its pool is read
//! instead.
//!
//! The child may write at any time, also while the parent reads. Whoever needs the bytes twice
//! (to check them, then to use them) therefore reads them once, through a [`Tee`] into a file
//! that the child does not have.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use profiler_core::internal::sys::OwnFile;
use tempfile::TempPath;

use crate::spawn::ChildFile;
use crate::sys;

/// The file could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a temporary file in {}: {source}", directory.display())]
pub struct OutboxError {
    /// Where.
    pub directory: PathBuf,
    /// The system's reason.
    #[source]
    pub source: io::Error,
}

/// A file that one child writes and the parent reads.
#[derive(Debug)]
pub struct Outbox {
    file: OwnFile,
    /// Only where descriptors are not inherited. Removes the name when dropped.
    path: Option<TempPath>,
}

impl Outbox {
    /// Makes the file in `TMPDIR`, else in `/var/tmp` (which is on disk where `/tmp` is memory),
    /// else where the system has temporary files.
    ///
    /// # Errors
    /// [`OutboxError`].
    pub fn create() -> Result<Self, OutboxError> {
        Self::create_in(&directory())
    }

    /// Makes the file in this directory, for its owner alone.
    ///
    /// # Errors
    /// [`OutboxError`].
    pub fn create_in(directory: &Path) -> Result<Self, OutboxError> {
        let made = if sys::INHERITS {
            tempfile::tempfile_in(directory).map(|file| Self { file: file.into(), path: None })
        } else {
            tempfile::NamedTempFile::new_in(directory).map(|named| {
                let (file, path) = named.into_parts();
                Self { file: file.into(), path: Some(path) }
            })
        };
        made.map_err(|source| OutboxError { directory: directory.to_owned(), source })
    }

    /// The child's way to the file.
    pub fn child_file(&self) -> ChildFile<'_> {
        match &self.path {
            Some(path) => ChildFile::At(path),
            None => ChildFile::Open(self.file.unchecked()),
        }
    }

    /// Reads the first `length` bytes. A file that becomes shorter than that ends with
    /// `UnexpectedEof`.
    ///
    /// # Errors
    /// The same for a file that is shorter now: nobody waits for a child to write what it announced.
    pub fn read(&self, length: u64) -> io::Result<OutboxReader<'_>> {
        let file = self.file.get()?;
        if file.metadata()?.len() < length {
            return Err(too_short());
        }
        Ok(OutboxReader { file, at: 0, length })
    }

    /// Gives the file's space back. The child writes from the beginning next time.
    ///
    /// # Errors
    /// What the system says.
    pub fn clear(&self) -> io::Result<()> {
        self.file.get()?.set_len(0)
    }
}

/// Where files go that are too large for memory.
pub(crate) fn directory() -> PathBuf {
    let disk = Path::new("/var/tmp");
    match std::env::var_os("TMPDIR") {
        None if disk.is_dir() => disk.to_owned(),
        _ => std::env::temp_dir(),
    }
}

fn too_short() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the outbox is shorter than announced")
}

/// Reads a part of a profile out of its outbox.
#[derive(Debug)]
pub struct OutboxReader<'a> {
    file: &'a File,
    at: u64,
    length: u64,
}

impl Read for OutboxReader<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.length.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let wanted = room.len().min(left);
        let Some(room) = room.get_mut(..wanted).filter(|room| !room.is_empty()) else { return Ok(0) };
        match sys::read_at(self.file, room, self.at)? {
            0 => Err(too_short()),
            got => {
                self.at = self.at.saturating_add(u64::try_from(got).unwrap_or(0));
                Ok(got)
            }
        }
    }
}

/// Reads, and writes all that was read elsewhere at the same time.
#[derive(Debug)]
pub struct Tee<R, W> {
    from: R,
    copy: W,
}

impl<R: Read, W: Write> Tee<R, W> {
    /// Reads `from`, copying to `copy`.
    pub const fn new(from: R, copy: W) -> Self {
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

    fn filled(content: &str) -> Outbox {
        let outbox = Outbox::create().unwrap();
        match outbox.child_file() {
            ChildFile::Open(mut file) => file.write_all(content.as_bytes()).unwrap(),
            ChildFile::At(path) => std::fs::write(path, content).unwrap(),
        }
        outbox
    }

    #[test]
    fn the_announced_length_is_read_and_no_more() {
        let outbox = filled("{}and more");
        for _ in 0..2 {
            assert_eq!(io::read_to_string(outbox.read(2).unwrap()).unwrap(), "{}");
        }
        assert_eq!(io::read_to_string(outbox.read(0).unwrap()).unwrap(), "");
    }

    #[test]
    fn a_length_beyond_the_file_is_an_error() {
        let error = filled("{}").read(3).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        let shrinking = filled("{}");
        let reader = shrinking.read(2).unwrap();
        shrinking.clear().unwrap();
        assert_eq!(io::read_to_string(reader).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn reading_leaves_the_offset_where_the_child_has_it() {
        use std::io::Seek;
        let outbox = filled("abc");
        let mut file = outbox.file.get().unwrap();
        let before = file.stream_position().unwrap();
        io::read_to_string(outbox.read(3).unwrap()).unwrap();
        assert_eq!(file.stream_position().unwrap(), before);
    }

    #[test]
    fn a_cleared_outbox_is_empty() {
        let outbox = filled("abc");
        outbox.clear().unwrap();
        assert_eq!(outbox.file.get().unwrap().metadata().unwrap().len(), 0);
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let error = Outbox::create_in(Path::new("/no/such/directory")).unwrap_err();
        assert!(error.to_string().contains("/no/such/directory"), "{error}");
    }

    #[test]
    fn nothing_of_it_can_be_found_afterwards() {
        let directory = tempfile::tempdir().unwrap();
        let outbox = Outbox::create_in(directory.path()).unwrap();
        assert!(!sys::INHERITS || std::fs::read_dir(directory.path()).unwrap().count() == 0);
        drop(outbox);
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
