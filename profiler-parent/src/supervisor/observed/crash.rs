//! The crash of an observed program, as its handler has stored it.
//!
//! Used by `program`. The handler stores the signal before it publishes the stack, so the two may
//! be read in different passes. The values come from the process and are not trusted: the texts are
//! created here, and other signals are ignored.

use std::fmt::Write;

use profiler_core::internal::crash_note::CrashMarker;
use profiler_core::internal::observed::ObservedStack;
use profiler_core::time::Timestamp;
use profiler_observed::file::ObservedHeader;
use profiler_observed::layout::{IS_CUT, SampleHead};
use profiler_sys::CrashCause;

/// The signals of crashes.
const SIGNALS: [i32; 6] = [
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
];

/// The bytes that a handler has written in place of a stack.
pub(super) fn words_to_bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// The stack of a crash, which was read from the ring.
#[derive(Debug)]
pub(super) struct CrashStack {
    head: SampleHead,
    words: Vec<u64>,
}

impl CrashStack {
    /// Keeps what was read.
    pub(super) fn new(head: &SampleHead, words: &[u64]) -> Self {
        Self {
            head: *head,
            words: words.to_vec(),
        }
    }

    /// A crash without a stack, for a ring that was full.
    pub(super) fn missing() -> Self {
        let head = SampleHead {
            at: Timestamp::now().raw(),
            flags: IS_CUT,
            ..SampleHead::default()
        };
        Self {
            head,
            words: Vec::new(),
        }
    }

    /// The stack, for the pool.
    pub(super) fn observed(&self) -> ObservedStack<'_> {
        let head = &self.head;
        ObservedStack {
            at: Timestamp::from_raw(head.at),
            cpu_ns: 0,
            ticks: 1,
            pc: head.pc,
            sp: head.sp,
            fp: head.fp,
            lr: head.lr,
            words: &self.words,
            is_cut: head.flags & IS_CUT != 0,
        }
    }

    fn registers(&self) -> String {
        let SampleHead { pc, sp, fp, lr, .. } = self.head;
        let mut text = format!("pc={pc:#x} sp={sp:#x} fp={fp:#x}");
        if lr != 0 {
            let _ = write!(text, " lr={lr:#x}"); // writing to a `String` does not fail
        }
        text
    }
}

/// The texts of a crash.
#[derive(Debug)]
pub(super) struct CrashTexts {
    cause: CrashCause,
    stack_pointer: u64,
    address: String,
    registers: String,
}

impl CrashTexts {
    /// The texts, or `None` if the header has no crash signal.
    pub(super) fn of(header: &ObservedHeader, stack: &CrashStack) -> Option<Self> {
        let signal = i32::try_from(header.crash_signal).ok();
        let signal = signal.filter(|signal| SIGNALS.contains(signal))?;
        let cause = CrashCause::new(signal, header.crash_code, header.crash_address);
        let address = cause.address().map(|address| format!("{address:#x}"));
        Some(Self {
            cause,
            stack_pointer: stack.head.sp,
            address: address.unwrap_or_default(),
            registers: stack.registers(),
        })
    }

    /// The marker of the crash.
    pub(super) fn marker(&self) -> CrashMarker<'_> {
        CrashMarker {
            signal: self.cause.signal_name(),
            reason: self.cause.text(self.stack_pointer),
            address: &self.address,
            registers: &self.registers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(signal: u32, code: i32, address: u64) -> ObservedHeader {
        ObservedHeader {
            crash_signal: signal,
            crash_code: code,
            crash_address: address,
            ..ObservedHeader::default()
        }
    }

    #[test]
    fn a_fault_has_its_address_and_its_registers() {
        let head = SampleHead {
            pc: 1,
            sp: 0x7fff_0000,
            fp: 2,
            ..SampleHead::default()
        };
        let stack = CrashStack::new(&head, &[]);
        let texts = CrashTexts::of(&header(11, 1, 16), &stack).unwrap();
        let marker = texts.marker();
        let shown = (marker.signal, marker.reason, marker.address);
        assert_eq!(shown, ("SIGSEGV", "address not mapped", "0x10"));
        assert_eq!(marker.registers, "pc=0x1 sp=0x7fff0000 fp=0x2");
    }

    #[test]
    fn other_signals_are_ignored() {
        for signal in [0, 9, 61, u32::MAX] {
            assert!(CrashTexts::of(&header(signal, 1, 16), &CrashStack::missing()).is_none());
        }
    }
}
