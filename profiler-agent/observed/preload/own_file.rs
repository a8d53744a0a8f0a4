//! Makes the file of this process in the session's directory, and maps it.
//!
//! Called when the library is loaded with a program, and in a forked child. Invariants: no
//! descriptor stays open; nothing is left in the directory if a step fails; the program's limits
//! are checked before, because exceeding them sends a signal.

use core::mem::size_of;
use core::ptr;
use core::sync::atomic::Ordering;

use crate::layout::{
    FILE_BYTES, FIRST_BYTES, FIRST_TEXT_BYTES, Header, MAGIC, MORE_TEXT_AT, MORE_TEXT_BYTES,
    VERSION,
};
use crate::process::{self, Configuration};
use crate::raw::{Call, Clock, call, call3, limit_of_process, process_id};

const AT_CURRENT_DIRECTORY: usize = -100_isize as usize;
const O_RDWR: usize = 2;
const O_CREAT: usize = 0o100;
const O_EXCL: usize = 0o200;
const O_CLOEXEC: usize = 0o2_000_000;
#[cfg(target_arch = "x86_64")]
const O_NOFOLLOW: usize = 0o400_000;
#[cfg(target_arch = "aarch64")]
const O_NOFOLLOW: usize = 0o100_000;
const PROT_READ_WRITE: usize = 3;
const MAP_SHARED: usize = 1;
const RLIMIT_FSIZE: usize = 1;
/// The longest name of a file: two numbers of 16 digits, a point, a zero.
const NAME_BYTES: usize = 40;

/// A path that ends with a zero.
struct Path {
    bytes: [u8; process::MAX_DIRECTORY + NAME_BYTES],
    len: usize,
}

impl Path {
    /// The path of a new file: the directory, and a name that no other process chooses.
    fn of_new_file(configuration: &Configuration) -> Self {
        let mut path = Self {
            bytes: [0; process::MAX_DIRECTORY + NAME_BYTES],
            len: 0,
        };
        for byte in configuration
            .directory
            .iter()
            .take_while(|byte| **byte != 0)
        {
            path.push(*byte);
        }
        path.push(b'/');
        path.push_hexadecimal(u64::from(process_id()));
        path.push(b'.');
        path.push_hexadecimal(Clock::MONOTONIC.now_ns());
        path
    }

    fn push(&mut self, byte: u8) {
        // The last byte stays zero.
        if let Some([place, _, ..]) = self.bytes.get_mut(self.len..) {
            *place = byte;
            self.len = self.len.wrapping_add(1);
        }
    }

    fn push_hexadecimal(&mut self, number: u64) {
        for shift in (0..16).rev() {
            let digit = (number >> (4 * shift) & 15) as u8;
            self.push(if digit < 10 {
                b'0' + digit
            } else {
                b'a' + (digit - 10)
            });
        }
    }

    fn address(&self) -> usize {
        self.bytes.as_ptr().addr()
    }
}

/// Makes and maps the file, with room for a text of this length. `None` if the system refuses a
/// step: then this process is not recorded.
pub(crate) fn make(configuration: &Configuration, text_bytes: usize) -> Option<*mut u8> {
    if !may_have(FILE_BYTES as u64) {
        return None;
    }
    let path = Path::of_new_file(configuration);
    let flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    // SAFETY: the path ends with a zero.
    let opened = unsafe {
        call(
            Call::OPENAT,
            [AT_CURRENT_DIRECTORY, path.address(), flags, 0o600, 0, 0],
        )
    };
    let descriptor = usize::try_from(opened).ok()?;
    let mapped = fill(descriptor, text_bytes);
    // SAFETY: closes the descriptor that was opened above, and that no other code knows.
    unsafe { call3(Call::CLOSE, descriptor, 0, 0) };
    if mapped.is_none() {
        // SAFETY: the path ends with a zero.
        unsafe { call3(Call::UNLINKAT, AT_CURRENT_DIRECTORY, path.address(), 0) };
    }
    mapped
}

/// Whether a file may have this length. Beyond the limit the system would send a signal.
fn may_have(bytes: u64) -> bool {
    bytes <= limit_of_process(RLIMIT_FSIZE)
}

/// Gives the file its length and its first pages, and those for a long text, and maps it.
fn fill(descriptor: usize, text_bytes: usize) -> Option<*mut u8> {
    // SAFETY: changes a file that this process has just made.
    let sized = unsafe { call3(Call::FTRUNCATE, descriptor, FILE_BYTES, 0) };
    let is_allocated = |at: usize, bytes: usize| {
        // SAFETY: as above.
        unsafe { call(Call::FALLOCATE, [descriptor, 0, at, bytes, 0, 0]) == 0 }
    };
    let has_text = || text_bytes <= FIRST_TEXT_BYTES || is_allocated(MORE_TEXT_AT, MORE_TEXT_BYTES);
    if sized != 0 || !is_allocated(0, FIRST_BYTES) || !has_text() {
        return None;
    }
    // SAFETY: a new mapping at an address that the kernel chooses.
    let mapped = unsafe {
        call(
            Call::MMAP,
            [0, FILE_BYTES, PROT_READ_WRITE, MAP_SHARED, descriptor, 0],
        )
    };
    (!(-4095..0).contains(&mapped)).then(|| ptr::with_exposed_provenance_mut(mapped as usize))
}

/// Unmaps a file.
///
/// # Safety
/// No reference to it exists, and the handler does not run.
pub(crate) unsafe fn unmap(file: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { call3(Call::MUNMAP, file.expose_provenance(), FILE_BYTES, 0) };
}

/// Writes who this process is. The last store makes the file valid.
pub(crate) fn introduce(header: &Header, cpu_ns: u64) {
    const { assert!(size_of::<Header>().is_multiple_of(8)) };
    header.version.store(VERSION, Ordering::Relaxed);
    header.pid.store(process_id(), Ordering::Relaxed);
    // SAFETY: takes no argument and cannot fail.
    let parent = unsafe { call3(Call::GETPPID, 0, 0, 0) };
    header.parent.store(parent as u32, Ordering::Relaxed);
    header.began.store(process::now(), Ordering::Relaxed);
    let monotonic = Clock::MONOTONIC.now_ns();
    header
        .began_monotonic_ns
        .store(monotonic, Ordering::Relaxed);
    header.began_cpu_ns.store(cpu_ns, Ordering::Relaxed);
    header.magic.store(MAGIC, Ordering::Release);
}
