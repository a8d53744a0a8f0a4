//! Memory of this process that may not be there any more, read without a fault.
//!
//! The sampler's thread reads modules and the stacks of sleeping threads like this: the system copies, and
//! says how far it came. First through `/proc/self/mem`, which a sandbox lets pass more often, else by
//! `process_vm_readv`.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// A way to read.
#[derive(Debug)]
pub(crate) struct OwnMemory {
    file: Option<File>,
}

impl OwnMemory {
    pub(crate) fn open() -> Self {
        Self { file: File::open("/proc/self/mem").ok() }
    }

    /// Fills as much of `room` as is there from `address` on; says how many bytes.
    pub(crate) fn read(&self, address: u64, room: &mut [u8]) -> usize {
        if let Some(read) = self.file.as_ref().and_then(|file| file.read_at(room, address).ok()) {
            return read;
        }
        let own = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        let other = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: room.len() };
        let pid = std::process::id().cast_signed();
        // SAFETY: the system writes at most `room.len()` bytes into `room`, and checks every page of the other.
        let read = unsafe { libc::process_vm_readv(pid, &raw const own, 1, &raw const other, 1, 0) };
        usize::try_from(read).unwrap_or(0)
    }

    /// The same for whole words.
    pub(crate) fn read_words(&self, address: u64, room: &mut [u64]) -> usize {
        // SAFETY: any bytes are valid words, and u8 has no alignment; the borrow is exclusive.
        let (_, bytes, _) = unsafe { room.align_to_mut::<u8>() };
        self.read(address, bytes) / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_read_and_what_is_not_is_no_fault() {
        let words = [1_u64, 2, 3];
        let mut room = [0_u64; 3];
        for memory in [OwnMemory::open(), OwnMemory { file: None }] {
            assert_eq!(memory.read_words(words.as_ptr() as u64, &mut room), 3);
            assert_eq!(room, words);
            assert_eq!(memory.read(8, &mut [0; 8]), 0);
        }
    }
}
