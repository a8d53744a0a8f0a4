//! Sets of signals, as the kernel and the C library represent them.

/// `sigset_t` of the C library, of which the kernel uses the first word.
pub(crate) type SignalSet = [u64; 16];

/// A signal in the first word of a set.
pub(crate) const fn bit(signal: u32) -> u64 {
    1 << (signal.wrapping_sub(1) & 63)
}

/// The real-time signals that the C library leaves to programs.
const REAL_TIME: u64 = !0 << 33;

/// Whether a set names this signal, and not just all signals, or all but some.
pub(crate) const fn is_meant(set: u64, signal: u32) -> bool {
    set & bit(signal) != 0 && (set & REAL_TIME).count_ones() * 2 < REAL_TIME.count_ones()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_nearly_all_signals_does_not_mean_ours() {
        assert!(is_meant(bit(61), 61) && is_meant(bit(61) | bit(34) | bit(1), 61));
        assert!(!is_meant(u64::MAX, 61) && !is_meant(!bit(11) & !bit(40), 61));
        assert!(!is_meant(0, 61) && !is_meant(bit(60), 61) && !is_meant(!bit(61), 61));
    }
}
