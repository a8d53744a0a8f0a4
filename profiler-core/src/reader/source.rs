//! The sources of a pool's bytes, read by all of `reader`.
//!
//! A file (memory file or disk) is read by position, which copies: there is no mapping, so a writer
//! can neither fault the reader nor change data that the reader has checked. A byte slice serves
//! tests and fuzzing.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use profiler_sys::OwnFile;

/// Bytes that can be read by position.
pub trait ByteSource {
    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// When not all of it can be read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// The number of bytes.
    ///
    /// # Errors
    /// When it cannot be determined.
    fn len(&self) -> io::Result<u64>;

    /// Whether there are no bytes.
    ///
    /// # Errors
    /// When that cannot be determined.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

impl ByteSource for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

/// Refuses to read if the program has reused the descriptor's number for another file.
impl ByteSource for OwnFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.get()?.read_exact_at(buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.get()?.metadata()?.len())
    }
}

impl ByteSource for [u8] {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = self.get(start..start.saturating_add(buffer.len()));
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(<[u8]>::len(self) as u64)
    }
}

impl<S: ByteSource + ?Sized> ByteSource for &S {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        (**self).read_at(buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        (**self).len()
    }
}

impl<S: ByteSource + ?Sized> ByteSource for std::sync::Arc<S> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        (**self).read_at(buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        (**self).len()
    }
}

/// Native-endian word `index` of `bytes`; 0 beyond the end.
pub(super) fn word(bytes: &[u8], index: usize) -> u64 {
    let at = index.saturating_mul(8);
    let word = bytes
        .get(at..at.saturating_add(8))
        .and_then(|bytes| bytes.try_into().ok());
    word.map_or(0, u64::from_ne_bytes)
}

/// Low half of a word.
pub(super) fn low(word: u64) -> u32 {
    u32::try_from(word & 0xffff_ffff).unwrap_or(0)
}

/// High half of a word.
pub(super) fn high(word: u64) -> u32 {
    u32::try_from(word >> 32).unwrap_or(0)
}
