//! The unread text of a stream, in one buffer.
//!
//! Used by [`super::Parser`]. Invariant: the buffer grows only if the unread text fills it, so its
//! size is that of the longest text that the parser keeps unread.

use std::io::{self, ErrorKind, Read};

/// A text that is read from its start to its end.
pub(crate) trait Source: Read {
    /// Skips the next bytes, without reading them if that is possible.
    fn pass_over(&mut self, bytes: u64) -> io::Result<()>;
}

/// Any reader.
#[derive(Debug)]
pub(crate) struct Stream<R>(pub(crate) R);

impl<R: Read> Read for Stream<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.0.read(room)
    }
}

impl<R: Read> Source for Stream<R> {
    fn pass_over(&mut self, bytes: u64) -> io::Result<()> {
        let passed = io::copy(&mut self.by_ref().take(bytes), &mut io::sink())?;
        if passed < bytes {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}

const BUFFER: usize = 256 * 1024;

pub(super) struct Window<'e> {
    /// A trait object, because a type parameter would make a copy of the parser for each source. It
    /// is called only once per buffer.
    input: Box<dyn Source + 'e>,
    buffer: Vec<u8>,
    /// The unread text in the buffer.
    next: usize,
    filled: usize,
    /// Bytes before the buffer.
    before: u64,
    is_ended: bool,
}

impl<'e> Window<'e> {
    pub(super) fn new(input: impl Source + 'e) -> Self {
        Self {
            input: Box::new(input),
            buffer: vec![0; BUFFER],
            next: 0,
            filled: 0,
            before: 0,
            is_ended: false,
        }
    }

    /// The unread text, as far as it is in the buffer.
    #[inline]
    pub(super) fn rest(&self) -> &[u8] {
        self.buffer.get(self.next..self.filled).unwrap_or_default()
    }

    /// The next unread byte, if it is in the buffer.
    #[inline]
    pub(super) fn first(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    /// Whether [`Self::rest`] is all text that is left.
    pub(super) const fn is_ended(&self) -> bool {
        self.is_ended
    }

    #[cfg(test)]
    pub(super) const fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Bytes read so far.
    pub(super) const fn at(&self) -> u64 {
        self.before.saturating_add(self.next as u64)
    }

    /// Marks bytes at the start of [`Self::rest`] as read.
    #[inline]
    pub(super) fn advance(&mut self, bytes: usize) {
        self.next = self.next.saturating_add(bytes).min(self.filled);
    }

    /// Marks bytes as read, and returns them.
    #[inline]
    pub(super) fn take(&mut self, bytes: usize) -> &[u8] {
        let from = self.next;
        self.advance(bytes);
        self.buffer.get(from..self.next).unwrap_or_default()
    }

    /// Continues at a later position.
    pub(super) fn jump(&mut self, to: u64) -> io::Result<()> {
        let bytes = to.saturating_sub(self.at());
        let rest = self.rest().len() as u64;
        if bytes <= rest {
            self.advance(usize::try_from(bytes).unwrap_or(usize::MAX));
            return Ok(());
        }
        self.input.pass_over(bytes - rest)?;
        self.before = to;
        (self.next, self.filled) = (0, 0);
        Ok(())
    }

    /// Adds text to [`Self::rest`]; false at the end of the text.
    #[cold]
    pub(super) fn more(&mut self) -> io::Result<bool> {
        if self.is_ended {
            return Ok(false);
        }
        // A long text that is kept unread begins at the start already, and is not copied each time.
        if self.next > 0 {
            self.buffer.copy_within(self.next..self.filled, 0);
            self.before = self.at();
            self.filled -= self.next;
            self.next = 0;
        }
        if self.filled == self.buffer.len() {
            self.buffer.resize(self.filled.saturating_mul(2), 0);
        }
        let room = self.buffer.get_mut(self.filled..).unwrap_or_default();
        let read = loop {
            match self.input.read(room) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read?.min(room.len()),
            }
        };
        self.filled += read;
        self.is_ended = read == 0;
        Ok(read > 0)
    }
}
