//! Reads memory of this process that may be unmapped, without a fault.
//!
//! The sampler's thread reads modules and the stacks of sleeping threads with it: the system copies
//! the bytes, and reports how many it could read. `/proc/self/mem` is used if it can be opened,
//! because more sandboxes allow it, otherwise `process_vm_readv`.

use std::os::unix::fs::FileExt;

use profiler_sys::{OwnFile, open_file};

/// Minimum size of a page.
const PAGE: u64 = 4096;

/// The number of bytes from `start` on, at most `len`, that an ordinary load may read now: the
/// bytes before the first unreadable page. May be called in a signal handler: it allocates nothing,
/// and the caller preserves `errno`.
pub(crate) fn readable_bytes(start: u64, len: u64) -> u64 {
    let end = start.saturating_add(len);
    let mut known = start;
    while known < end && is_readable(known & !7) {
        known = (known | (PAGE - 1)).saturating_add(1);
    }
    known.min(end).saturating_sub(start)
}

/// Whether the word at an address may be read. A list of mappings does not suffice: a guard page
/// may lie in the middle of one. So this function asks the system to change the signal mask to that
/// word with an invalid operation, a call that every sandbox allows. The system reads the word
/// first, and then reports either the failed read or the invalid operation.
fn is_readable(address: u64) -> bool {
    const INVALID_OPERATION: libc::c_int = -1;
    let nowhere = std::ptr::null_mut::<u64>();
    // SAFETY: the kernel checks the address; an invalid operation changes no mask, and none is
    // written.
    let done = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            INVALID_OPERATION,
            address as *const u64,
            nowhere,
            size_of::<u64>(),
        )
    };
    done < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
}

/// Reads this process's memory. Holds `/proc/self/mem` if it could be opened.
#[derive(Debug)]
pub(crate) struct OwnMemory {
    file: Option<OwnFile>,
}

impl OwnMemory {
    pub(crate) fn open() -> Self {
        Self {
            file: open_file("/proc/self/mem").ok(),
        }
    }

    /// Fills `room` with the readable bytes from `address` on; returns their number.
    pub(crate) fn read(&self, address: u64, room: &mut [u8]) -> usize {
        if let Some(read) = self
            .file
            .as_ref()
            .and_then(|file| file.get().ok()?.read_at(room, address).ok())
        {
            return read;
        }
        let own = libc::iovec {
            iov_base: room.as_mut_ptr().cast(),
            iov_len: room.len(),
        };
        let other = libc::iovec {
            iov_base: address as *mut libc::c_void,
            iov_len: room.len(),
        };
        let pid = std::process::id().cast_signed();
        // SAFETY: the system writes at most `room.len()` bytes into `room`, and checks every page
        // of the source.
        let read =
            unsafe { libc::process_vm_readv(pid, &raw const own, 1, &raw const other, 1, 0) };
        usize::try_from(read).unwrap_or(0)
    }

    /// Like `read`, for whole words. Returns the number of words.
    pub(crate) fn read_words(&self, address: u64, room: &mut [u64]) -> usize {
        // SAFETY: any bytes are valid words, and u8 has no alignment; the borrow is exclusive.
        let (_, bytes, _) = unsafe { room.align_to_mut::<u8>() };
        self.read(address, bytes) / 8
    }
}

impl profiler_unwind::CodeBytes for OwnMemory {
    fn read(&self, address: u64, room: &mut [u8]) -> usize {
        Self::read(self, address, room)
    }
}

impl profiler_unwind::ReadBytes for OwnMemory {
    fn read(&self, address: u64, room: &mut [u8]) -> usize {
        Self::read(self, address, room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a guard page that does not split its mapping, since Linux 6.13.
    const MADV_GUARD_INSTALL: libc::c_int = 102;

    #[test]
    fn readable_bytes_end_at_a_guard_page_of_any_kind() {
        let guards: [fn(*mut libc::c_void) -> bool; 3] = [
            // SAFETY: acts on our own mapping, which no other thread uses.
            |page| unsafe { libc::mprotect(page, 4096, libc::PROT_NONE) } == 0,
            // SAFETY: as above.
            |page| unsafe { libc::munmap(page, 4096) } == 0,
            // SAFETY: as above.
            |page| unsafe { libc::madvise(page, 4096, MADV_GUARD_INSTALL) } == 0,
        ];
        for guard in guards {
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            // SAFETY: maps new memory.
            let start = unsafe { libc::mmap(std::ptr::null_mut(), 4 * 4096, rights, kind, -1, 0) };
            assert_ne!(start, libc::MAP_FAILED);
            let address = start as u64;
            assert_eq!(readable_bytes(address + 8, 4 * 4096 - 8), 4 * 4096 - 8);
            if guard(start.wrapping_byte_add(2 * 4096)) {
                assert_eq!(readable_bytes(address + 8, 4 * 4096 - 8), 2 * 4096 - 8);
                assert_eq!(readable_bytes(address + 8, 100), 100);
                assert_eq!(readable_bytes(address + 2 * 4096, 8), 0);
            }
            // SAFETY: our own mapping, which no other thread uses.
            unsafe { libc::munmap(start, 4 * 4096) };
        }
    }

    #[test]
    fn mapped_memory_is_read_and_unmapped_memory_causes_no_fault() {
        let words = [1_u64, 2, 3];
        let mut room = [0_u64; 3];
        for memory in [OwnMemory::open(), OwnMemory { file: None }] {
            assert_eq!(memory.read_words(words.as_ptr() as u64, &mut room), 3);
            assert_eq!(room, words);
            assert_eq!(memory.read(8, &mut [0; 8]), 0);
        }
    }
}
