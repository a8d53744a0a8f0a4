//! Unpacks a compressed profile on another thread, ahead of its reader.
//!
//! Used by [`mod@super::text`]. Memory is bounded by [`WAITING`] pieces. Invariants: the text
//! arrives in order; an error of the file arrives after the text before it; the thread has ended
//! when the reader is dropped.

use std::io::{self, Read};

use crossbeam_channel::{Receiver, Sender, bounded};
use profiler_sys::{QuietThread, spawn_quiet};

/// The size of a piece in bytes.
const PIECE: usize = 128 * 1024;
/// The most pieces that wait for the reader.
const WAITING: usize = 4;

/// A piece of text, or the error that ends it.
type Piece = io::Result<Vec<u8>>;

/// Reads from another thread. See the [module](self).
#[derive(Debug)]
pub(super) struct ReadAhead {
    piece: Vec<u8>,
    /// Bytes of the piece that were read.
    read: usize,
    pieces: Option<Receiver<Piece>>,
    /// Pieces that were read, for reuse.
    empty: Option<Sender<Vec<u8>>>,
    thread: Option<QuietThread<()>>,
}

impl ReadAhead {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub(super) fn start(mut text: impl Read + Send + 'static) -> io::Result<Self> {
        let (filled, pieces) = bounded(WAITING);
        let (empty, reused) = bounded::<Vec<u8>>(WAITING);
        let body = move || {
            loop {
                let room = reused.try_recv().unwrap_or_default();
                let (piece, end) = fill(&mut text, room);
                if filled.send(Ok(piece)).is_err() {
                    return;
                }
                match end {
                    Ok(false) => {}
                    Ok(true) => return,
                    Err(error) => return drop(filled.send(Err(error))),
                }
            }
        };
        Ok(Self {
            piece: Vec::new(),
            read: 0,
            pieces: Some(pieces),
            empty: Some(empty),
            thread: Some(spawn_quiet("profiler-unpack", body)?),
        })
    }
}

/// Fills a piece as far as possible. Returns whether the text ends with it.
fn fill(text: &mut impl Read, mut room: Vec<u8>) -> (Vec<u8>, io::Result<bool>) {
    room.resize(PIECE, 0);
    let mut filled = 0;
    let end = loop {
        let rest = room.get_mut(filled..).unwrap_or_default();
        if rest.is_empty() {
            break Ok(false);
        }
        match text.read(rest) {
            Ok(0) => break Ok(true),
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break Err(error),
        }
    };
    room.truncate(filled);
    (room, end)
}

impl Read for ReadAhead {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        while self.read == self.piece.len() {
            let Some(next) = self.pieces.as_ref().and_then(|pieces| pieces.recv().ok()) else {
                return Ok(0);
            };
            let read = std::mem::replace(&mut self.piece, next?);
            self.read = 0;
            let _ = self.empty.as_ref().map(|empty| empty.try_send(read));
        }
        let rest = self.piece.get(self.read..).unwrap_or_default();
        let read = rest.len().min(room.len());
        if let (Some(room), Some(rest)) = (room.get_mut(..read), rest.get(..read)) {
            room.copy_from_slice(rest);
        }
        self.read += read;
        Ok(read)
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        (self.pieces, self.empty) = (None, None);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_text_arrives_before_the_error_that_ends_it() {
        struct Fails;
        impl Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("broken"))
            }
        }
        let text: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
        let from = io::Cursor::new(text.clone());
        let mut read = Vec::new();
        let mut whole = ReadAhead::start(from.clone()).unwrap();
        whole.read_to_end(&mut read).unwrap();
        assert!(read == text);
        let mut read = Vec::new();
        let mut broken = ReadAhead::start(from.chain(Fails)).unwrap();
        let error = broken.read_to_end(&mut read).unwrap_err();
        assert_eq!(error.to_string(), "broken");
        assert!(read == text);
    }

    #[test]
    fn a_reader_that_is_dropped_early_ends_the_thread() {
        /// Dropped by the thread.
        struct Endless {
            _alive: std::sync::Arc<()>,
        }
        impl Read for Endless {
            fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
                room.fill(b'x');
                Ok(room.len())
            }
        }
        let alive = std::sync::Arc::new(());
        let _alive = std::sync::Arc::clone(&alive);
        let mut endless = ReadAhead::start(Endless { _alive }).unwrap();
        endless.read_exact(&mut [0; 10]).unwrap();
        drop(endless);
        assert_eq!(std::sync::Arc::strong_count(&alive), 1);
    }
}
