//! The text of the file: the name of the program, and its files with code.
//!
//! ```text
//! /usr/bin/program\0
//! 7f0012340000-7f0012360000 /lib/x86_64-linux-gnu/libc.so.6\0
//! ```
//!
//! One item after the other, each with a zero at its end: the path of the program, which may lead
//! through symbolic links, then for each loaded file its addresses and its path as the loader knows
//! it; the program's own is empty. The session reads the names of a process that has ended already
//! from here. The library keeps the text in its own memory, for forked children: their parent's
//! file may have been cut off.

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::layout::{Header, Notes, TEXT_BYTES, text_at};
use crate::loaded;
use crate::process;
use crate::raw::{Call, call};

const AT_CURRENT_DIRECTORY: usize = -100_isize as usize;
/// The link to the program of this process.
const PROGRAM: &CStr = c"/proc/self/exe";

struct OwnText(UnsafeCell<[u8; TEXT_BYTES]>);

// SAFETY: `collect` writes it once, while the process has one thread, and everything that reads it
// happens later.
unsafe impl Sync for OwnText {}

static TEXT: OwnText = OwnText(UnsafeCell::new([0; TEXT_BYTES]));
static LEN: AtomicUsize = AtomicUsize::new(0);
static IS_CUT: AtomicBool = AtomicBool::new(false);
/// The device and the inode of the program's file.
static DEVICE: AtomicU64 = AtomicU64::new(0);
static INODE: AtomicU64 = AtomicU64::new(0);

/// Writes the text.
struct Text {
    /// The first byte of [`TEXT`].
    start: *mut u8,
    len: usize,
    is_cut: bool,
}

impl Text {
    fn push(&mut self, byte: u8) {
        if self.len < TEXT_BYTES {
            // SAFETY: inside the text, which no other code uses meanwhile.
            unsafe { self.start.wrapping_add(self.len).write_volatile(byte) };
            self.len = self.len.wrapping_add(1);
        } else {
            self.is_cut = true;
        }
    }

    fn push_all(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.push(*byte));
    }

    fn push_hexadecimal(&mut self, number: usize) {
        let digits = (usize::BITS - number.leading_zeros()).div_ceil(4).max(1);
        for place in (0..digits).rev() {
            let digit = (number >> (4 * place) & 15) as u8;
            self.push(if digit < 10 {
                b'0' + digit
            } else {
                b'a' + (digit - 10)
            });
        }
    }

    /// Asks the system for the path of the program that this process executes.
    fn push_program(&mut self) {
        let mut room = [0_u8; 512];
        let link = PROGRAM.as_ptr().addr();
        // SAFETY: the path ends with a zero, and the kernel writes at most the length of the array.
        let len = unsafe {
            call(
                Call::READLINKAT,
                [
                    AT_CURRENT_DIRECTORY,
                    link,
                    (&raw mut room).addr(),
                    room.len(),
                    0,
                    0,
                ],
            )
        };
        let path = usize::try_from(len).ok().and_then(|len| room.get(..len));
        self.push_all(path.unwrap_or_default());
    }
}

/// Collects the names of the program and of its files. `program` is the path of the program, if it
/// is known. Called once, while the process has one thread.
pub(crate) fn collect(program: Option<&CStr>) {
    let mut text = Text {
        start: TEXT.0.get().cast(),
        len: 0,
        is_cut: false,
    };
    match program {
        Some(path) => text.push_all(path.to_bytes()),
        None => text.push_program(),
    }
    text.push(0);
    loaded::for_each(&mut |loaded| {
        let (start, end) = loaded.extent();
        text.push_hexadecimal(start);
        text.push(b'-');
        text.push_hexadecimal(end);
        text.push(b' ');
        text.push_all(loaded.name());
        text.push(0);
        text.is_cut
    });
    LEN.store(text.len, Ordering::Relaxed);
    IS_CUT.store(text.is_cut, Ordering::Relaxed);
    identify(program.unwrap_or(PROGRAM));
}

/// Notes which file the program is: its path may lead elsewhere in the session's process.
fn identify(path: &CStr) {
    // `struct stat` begins with the device and the inode, and has at most 144 bytes.
    let mut about = [0_u64; 18];
    let path = path.as_ptr().addr();
    let room = (&raw mut about).addr();
    // SAFETY: the path ends with a zero, and the kernel writes into a local array.
    let failed = unsafe {
        call(
            Call::NEWFSTATAT,
            [AT_CURRENT_DIRECTORY, path, room, 0, 0, 0],
        )
    };
    if failed == 0 {
        let [device, inode, ..] = about;
        DEVICE.store(device, Ordering::Relaxed);
        INODE.store(inode, Ordering::Relaxed);
    }
}

/// The bytes of the text.
pub(crate) fn len() -> usize {
    LEN.load(Ordering::Relaxed)
}

/// Writes the text into the file of this process. The file has room for it.
pub(crate) fn write(file: *mut u8, header: &Header) {
    let text: *const u8 = TEXT.0.get().cast();
    for at in 0..len() {
        // SAFETY: inside the text, which is not written any more.
        let byte = unsafe { text.wrapping_add(at).read_volatile() };
        // SAFETY: inside the text of the mapped file, in an allocated page.
        unsafe { file.wrapping_add(text_at(at)).write_volatile(byte) };
    }
    header
        .program_device
        .store(DEVICE.load(Ordering::Relaxed), Ordering::Relaxed);
    header
        .program_inode
        .store(INODE.load(Ordering::Relaxed), Ordering::Relaxed);
    header.text_bytes.store(len() as u32, Ordering::Release);
    if IS_CUT.load(Ordering::Relaxed) {
        process::note(Notes::TEXT_CUT);
    }
}
