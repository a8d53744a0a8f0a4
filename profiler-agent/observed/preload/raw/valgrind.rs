//! Whether valgrind runs this process.
//!
//! Used at the start. Valgrind runs a program on a processor of its own: the timers would measure
//! that processor, the stacks would not be those of the program, memcheck would report our reads of
//! memory that the program has not written, and valgrind ends a program that gets a signal while a
//! large frame of its stack was never written. So the process is not recorded. The question is a
//! sequence of instructions that do nothing elsewhere (`valgrind.h`, a stable interface).

/// `VG_USERREQ__RUNNING_ON_VALGRIND`: the depth of valgrinds.
const RUNNING_ON_VALGRIND: usize = 0x1001;

/// Whether valgrind runs this process.
pub(crate) fn runs_this_process() -> bool {
    request(RUNNING_ON_VALGRIND) != 0
}

#[cfg(target_arch = "x86_64")]
fn request(number: usize) -> usize {
    let words = [number, 0, 0, 0, 0, 0];
    let answer;
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
            inout("rdx") 0_usize => answer,
            options(nostack, readonly)
        );
    }
    answer
}

#[cfg(target_arch = "aarch64")]
fn request(number: usize) -> usize {
    let words = [number, 0, 0, 0, 0, 0];
    let answer;
    // SAFETY: the rotations of `x12` are together a full turn, and the last instruction changes
    // nothing. Valgrind reads the words and changes `x3`.
    unsafe {
        core::arch::asm!(
            "ror x12, x12, #3",
            "ror x12, x12, #13",
            "ror x12, x12, #51",
            "ror x12, x12, #61",
            "orr x10, x10, x10",
            inout("x3") 0_usize => answer,
            in("x4") &raw const words,
            options(nostack, readonly)
        );
    }
    answer
}
