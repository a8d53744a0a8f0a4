//! The texts of the marker of a crash.
//!
//! Made in the handler, so its texts are static or in memory of a fixed size.

#![allow(unsafe_code)]

use std::fmt::Write;

use super::registers::all_registers;

/// The longest text of an address.
const ADDRESS_BYTES: usize = 32;
/// The longest text of the registers.
const REGISTERS_BYTES: usize = 1024;

/// What the handler knows of a crash.
#[derive(Clone, Copy, Debug)]
pub(super) struct CrashFacts {
    /// The name of the signal.
    pub(super) signal: &'static str,
    /// What the signal reports.
    pub(super) reason: &'static str,
    /// The address that the fault is about.
    pub(super) address: Option<u64>,
}

/// A text in memory of a fixed size; what does not fit is left out.
pub(super) struct FixedText<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> FixedText<N> {
    const fn new() -> Self {
        Self {
            bytes: [0; N],
            len: 0,
        }
    }

    pub(super) fn text(&self) -> &str {
        let bytes = self.bytes.get(..self.len).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl<const N: usize> Write for FixedText<N> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.len.saturating_add(text.len());
        let place = self.bytes.get_mut(self.len..end).ok_or(std::fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// The text of an address; empty if there is none.
pub(super) fn address_text(address: Option<u64>) -> FixedText<ADDRESS_BYTES> {
    let mut text = FixedText::new();
    if let Some(address) = address {
        let _ = write!(text, "{address:#x}"); // fits
    }
    text
}

/// The registers, such as `rip=0x1 rsp=0x2`.
///
/// # Safety
/// `context` has the registers that the kernel passed to a handler that still runs.
pub(super) unsafe fn registers_text(
    context: *const libc::ucontext_t,
) -> FixedText<REGISTERS_BYTES> {
    let mut text = FixedText::new();
    // SAFETY: the caller's promise.
    for (index, (name, value)) in unsafe { all_registers(context) }.into_iter().enumerate() {
        let separator = if index == 0 { "" } else { " " };
        let _ = write!(text, "{separator}{name}={value:#x}"); // fits
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_does_not_fit_is_left_out() {
        let mut text = FixedText::<4>::new();
        assert!(write!(text, "ab").is_ok() && write!(text, "cde").is_err());
        assert_eq!(text.text(), "ab");
        assert_eq!(address_text(Some(u64::MAX)).text(), "0xffffffffffffffff");
        assert_eq!(address_text(None).text(), "");
    }
}
