//! What the signal of a crash reports.
//!
//! Pure: everything that depends on the numbers of the system is here. Used by the handler of
//! `integrations/crash`, so all texts are static, and by the session for observed programs.

use libc::c_int;

/// `si_code` of a fault that the kernel reports without details.
const SI_KERNEL: c_int = 0x80;
/// `si_code` of a signal that a thread has sent with `tgkill`.
const SI_TKILL: c_int = -6;
/// `si_code` of a memory error that no instruction has met yet.
const BUS_MCEERR_AO: c_int = 5;
/// `si_code` of a mismatch of memory tags that is reported later, without an address.
const SEGV_MTEAERR: c_int = 8;
/// `si_code` of a signal that a perf event has sent.
const TRAP_PERF: c_int = 6;
/// The largest distance of a fault from the stack pointer that is taken for an overflow of the
/// stack. The stack itself is accessible, so a fault near it is one in the pages below it.
const NEAR_STACK: u64 = 64 * 1024;

/// What a signal reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashCause {
    signal: c_int,
    code: c_int,
    address: u64,
}

impl CrashCause {
    /// Of a signal with this `si_code` and `si_addr`.
    #[must_use]
    pub const fn new(signal: c_int, code: c_int, address: u64) -> Self {
        Self {
            signal,
            code,
            address,
        }
    }

    /// Whether a process or a thread has sent it, and not the kernel for a fault.
    #[must_use]
    pub const fn is_sent(self) -> bool {
        self.code <= 0
    }

    /// Whether it is a sample and not a crash.
    #[must_use]
    pub const fn is_sample(self) -> bool {
        self.signal == libc::SIGTRAP && self.code == TRAP_PERF
    }

    /// Whether the instruction that has crashed crashes again if it is executed again. Without
    /// doubt only: a fault without details may come from the delivery of another signal.
    #[must_use]
    pub const fn repeats(self) -> bool {
        match self.signal {
            libc::SIGSEGV => matches!(self.code, 1..=4),
            libc::SIGBUS => matches!(self.code, 1..=3),
            libc::SIGILL | libc::SIGFPE => !self.is_sent() && self.code != SI_KERNEL,
            _ => false,
        }
    }

    /// The address that the fault is about.
    #[must_use]
    pub const fn address(self) -> Option<u64> {
        if self.is_sent() || self.code == SI_KERNEL {
            return None;
        }
        match self.signal {
            libc::SIGSEGV if self.code == SEGV_MTEAERR => None,
            libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE => Some(self.address),
            _ => None,
        }
    }

    /// The name of the signal.
    #[must_use]
    pub const fn signal_name(self) -> &'static str {
        match self.signal {
            libc::SIGSEGV => "SIGSEGV",
            libc::SIGBUS => "SIGBUS",
            libc::SIGILL => "SIGILL",
            libc::SIGFPE => "SIGFPE",
            libc::SIGABRT => "SIGABRT",
            libc::SIGTRAP => "SIGTRAP",
            _ => "a signal",
        }
    }

    /// The cause in words, in a thread with this stack pointer.
    #[must_use]
    pub const fn text(self, stack_pointer: u64) -> &'static str {
        if self.is_sent() {
            return match (self.signal, self.code) {
                (libc::SIGABRT, SI_TKILL) => "aborted",
                (_, SI_TKILL) => "sent by the process itself",
                _ => "sent by a process",
            };
        }
        let is_near = self.address.abs_diff(stack_pointer) <= NEAR_STACK;
        match (self.signal, self.code) {
            (libc::SIGSEGV, SI_KERNEL) => "general protection fault",
            (libc::SIGSEGV, 1 | 2) if is_near => "stack overflow",
            (libc::SIGSEGV, 1) => "address not mapped",
            (libc::SIGSEGV, 2) => "access not permitted",
            (libc::SIGSEGV, 4) => "access not permitted by a protection key",
            (libc::SIGSEGV, SEGV_MTEAERR | 9) => "memory tag mismatch",
            (libc::SIGSEGV, _) => "invalid access",
            (libc::SIGBUS, 1) => "misaligned address",
            (libc::SIGBUS, 2) => "no memory behind the address",
            (libc::SIGBUS, 4 | BUS_MCEERR_AO) => "memory error",
            (libc::SIGBUS, _) => "bus error",
            (libc::SIGILL, _) => "illegal instruction",
            (libc::SIGFPE, 1) => "integer division by zero",
            (libc::SIGFPE, 2) => "integer overflow",
            (libc::SIGFPE, 3) => "floating-point division by zero",
            (libc::SIGFPE, _) => "arithmetic error",
            (libc::SIGTRAP, 2) => "trace trap",
            (libc::SIGTRAP, _) => "breakpoint",
            _ => "unknown cause",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn cause(signal: c_int, code: c_int, address: u64) -> CrashCause {
        CrashCause::new(signal, code, address)
    }

    #[test]
    fn a_fault_near_the_stack_pointer_is_an_overflow() {
        let fault = cause(libc::SIGSEGV, 2, 0x7000_0000);
        assert_eq!(fault.text(0x7000_1000), "stack overflow");
        assert_eq!(fault.text(0x7100_0000), "access not permitted");
        assert_eq!(
            cause(libc::SIGSEGV, 1, 0).text(0x7000_0000),
            "address not mapped"
        );
    }

    #[test]
    fn only_a_fault_of_an_instruction_repeats_and_has_an_address() {
        let fault = cause(libc::SIGSEGV, 1, 16);
        assert_eq!((fault.repeats(), fault.address()), (true, Some(16)));
        let sent = cause(libc::SIGSEGV, 0, 16);
        assert_eq!((sent.repeats(), sent.address()), (false, None));
        let protection = cause(libc::SIGSEGV, SI_KERNEL, 0);
        assert_eq!((protection.repeats(), protection.address()), (false, None));
        let late = cause(libc::SIGSEGV, SEGV_MTEAERR, 16);
        assert_eq!((late.repeats(), late.address()), (false, None));
        let breakpoint = cause(libc::SIGTRAP, SI_KERNEL, 16);
        assert_eq!((breakpoint.repeats(), breakpoint.address()), (false, None));
        assert!(!cause(libc::SIGBUS, BUS_MCEERR_AO, 16).repeats());
        assert!(cause(libc::SIGTRAP, TRAP_PERF, 0).is_sample());
    }
}
