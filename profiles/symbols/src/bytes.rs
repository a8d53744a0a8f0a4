//! The bytes of a file, read on demand, up to a limit.
//!
//! Used by [`super::image`]. Files are read into this process's own memory, never mapped:
//! truncating a mapped file would kill this process, and changing it would change the data during
//! parsing. Invariant: all reads of a source together do not exceed its limit, and all reads of a
//! look-up do not exceed its budget, for any content of the files.

use std::cell::Cell;
use std::ops::Range;

use object::read::{ReadCache, ReadRef};
use profiler_sys::ForeignFile;

use super::reading::Budget;

/// The origin of the bytes.
#[derive(Debug)]
enum Store {
    Memory(Vec<u8>),
    File(ReadCache<ForeignFile>),
}

/// A file or an image in memory, with its remaining read limit.
#[derive(Debug)]
pub(super) struct Source {
    store: Store,
    room: Cell<u64>,
    budget: Budget,
}

impl Source {
    /// Creates a source for an image in memory.
    pub(super) fn memory(bytes: Vec<u8>, limit: u64, budget: &Budget) -> Self {
        Self {
            store: Store::Memory(bytes),
            room: Cell::new(limit),
            budget: budget.clone(),
        }
    }

    /// Creates a source for an open file.
    pub(super) fn file(file: impl Into<ForeignFile>, limit: u64, budget: &Budget) -> Self {
        Self {
            store: Store::File(ReadCache::new(file.into())),
            room: Cell::new(limit),
            budget: budget.clone(),
        }
    }

    pub(super) fn bytes(&self) -> Bytes<'_> {
        Bytes(self)
    }

    /// Charges a read of `bytes` bytes. Returns whether the limits allow it.
    pub(super) fn take(&self, bytes: u64) -> bool {
        match self.room.get().checked_sub(bytes) {
            Some(room) => {
                self.room.set(room);
                self.budget.take(bytes)
            }
            None => false,
        }
    }
}

/// The interface for the object reader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'d>(&'d Source);

impl Bytes<'_> {
    /// Whether the limits allow reading this many more bytes.
    pub(super) fn has(self, bytes: u64) -> bool {
        self.0.room.get().min(self.0.budget.left()) >= bytes
    }

    pub(super) fn take(self, bytes: u64) -> bool {
        self.0.take(bytes)
    }
}

impl<'d> ReadRef<'d> for Bytes<'d> {
    fn len(self) -> Result<u64, ()> {
        match &self.0.store {
            Store::Memory(bytes) => Ok(bytes.len() as u64),
            Store::File(file) => file.len(),
        }
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'d [u8], ()> {
        match &self.0.store {
            Store::Memory(bytes) => bytes.as_slice().read_bytes_at(offset, size),
            Store::File(file) if self.take(size) => file.read_bytes_at(offset, size),
            Store::File(_) => Err(()),
        }
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'d [u8], ()> {
        match &self.0.store {
            Store::Memory(bytes) => bytes.as_slice().read_bytes_at_until(range, delimiter),
            // The reader itself rejects names longer than a page.
            Store::File(file) => {
                let text = file.read_bytes_at_until(range, delimiter)?;
                if self.take(text.len() as u64 + 1) {
                    Ok(text)
                } else {
                    Err(())
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn reads_of_a_file_do_not_exceed_its_limit() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 4096]).unwrap();
        let source = Source::file(file, 4000, &Budget::new(1 << 20));
        assert!(source.bytes().read_bytes_at(0, 3000).is_ok());
        assert!(
            source.bytes().read_bytes_at(1, 3000).is_err(),
            "the second read is beyond the limit"
        );
        assert!(source.bytes().read_bytes_at(2, 1000).is_ok());
        assert!(source.bytes().read_bytes_at(3, 1).is_err());
    }

    #[test]
    fn reads_of_all_files_do_not_exceed_the_budget() {
        let budget = Budget::new(5000);
        let source = |budget| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&[7; 4096]).unwrap();
            Source::file(file, 4000, budget)
        };
        let one = source(&budget);
        let other = source(&budget);
        assert!(one.bytes().read_bytes_at(0, 3000).is_ok() && other.bytes().has(2000));
        assert!(!other.bytes().has(2001));
        assert!(other.bytes().read_bytes_at(0, 3000).is_err());
        assert_eq!(budget.left(), 0, "a refused read uses up the budget");
    }
}
