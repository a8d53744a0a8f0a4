//! What a child says that it has recorded: a page of shared memory that outlives it.
//!
//! Made by the parent, handed over as the child's standard input, mapped by the child, read by position
//! by the parent. Per writer two words: `begun`, stored before an entry is recorded, and
//! `returned`, stored after the call came back. A killed process can have at most one entry between
//! them, so its books are known from outside to within one per thread, and exactly where both agree.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};

/// Most writers of one child, one after the other or at once.
pub const WRITERS: u32 = 1024;
/// Bytes per writer: no two share a cache line.
const ROW: usize = 64;
const BYTES: usize = WRITERS as usize * ROW;

/// What one writer said last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Entries that it began to record.
    pub begun: u64,
    /// Entries after which it went on.
    pub returned: u64,
}

/// The parent's side.
#[derive(Debug)]
pub struct Board(File);

impl Board {
    /// An empty one.
    ///
    /// # Errors
    /// When the system gives no memory.
    pub fn create() -> io::Result<Self> {
        let file = memfd_create("board", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, BYTES as u64)?;
        Ok(Self(File::from(file)))
    }

    /// A second descriptor, to be a child's standard input.
    ///
    /// # Errors
    /// When the system gives no descriptor.
    pub fn for_child(&self) -> io::Result<File> {
        self.0.try_clone()
    }

    /// What all writers have said by now, by their numbers.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&self) -> io::Result<Vec<Said>> {
        self.first(BYTES)
    }

    fn first(&self, bytes: usize) -> io::Result<Vec<Said>> {
        let mut bytes = vec![0; bytes];
        self.0.read_exact_at(&mut bytes, 0)?;
        let word = |row: &[u8], at: usize| {
            row.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_ne_bytes)
        };
        // Read between the two, an entry may have returned that was not begun: the later one counts.
        let said = |row: &[u8]| {
            let returned = word(row, 8);
            Said { begun: word(row, 0).max(returned), returned }
        };
        Ok(bytes.chunks_exact(ROW).map(said).collect())
    }

    /// Whether one of the first writers has begun.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn has_begun(&self) -> io::Result<bool> {
        Ok(self.first(8 * ROW)?.iter().any(|said| said.begun > 0))
    }
}

/// One writer's row in the child.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Row {
    begun: AtomicU64,
    returned: AtomicU64,
}

impl Row {
    /// Records one entry, and says so before and after.
    #[inline]
    pub fn around(&self, number: u64, record: impl FnOnce()) {
        self.begun.store(number + 1, Ordering::Release);
        record();
        self.returned.store(number + 1, Ordering::Release);
    }
}

/// Maps the board that a parent handed over, for the rest of the process's life.
///
/// # Errors
/// When it is not one.
pub fn map(file: impl AsFd) -> io::Result<&'static [Row]> {
    if rustix::fs::fstat(&file)?.st_size != BYTES as i64 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    // SAFETY: a new mapping at a place that the system chooses; nothing else of ours lies there.
    let memory = unsafe { mmap(ptr::null_mut(), BYTES, protection, flags, file, 0) }?;
    // SAFETY: page-aligned, as long as so many rows, which are atomics, for which any bytes are
    // valid; never unmapped.
    Ok(unsafe { std::slice::from_raw_parts(memory.cast::<Row>(), WRITERS as usize) })
}
