//! How long an export may be.
//!
//! Formats write again what a profile says once: speedscope and folded stacks the whole stack of each sample, V8's the names of a
//! function at each of its nodes. A file that was made for it, of a megabyte, would so become a hundred gigabytes; one that a
//! profiler wrote becomes a few times as long. Called by every format. Invariant: of what goes through a [`Bounded`] no more
//! than that arrives, then it fails.

use std::io::{self, Write};

/// What any export may have.
const ALWAYS: u64 = 256 << 20;
/// So many times as long as the profile's text it may be.
const TIMES: u64 = 1000;

/// Bytes that the export of a profile of such a length may have.
pub(super) const fn most_bytes(length: u64) -> u64 {
    length.saturating_mul(TIMES).saturating_add(ALWAYS)
}

/// Fails when more than so many bytes are written.
#[derive(Debug)]
pub(super) struct Bounded<W> {
    out: W,
    left: u64,
}

impl<W: Write> Bounded<W> {
    pub(super) const fn new(out: W, most: u64) -> Self {
        Self { out, left: most }
    }

    /// What it was made of.
    pub(super) fn into_inner(self) -> W {
        self.out
    }

    /// Bytes that may still come.
    pub(super) const fn left(&self) -> u64 {
        self.left
    }
}

impl<W: Write> Write for Bounded<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else { return Err(too_long()) };
        let written = self.out.write(bytes)?;
        self.left = left.saturating_add((bytes.len() - written) as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// What is said of an export that is longer than it may be.
pub(super) fn too_long() -> io::Error {
    io::Error::new(
        io::ErrorKind::FileTooLarge,
        "it would be more than a thousand times as long as the profile",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_arrives_than_may() {
        let mut out = Bounded::new(Vec::new(), 5);
        out.write_all(b"abc").unwrap();
        assert_eq!(out.write_all(b"def").unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        out.write_all(b"de").unwrap();
        assert_eq!((out.left(), out.out.as_slice()), (0, &b"abcde"[..]));
        assert_eq!(most_bytes(u64::MAX), u64::MAX);
    }
}
