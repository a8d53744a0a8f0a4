//! Tells valgrind that what follows is no error of the program.
//!
//! Used by [`is_readable`](super::is_readable), whose system call reads memory that the program may
//! not have written yet: memcheck reports that, and its `--error-exitcode` changes the exit code of
//! the program. A request to valgrind is a sequence of instructions that do nothing elsewhere
//! (`valgrind.h`, a stable interface).

/// `VG_USERREQ__CHANGE_ERR_DISABLEMENT`: changes a number of the calling thread. Valgrind reports
/// its errors only if the number is 0.
const CHANGE_DISABLEMENT: usize = 0x1801;

/// Calls a function whose errors valgrind does not report.
pub(super) fn unreported<T>(act: impl FnOnce() -> T) -> T {
    request(1);
    let result = act();
    request(usize::MAX);
    result
}

#[cfg(target_arch = "x86_64")]
fn request(change: usize) {
    let words = [CHANGE_DISABLEMENT, change, 0, 0, 0, 0];
    // SAFETY: the rotations of `rdi` are together a full turn, and the exchange has one register.
    // Valgrind reads the words and changes `rdx`.
    unsafe {
        core::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") &raw const words,
            inout("rdx") 0_usize => _,
            options(nostack, readonly)
        );
    }
}

#[cfg(target_arch = "aarch64")]
fn request(change: usize) {
    let words = [CHANGE_DISABLEMENT, change, 0, 0, 0, 0];
    // SAFETY: the rotations of `x12` are together a full turn, and the last instruction changes
    // nothing. Valgrind reads the words and changes `x3`.
    unsafe {
        core::arch::asm!(
            "ror x12, x12, #3",
            "ror x12, x12, #13",
            "ror x12, x12, #51",
            "ror x12, x12, #61",
            "orr x10, x10, x10",
            inout("x3") 0_usize => _,
            in("x4") &raw const words,
            options(nostack, readonly)
        );
    }
}
