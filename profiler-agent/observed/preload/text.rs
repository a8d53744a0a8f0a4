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
//! from here.

use core::ptr;
use core::sync::atomic::Ordering;

use crate::layout::{
    FIRST_TEXT_BYTES, Header, MORE_TEXT_AT, MORE_TEXT_BYTES, Notes, TEXT_BYTES, text_at,
};
use crate::loaded;
use crate::process;
use crate::raw::{Call, call, populate_pages};

const AT_CURRENT_DIRECTORY: usize = -100_isize as usize;

/// Writes text into a file.
struct Text {
    file: *mut u8,
    len: usize,
    is_cut: bool,
}

impl Text {
    fn new(file: *mut u8) -> Self {
        Self {
            file,
            len: 0,
            is_cut: false,
        }
    }

    fn push(&mut self, byte: u8) {
        let is_full =
            self.len >= TEXT_BYTES || self.len == FIRST_TEXT_BYTES && !self.allocate_more();
        if self.is_cut || is_full {
            self.is_cut = true;
            return;
        }
        // SAFETY: inside the text of the mapped file, in an allocated page.
        unsafe {
            self.file
                .wrapping_add(text_at(self.len))
                .write_volatile(byte)
        };
        self.len = self.len.wrapping_add(1);
    }

    /// Allocates the pages for the rest of the text.
    fn allocate_more(&self) -> bool {
        let place = self.file.addr().wrapping_add(MORE_TEXT_AT);
        populate_pages(place, MORE_TEXT_BYTES)
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
        let link = c"/proc/self/exe".as_ptr().addr();
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

    fn finish(&self, header: &Header) {
        header.text_bytes.store(self.len as u32, Ordering::Release);
        if self.is_cut {
            process::note(Notes::TEXT_CUT);
        }
    }
}

/// Writes the names of the program and of its files. `program` is the path of the program, if it is
/// known. Called while the process has one thread.
pub(crate) fn write(file: *mut u8, header: &Header, program: Option<&[u8]>) {
    let mut text = Text::new(file);
    match program {
        Some(path) => text.push_all(path),
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
    text.finish(header);
}

/// Copies the text of the parent's file in a forked child, which has the same program and files.
pub(crate) fn copy(from: *mut u8, to: *mut u8) {
    // SAFETY: both are mapped with the length of the layout; all fields are atomics.
    let (Some(old), Some(new)) = (unsafe { from.cast::<Header>().as_ref() }, unsafe {
        to.cast::<Header>().as_ref()
    }) else {
        return;
    };
    let len = (old.text_bytes.load(Ordering::Acquire) as usize).min(TEXT_BYTES);
    let mut text = Text::new(to);
    for at in 0..len {
        // SAFETY: inside the text of the parent's file.
        text.push(unsafe { ptr::read_volatile(from.wrapping_add(text_at(at))) });
    }
    text.finish(new);
}
