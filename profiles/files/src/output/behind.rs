//! A writer whose output is written, and compressed, by another thread.
//!
//! Used by the exports, so that converting data does not wait for compression and for the system.
//! Memory is bounded by [`WAITING`] pieces. Invariants: the bytes arrive in order; after an error
//! nothing more is written, and [`WriteBehind::finish`] returns the error; the thread has ended
//! when the writer is dropped. If the system cannot start a thread, the calling thread writes.

use std::io::{self, Write};

use crossbeam_channel::{Receiver, Sender, bounded};
use profiler_sys::{QuietThread, spawn_quiet};

/// The size of a piece in bytes.
const PIECE: usize = 64 * 1024;
/// The most pieces that wait for the thread.
const WAITING: usize = 4;

/// Writes to `W` on another thread. See the [module](self).
#[derive(Debug)]
pub struct WriteBehind<W> {
    piece: Vec<u8>,
    writer: Writer<W>,
}

#[derive(Debug)]
enum Writer<W> {
    Thread(Writing<W>),
    /// There is no thread.
    Here(W),
    /// Finished, or failed.
    Gone,
}

#[derive(Debug)]
struct Writing<W> {
    full: Sender<Vec<u8>>,
    /// Pieces that are written.
    empty: Receiver<Vec<u8>>,
    thread: QuietThread<io::Result<W>>,
}

impl<W: Write + Send + 'static> WriteBehind<W> {
    /// Starts the thread. If the system has none left, writes on the calling thread.
    pub fn new(out: W) -> Self {
        let (full, pieces) = bounded(WAITING);
        let (written, empty) = bounded(WAITING);
        let (to_thread, from_here) = bounded::<W>(1);
        let body = move || {
            let out = from_here.recv().map_err(|_| ended())?;
            write_all(out, &pieces, &written)
        };
        let writer = match spawn_quiet("profiler-output", body) {
            Ok(thread) => match to_thread.send(out) {
                Ok(()) => Writer::Thread(Writing {
                    full,
                    empty,
                    thread,
                }),
                Err(unsent) => Writer::Here(unsent.into_inner()),
            },
            Err(_) => Writer::Here(out),
        };
        Self {
            piece: Vec::with_capacity(PIECE),
            writer,
        }
    }

    /// Waits until everything is written, and returns the output.
    ///
    /// # Errors
    /// The first error of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.send()?;
        match std::mem::replace(&mut self.writer, Writer::Gone) {
            Writer::Thread(writing) => writing.join(),
            Writer::Here(out) => Ok(out),
            Writer::Gone => Err(ended()),
        }
    }

    /// Passes the piece to the thread.
    fn send(&mut self) -> io::Result<()> {
        match &mut self.writer {
            Writer::Thread(writing) => {
                let next = writing.empty.try_recv();
                let next = next.unwrap_or_else(|_| Vec::with_capacity(PIECE));
                let piece = std::mem::replace(&mut self.piece, next);
                if writing.full.send(piece).is_ok() {
                    return Ok(());
                }
                // The thread has ended, because the output failed.
                match std::mem::replace(&mut self.writer, Writer::Gone) {
                    Writer::Thread(writing) => writing.join().and_then(|_| Err(ended())),
                    _ => Err(ended()),
                }
            }
            Writer::Here(out) => {
                out.write_all(&self.piece)?;
                self.piece.clear();
                Ok(())
            }
            Writer::Gone => Err(ended()),
        }
    }
}

impl<W> Writing<W> {
    fn join(self) -> io::Result<W> {
        drop(self.full);
        self.thread.join().unwrap_or_else(|_| Err(ended()))
    }
}

impl<W> Drop for WriteBehind<W> {
    fn drop(&mut self) {
        if let Writer::Thread(writing) = std::mem::replace(&mut self.writer, Writer::Gone) {
            drop(writing.join());
        }
    }
}

impl<W: Write + Send + 'static> Write for WriteBehind<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = PIECE.saturating_sub(self.piece.len());
        let taken = bytes.get(..room).unwrap_or(bytes);
        self.piece.extend_from_slice(taken);
        if self.piece.len() >= PIECE {
            self.send()?;
        }
        Ok(taken.len())
    }

    /// Does nothing: [`Self::finish`] waits for the output.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes all pieces.
fn write_all<W: Write>(
    mut out: W,
    pieces: &Receiver<Vec<u8>>,
    written: &Sender<Vec<u8>>,
) -> io::Result<W> {
    for mut piece in pieces {
        out.write_all(&piece)?;
        piece.clear();
        let _ = written.try_send(piece);
    }
    Ok(out)
}

fn ended() -> io::Error {
    io::Error::other("the output has ended")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_arrive_in_order() {
        let mut out = WriteBehind::new(Vec::new());
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        for part in bytes.chunks(70_001) {
            out.write_all(part).unwrap();
        }
        assert!(out.finish().unwrap() == bytes);
    }

    #[test]
    fn the_error_of_the_output_is_returned() {
        let full = || {
            std::fs::File::options()
                .write(true)
                .open("/dev/full")
                .unwrap()
        };
        let mut out = WriteBehind::new(full());
        let error = loop {
            if let Err(error) = out.write_all(&[0; PIECE]) {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(out.finish().is_err());
        let mut short = WriteBehind::new(full());
        short.write_all(b"x").unwrap();
        let error = short.finish().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn the_output_is_dropped_with_the_writer() {
        struct Dropped {
            _alive: std::sync::Arc<()>,
        }
        impl Write for Dropped {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let alive = std::sync::Arc::new(());
        let _alive = std::sync::Arc::clone(&alive);
        drop(WriteBehind::new(Dropped { _alive }));
        assert_eq!(std::sync::Arc::strong_count(&alive), 1);
    }
}
