//! Limits the size of what is made from a profile.
//!
//! Formats repeat data that a profile stores once: speedscope and folded stacks write the whole
//! stack of each sample, V8's format the names of a function at each of its nodes, and a merge the
//! name of a host in each process. A crafted file of one megabyte could thus become a hundred
//! gigabytes; the export of a real profile is a few times its size. Called by every format of an
//! export, and by the merge. Invariant: at most the limit passes through a [`BoundedWriter`]; a
//! write beyond it fails.

use std::io::{self, Write};

/// The limit for an empty profile, in bytes.
const ALWAYS: u64 = 256 << 20;
/// Additional bytes per byte of the profile's text.
const TIMES: u64 = 1000;

/// The limit on the output for a profile with a text of `length` bytes.
pub const fn most_bytes(length: u64) -> u64 {
    length.saturating_mul(TIMES).saturating_add(ALWAYS)
}

/// A writer that fails beyond a number of bytes.
#[derive(Debug)]
pub struct BoundedWriter<W> {
    out: W,
    left: u64,
}

impl<W: Write> BoundedWriter<W> {
    /// A writer that fails after `most` bytes.
    pub const fn new(out: W, most: u64) -> Self {
        Self { out, left: most }
    }

    /// Returns the inner writer.
    pub fn into_inner(self) -> W {
        self.out
    }

    /// The remaining bytes.
    pub const fn left(&self) -> u64 {
        self.left
    }
}

impl<W: Write> Write for BoundedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            return Err(too_long());
        };
        let written = self.out.write(bytes)?;
        self.left = left.saturating_add((bytes.len() - written) as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The error for an output beyond the limit.
pub fn too_long() -> io::Error {
    io::Error::new(
        io::ErrorKind::FileTooLarge,
        "it would be more than a thousand times as long as the profile",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_beyond_the_limit_fails_and_writes_nothing() {
        let mut out = BoundedWriter::new(Vec::new(), 5);
        out.write_all(b"abc").unwrap();
        assert_eq!(
            out.write_all(b"def").unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
        out.write_all(b"de").unwrap();
        assert_eq!((out.left(), out.out.as_slice()), (0, &b"abcde"[..]));
        assert_eq!(most_bytes(u64::MAX), u64::MAX);
    }
}
