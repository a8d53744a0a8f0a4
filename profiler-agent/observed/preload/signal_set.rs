//! Sets of signals, as the kernel and the C library represent them.

/// `sigset_t` of the C library, of which the kernel uses the first word.
pub(crate) type SignalSet = [u64; 16];

/// A signal in the first word of a set.
pub(crate) const fn bit(signal: u32) -> u64 {
    1 << (signal.wrapping_sub(1) & 63)
}
