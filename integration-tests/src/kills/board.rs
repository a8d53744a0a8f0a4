//! The board: a child reports in it what it has recorded, in shared memory that outlives the child.
//!
//! The parent creates the board and passes it to the child as its standard input. The child maps
//! it, and the parent reads it at given positions. Each writer has two words: `begun`, stored
//! before an entry is recorded, and `returned`, stored after the call has returned. When a process
//! is killed, the two differ by at most one for each thread, so the number of its entries is known
//! to within one, and exactly if both are equal.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};

/// The highest number of writers that a child can have in its life.
pub const WRITERS: u32 = 1024;
/// Bytes for each writer, so that no two writers share a cache line.
const ROW: usize = 64;
const BYTES: usize = WRITERS as usize * ROW;

/// The latest report of one writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Number of entries that the writer began to record.
    pub begun: u64,
    /// Number of entries after which the recording call returned.
    pub returned: u64,
}

/// The parent's side.
#[derive(Debug)]
pub struct Board(File);

impl Board {
    /// Creates an empty board.
    ///
    /// # Errors
    /// When the system has no memory.
    pub fn create() -> io::Result<Self> {
        let file = memfd_create("board", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, BYTES as u64)?;
        Ok(Self(File::from(file)))
    }

    /// Returns a second descriptor, for the standard input of a child.
    ///
    /// # Errors
    /// When the system has no descriptor.
    pub fn for_child(&self) -> io::Result<File> {
        self.0.try_clone()
    }

    /// Returns the reports of all writers, by their numbers.
    ///
    /// # Errors
    /// When the board cannot be read.
    pub fn read(&self) -> io::Result<Vec<Said>> {
        self.first(BYTES)
    }

    fn first(&self, bytes: usize) -> io::Result<Vec<Said>> {
        let mut bytes = vec![0; bytes];
        self.0.read_exact_at(&mut bytes, 0)?;
        let word = |row: &[u8], at: usize| {
            row.get(at..at + 8)
                .and_then(|word| word.try_into().ok())
                .map_or(0, u64::from_ne_bytes)
        };
        // The copy can contain an old `begun` and a new `returned`. An entry that has returned has
        // begun.
        let said = |row: &[u8]| {
            let returned = word(row, 8);
            Said {
                begun: word(row, 0).max(returned),
                returned,
            }
        };
        Ok(bytes.chunks_exact(ROW).map(said).collect())
    }

    /// Returns whether one of the first eight writers has begun an entry.
    ///
    /// # Errors
    /// When the board cannot be read.
    pub fn has_begun(&self) -> io::Result<bool> {
        Ok(self.first(8 * ROW)?.iter().any(|said| said.begun > 0))
    }
}

/// The row of one writer, in the child.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Row {
    begun: AtomicU64,
    returned: AtomicU64,
}

impl Row {
    /// Records one entry, and reports it before and after.
    #[inline]
    pub fn around(&self, number: u64, record: impl FnOnce()) {
        self.begun.store(number + 1, Ordering::Release);
        record();
        self.returned.store(number + 1, Ordering::Release);
    }
}

/// Maps the board that the parent has passed, until the process ends.
///
/// # Errors
/// When the file is not a board.
pub fn map(file: impl AsFd) -> io::Result<&'static [Row]> {
    if rustix::fs::fstat(&file)?.st_size != BYTES as i64 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::SHARED;
    // SAFETY: a new mapping at an address that the system chooses, so it replaces no other memory.
    let memory = unsafe { mmap(ptr::null_mut(), BYTES, protection, flags, file, 0) }?;
    // SAFETY: the memory is page-aligned, has room for this number of rows and is never unmapped.
    // Rows consist of atomics, for which any bytes are valid.
    Ok(unsafe { std::slice::from_raw_parts(memory.cast::<Row>(), WRITERS as usize) })
}
