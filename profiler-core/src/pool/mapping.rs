//! The writer's view of its own pool: a shared mapping, handed out as atomic words only.
//!
//! Called by all code that writes (header, definitions, rows, slots, chunks). Invariants: all
//! references into the mapping are to atomics, except a chunk's uncommitted room, which its owner
//! borrows as bytes while it encodes an entry; every offset is checked against the mapping's length
//! before it becomes an address; the mapping outlives every pointer, because every holder of a
//! pointer holds the `Arc` of its pool.
//!
//! Only the process that owns the pool maps it. The parent reads with `pread`.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::mem::{align_of, size_of};
use std::ptr::NonNull;

use super::layout::Extent;
use crate::sync::AtomicU64;
use crate::sys;

/// A struct that may lie in shared memory.
///
/// # Safety
/// The type is `repr(C)` and consists of `AtomicU64` words and nothing else, so every bit
/// pattern is a valid value and concurrent access is defined.
pub(crate) unsafe trait SharedWords {}

// SAFETY: an `AtomicU64` is one such word.
unsafe impl SharedWords for AtomicU64 {}

/// Words by their offset in a pool. A trait, so that loom can check the code that uses them.
pub(crate) trait Words {
    /// The word at `offset`, if it is aligned and inside.
    fn word(&self, offset: u64) -> Option<&AtomicU64>;

    /// Makes sure that touching the range cannot fault; false if the system has no room for it.
    /// Changes no contents, so several threads may do it at once.
    fn secure(&self, _range: Extent) -> bool {
        true
    }

    /// Writes bytes, padded with zeros to whole words, with relaxed stores. The caller owns
    /// the range and publishes it afterwards with a release store.
    fn write_words(&self, offset: u64, bytes: &[u8]) -> Option<()> {
        let mut at = offset;
        for chunk in bytes.chunks(8) {
            let mut word = [0_u8; 8];
            for (to, from) in word.iter_mut().zip(chunk) {
                *to = *from;
            }
            self.word(at)?
                .store(u64::from_ne_bytes(word), crate::sync::Ordering::Relaxed);
            at = at.checked_add(8)?;
        }
        Some(())
    }
}

impl Words for Mapping {
    #[inline]
    fn word(&self, offset: u64) -> Option<&AtomicU64> {
        self.view(offset)
    }

    fn secure(&self, range: Extent) -> bool {
        !self.may_fault || self.populate(range).is_ok()
    }
}

/// A mapped pool.
#[derive(Debug)]
pub(crate) struct Mapping {
    map: sys::SharedMap,
    /// Whether the memory is a file: touching a page that the file system has no room for kills the
    /// process.
    may_fault: bool,
}

impl Mapping {
    /// Maps all of `file` for reading and writing, hidden from forked children.
    ///
    /// # Errors
    /// Errors of `mmap`.
    pub(crate) fn new(file: &File, len: u64) -> io::Result<Self> {
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let map = sys::SharedMap::new(file, len)?;
        // SAFETY: the mapping was just made and is owned by `map`.
        unsafe { sys::advise_mapping(map.as_mut_ptr(), len) }?;
        Ok(Self {
            map,
            may_fault: false,
        })
    }

    /// Maps all of `file`, which lies in a file system that may become full: every page is
    /// allocated by [`Words::secure`] before it is touched.
    ///
    /// # Errors
    /// Errors of `mmap`; `Unsupported` where the system cannot allocate pages ahead.
    pub(crate) fn of_file(file: &File, len: u64) -> io::Result<Self> {
        let map = Self {
            may_fault: true,
            ..Self::new(file, len)?
        };
        map.populate(Extent {
            offset: 0,
            len: super::layout::header::LEN,
        })?;
        Ok(map)
    }

    /// Whether the memory is a file.
    pub(crate) const fn may_fault(&self) -> bool {
        self.may_fault
    }

    /// The struct of words at `offset`, if it is aligned and inside.
    #[inline]
    pub(crate) fn view<T: SharedWords>(&self, offset: u64) -> Option<&T> {
        let address = self.address(Extent {
            offset,
            len: size_of::<T>() as u64,
        })?;
        if !address.addr().get().is_multiple_of(align_of::<T>()) {
            return None;
        }
        // SAFETY: inside the mapping (checked by `address`), aligned (checked above), and any
        // bytes are a valid `T` shared with other processes because `T: SharedWords`.
        Some(unsafe { address.cast::<T>().as_ref() })
    }

    /// Address of a range, if it lies inside.
    pub(crate) fn address(&self, range: Extent) -> Option<NonNull<u8>> {
        let whole = Extent {
            offset: 0,
            len: self.map.len() as u64,
        };
        if !whole.contains(range) {
            return None;
        }
        let offset = usize::try_from(range.offset).ok()?;
        // SAFETY: the range lies inside the mapping, so the sum stays within one allocation.
        NonNull::new(unsafe { self.map.as_mut_ptr().add(offset) })
    }

    /// Allocates the pages of a range and keeps their contents. The caller has charged the bytes.
    pub(crate) fn populate(&self, range: Extent) -> io::Result<()> {
        let (address, len) = self.checked(range)?;
        // SAFETY: the range lies inside the mapping, which lives as long as `self`.
        unsafe { sys::populate(address.as_ptr(), len, self.may_fault) }
    }

    /// Returns the pages of a range to the system. The caller owns the range; it reads as zero
    /// afterwards.
    pub(crate) fn release(&self, range: Extent) -> io::Result<()> {
        let (address, len) = self.checked(range)?;
        // SAFETY: the range lies inside the mapping, and the caller owns it exclusively.
        unsafe { sys::release(address.as_ptr(), len) }
    }

    fn checked(&self, range: Extent) -> io::Result<(NonNull<u8>, usize)> {
        let address = self.address(range).ok_or(io::ErrorKind::InvalidInput)?;
        let len = usize::try_from(range.len).map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok((address, len))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::Ordering;

    #[test]
    fn nothing_outside_or_unaligned_is_handed_out() {
        let file = sys::create_pool_file(8192).unwrap();
        let map = Mapping::new(&file, 8192).unwrap();
        assert!(map.word(8184).is_some());
        assert!(map.word(8185).is_none());
        assert!(map.word(8192).is_none());
        assert!(map.word(u64::MAX - 7).is_none());
        assert!(
            map.address(Extent {
                offset: 8,
                len: u64::MAX
            })
            .is_none()
        );
    }

    #[test]
    fn words_written_are_seen_through_the_file() {
        use std::os::unix::fs::FileExt;
        let file = sys::create_pool_file(8192).unwrap();
        let map = Mapping::new(&file, 8192).unwrap();
        map.write_words(4096, b"hello, pool").unwrap();
        map.word(4096 + 16).unwrap().store(7, Ordering::Release);
        let mut bytes = [0_u8; 24];
        file.read_exact_at(&mut bytes, 4096).unwrap();
        assert_eq!(&bytes[..11], b"hello, pool");
        assert_eq!(bytes[16], 7);
    }
}
