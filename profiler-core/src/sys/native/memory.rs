//! Memory of this process that may not be there any more, read without a fault.
//!
//! The sampler's thread reads modules and the stacks of sleeping threads like this: the system copies, and
//! says how far it came. First through `/proc/self/mem`, which a sandbox lets pass more often, else by
//! `process_vm_readv`.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::sys::OwnFile;

/// A page is at least so large.
const PAGE: u64 = 4096;

/// How many of the `len` bytes from `start` on may be read right now by an ordinary load: all, or those before the first
/// page that may not. For signal handlers too: allocates nothing; the caller keeps `errno`.
pub(crate) fn readable_bytes(start: u64, len: u64) -> u64 {
    let end = start.saturating_add(len);
    let mut known = start;
    while known < end && is_readable(known & !7) {
        known = (known | (PAGE - 1)).saturating_add(1);
    }
    known.min(end).saturating_sub(start)
}

/// Whether the word at an address may be read. A list of mappings does not say: a guard page may lie in the middle
/// of one. The system is asked to change the signal mask to what stands there, in a way that there is not, which
/// every sandbox lets pass: it reads first, and then complains of the one or the other.
fn is_readable(address: u64) -> bool {
    const NO_SUCH_WAY: libc::c_int = -1;
    let nowhere = std::ptr::null_mut::<u64>();
    // SAFETY: the kernel checks the address; no mask is changed in a way that does not exist, and none is written.
    let done = unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, NO_SUCH_WAY, address as *const u64, nowhere, size_of::<u64>())
    };
    done < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
}

/// A way to read.
#[derive(Debug)]
pub(crate) struct OwnMemory {
    file: Option<OwnFile>,
}

impl OwnMemory {
    pub(crate) fn open() -> Self {
        Self { file: File::open("/proc/self/mem").ok().map(OwnFile::from) }
    }

    /// Fills as much of `room` as is there from `address` on; says how many bytes.
    pub(crate) fn read(&self, address: u64, room: &mut [u8]) -> usize {
        if let Some(read) = self.file.as_ref().and_then(|file| file.get().ok()?.read_at(room, address).ok()) {
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

    /// Since 2024: a guard page that does not split its mapping.
    const MADV_GUARD_INSTALL: libc::c_int = 102;

    #[test]
    fn what_may_be_read_ends_at_a_guard_page_of_either_kind() {
        let guards: [fn(*mut libc::c_void) -> bool; 3] = [
            // SAFETY: of our own mapping, which nobody uses.
            |page| unsafe { libc::mprotect(page, 4096, libc::PROT_NONE) } == 0,
            // SAFETY: as above.
            |page| unsafe { libc::munmap(page, 4096) } == 0,
            // SAFETY: as above.
            |page| unsafe { libc::madvise(page, 4096, MADV_GUARD_INSTALL) } == 0,
        ];
        for guard in guards {
            let (rights, kind) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: memory that nobody has yet.
            let start = unsafe { libc::mmap(std::ptr::null_mut(), 4 * 4096, rights, kind, -1, 0) };
            assert_ne!(start, libc::MAP_FAILED);
            let address = start as u64;
            assert_eq!(readable_bytes(address + 8, 4 * 4096 - 8), 4 * 4096 - 8);
            if guard(start.wrapping_byte_add(2 * 4096)) {
                assert_eq!(readable_bytes(address + 8, 4 * 4096 - 8), 2 * 4096 - 8);
                assert_eq!(readable_bytes(address + 8, 100), 100);
                assert_eq!(readable_bytes(address + 2 * 4096, 8), 0);
            }
            // SAFETY: ours, and nobody uses it.
            unsafe { libc::munmap(start, 4 * 4096) };
        }
    }

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
