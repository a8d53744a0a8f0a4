//! Random changes of files that a test reads while they change.
//!
//! Used by the tests of pools that contain any bytes.

/// Pseudorandom changes of a pool, of 12 bytes each: the same in every run, and different for every
/// number. Their words are small or large, because some of the high bytes are zero.
#[must_use]
pub fn random_changes(number: u64, count: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    let mut change = || {
        let mut bytes: [u8; 12] = std::array::from_fn(|_| next());
        let kept = 4 + usize::from(next() % 9);
        bytes[kept..].fill(0);
        bytes
    };
    (0..count).flat_map(|_| change()).collect()
}
