//! Copies the list of mapped files when the process crashes. The session cannot read the mappings
//! of a process that has ended, and the list from the start of the process lacks libraries that
//! were loaded later.
//!
//! Only the handler that has claimed the crash calls it, so the static buffer has one user. A
//! mapping is kept if it has a name and is executable or has offset 0: the session needs no others.
//! Lines longer than [`MAX_LINE`], and lines for which the buffer has no space, are omitted.

use core::cell::UnsafeCell;
use core::ffi::CStr;

use crate::handler::{self, Written};
use crate::layout::{CRASH_PAGES, HEAD_BYTES, IS_CRASH, IS_CRASH_MAPS, PAGE, SampleHead};
use crate::raw::{Call, call, call3};

const MAPS: &CStr = c"/proc/self/maps";
const AT_CURRENT_DIRECTORY: usize = -100_isize as usize;
const O_CLOEXEC: usize = 0o2_000_000;
/// The most bytes of the list that are kept: the stack gets the rest of the pages for a crash.
const MAX_BYTES: usize = (CRASH_PAGES - 2) * PAGE - HEAD_BYTES;
/// The longest line that is kept.
const MAX_LINE: usize = 512;

struct MapsBuffer(UnsafeCell<[u8; MAX_BYTES]>);

// SAFETY: only the handler that has claimed the crash of this process uses it.
unsafe impl Sync for MapsBuffer {}

static MAPS_BUFFER: MapsBuffer = MapsBuffer(UnsafeCell::new([0; MAX_BYTES]));

/// Copies the list into the ring. `head` has the numbers of the thread.
pub(crate) fn write_maps(head: &SampleHead) -> Written {
    // SAFETY: an exclusive user, see `MapsBuffer`; nothing else refers to it while this one does.
    let room = unsafe { &mut *MAPS_BUFFER.0.get() };
    let Some(len) = read_maps(room) else {
        return Written::NoPage;
    };
    let head = SampleHead {
        flags: IS_CRASH | IS_CRASH_MAPS,
        ..*head
    };
    handler::write_bytes(&head, room.get(..len).unwrap_or_default())
}

/// Reads the lines about files into the room; returns their bytes, a multiple of 8.
fn read_maps(room: &mut [u8]) -> Option<usize> {
    let path = MAPS.as_ptr().addr();
    // SAFETY: the path ends with a zero.
    let opened = unsafe {
        call(
            Call::OPENAT,
            [AT_CURRENT_DIRECTORY, path, O_CLOEXEC, 0, 0, 0],
        )
    };
    let file = usize::try_from(opened).ok()?;
    let mut lines = MapsLines {
        room,
        kept: 0,
        end: 0,
        is_long: false,
    };
    let mut bytes = [0_u8; 256];
    loop {
        // SAFETY: the kernel writes at most the length of the array.
        let len = unsafe { call3(Call::READ, file, (&raw mut bytes).addr(), bytes.len()) };
        let read = usize::try_from(len).ok().and_then(|len| bytes.get(..len));
        match read {
            Some([]) | None => break,
            Some(read) => read.iter().for_each(|byte| lines.push(*byte)),
        }
    }
    // SAFETY: closes what was opened above.
    unsafe { call3(Call::CLOSE, file, 0, 0) };
    Some(lines.padded())
}

/// Lines in the room: complete ones that are kept, then the present one.
struct MapsLines<'a> {
    room: &'a mut [u8],
    kept: usize,
    end: usize,
    is_long: bool,
}

impl MapsLines<'_> {
    fn push(&mut self, byte: u8) {
        // The last bytes are for the padding.
        let is_full = self.end.wrapping_add(8) >= self.room.len();
        let is_long = self.end.wrapping_sub(self.kept) >= MAX_LINE;
        match self.room.get_mut(self.end) {
            Some(place) if !is_full && !is_long => {
                *place = byte;
                self.end = self.end.wrapping_add(1);
            }
            _ => self.is_long = true,
        }
        if byte == b'\n' {
            let line = self.room.get(self.kept..self.end).unwrap_or_default();
            if !self.is_long && is_wanted(line) {
                self.kept = self.end;
            }
            (self.end, self.is_long) = (self.kept, false);
        }
    }

    /// Fills the last word with ends of lines; returns the bytes.
    fn padded(self) -> usize {
        let len = self.kept.next_multiple_of(8).min(self.room.len());
        for place in self.room.iter_mut().take(len).skip(self.kept) {
            *place = b'\n';
        }
        len
    }
}

/// Whether a line has a name, and its mapping is executable or has offset 0:
/// `start-end rwxp offset device inode /path`.
fn is_wanted(line: &[u8]) -> bool {
    let mut words = line.split(|byte| *byte == b' ').skip(1);
    let is_code = words.next().is_some_and(|rights| rights.contains(&b'x'));
    let offset = words.next();
    let is_start = offset.is_some_and(|offset| offset.iter().all(|digit| *digit == b'0'));
    (is_code || is_start) && line.iter().any(|byte| matches!(byte, b'/' | b'['))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is kept of a list in a room of this size.
    fn kept(text: &[u8], room: usize) -> Vec<u8> {
        let mut room = vec![0; room];
        let mut lines = MapsLines {
            room: &mut room,
            kept: 0,
            end: 0,
            is_long: false,
        };
        text.iter().for_each(|byte| lines.push(*byte));
        let len = lines.padded();
        room.truncate(len);
        room
    }

    #[test]
    fn executable_and_first_mappings_are_kept() {
        let text = b"1-2 rw-p 0 0:0 0\n3-4 r--p 000 1:2 3 /a\n4-5 r-xp 10 1:2 3 /a\n\
            5-6 r--p 20 1:2 3 /a\n6-7 r-xp 0 0:0 0 [vdso]\n";
        let wanted = b"3-4 r--p 000 1:2 3 /a\n4-5 r-xp 10 1:2 3 /a\n6-7 r-xp 0 0:0 0 [vdso]\n";
        let mut padded = wanted.to_vec();
        padded.resize(wanted.len().next_multiple_of(8), b'\n');
        assert_eq!(kept(text, 512), padded);
    }

    #[test]
    fn lines_that_do_not_fit_are_left_out() {
        let long = [
            b"1-2 r-xp 0 /".as_slice(),
            &[b'x'; MAX_LINE],
            b"\n3-4 r-xp 0 /b\n",
        ]
        .concat();
        assert_eq!(kept(&long, 2048), b"3-4 r-xp 0 /b\n\n\n");
        assert_eq!(
            kept(b"3-4 r-xp 0 /b\n5-6 r-xp 0 /c\n", 24),
            b"3-4 r-xp 0 /b\n\n\n"
        );
    }
}
