//! Whether the process has inherited a filter of system calls.

use core::ffi::CStr;

use crate::raw::{Call, call, call3};

const STATUS: &CStr = c"/proc/self/status";
const AT_CURRENT_DIRECTORY: usize = -100_isize as usize;
const O_CLOEXEC: usize = 0o2_000_000;
/// The line of a process without a filter.
const UNFILTERED: &[u8] = b"\nSeccomp:\t0\n";

/// Whether a filter may be active. Reads `/proc/self/status`, because a filter may kill a process
/// that asks by `prctl`. True if the file cannot be read.
pub(crate) fn may_be_filtered() -> bool {
    let path = STATUS.as_ptr().addr();
    // SAFETY: the path ends with a zero.
    let opened = unsafe {
        call(
            Call::OPENAT,
            [AT_CURRENT_DIRECTORY, path, O_CLOEXEC, 0, 0, 0],
        )
    };
    let Ok(file) = usize::try_from(opened) else {
        return true;
    };
    let mut bytes = [0_u8; 256];
    let mut matched = 0;
    while matched < UNFILTERED.len() {
        // SAFETY: the kernel writes at most the length of the array.
        let len = unsafe { call3(Call::READ, file, (&raw mut bytes).addr(), bytes.len()) };
        match usize::try_from(len).ok().and_then(|len| bytes.get(..len)) {
            Some([]) | None => break,
            Some(read) => {
                matched = read
                    .iter()
                    .fold(matched, |matched, byte| advance_match(matched, *byte))
            }
        }
    }
    // SAFETY: closes what was opened above.
    unsafe { call3(Call::CLOSE, file, 0, 0) };
    matched < UNFILTERED.len()
}

/// How many bytes of the line are matched after another byte.
fn advance_match(matched: usize, byte: u8) -> usize {
    match UNFILTERED.get(matched) {
        None => matched,
        Some(next) if *next == byte => matched.wrapping_add(1),
        Some(_) => usize::from(byte == b'\n'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_found_at_any_position() {
        let matches = |text: &[u8]| {
            let matched = text
                .iter()
                .fold(0, |matched, byte| advance_match(matched, *byte));
            matched == UNFILTERED.len()
        };
        assert!(matches(
            b"Name:\tSeccomp\nSeccomp:\t0\nSeccomp_filters:\t0\n"
        ));
        assert!(!matches(
            b"Name:\tSeccomp:\t0\nSeccomp:\t2\nSeccomp_filters:\t1\n"
        ));
        assert!(!matches(b""));
        let status = std::fs::read("/proc/self/status").unwrap();
        assert_eq!(may_be_filtered(), !matches(&status));
    }
}
