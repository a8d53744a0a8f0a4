//! The descriptors in the lists and sets that a call refers to in the memory of its process. Used
//! by `resolver`.

use crate::call::Direction;

/// The maximum number of descriptors that are looked at.
pub(crate) const MAX_MEMBERS: usize = 16;
/// The number of descriptors in the sets of `select`.
const SET_BITS: u64 = 1024;

/// A descriptor in a list or a set, and what is waited for.
pub(crate) type Member = (i32, Direction);

/// Reads the memory of a process: fills the whole slice, or returns false.
pub type ReadMemory<'a> = &'a mut dyn FnMut(u64, &mut [u8]) -> bool;

/// The descriptors in a list of `struct pollfd`.
pub(crate) fn polled(address: u64, count: u64, memory: ReadMemory<'_>) -> Vec<Member> {
    const ENTRY_BYTES: usize = 8;
    let count = usize::try_from(count)
        .unwrap_or(usize::MAX)
        .min(MAX_MEMBERS);
    let mut room = vec![0; count * ENTRY_BYTES];
    if !memory(address, &mut room) {
        return Vec::new();
    }
    let (entries, _) = room.as_chunks::<ENTRY_BYTES>();
    let member = |entry: &[u8; ENTRY_BYTES]| {
        let [a, b, c, d, low, high, ..] = *entry;
        let descriptor = i32::from_ne_bytes([a, b, c, d]);
        let events = i16::from_ne_bytes([low, high]);
        let reads = events & (libc::POLLIN | libc::POLLPRI | libc::POLLRDNORM) != 0;
        let waits = if reads {
            Direction::Reads
        } else {
            Direction::Writes
        };
        (descriptor, waits)
    };
    let all = entries.iter().map(member);
    all.filter(|(descriptor, _)| *descriptor >= 0).collect()
}

/// The descriptors in the first `count` bits of a set of `select`.
pub(crate) fn selected(count: u64, address: u64, memory: ReadMemory<'_>) -> Vec<Member> {
    let count = count.min(SET_BITS);
    let words = usize::try_from(count.div_ceil(64)).unwrap_or(0);
    let mut room = vec![0; words * size_of::<u64>()];
    if address == 0 || !memory(address, &mut room) {
        return Vec::new();
    }
    let (words, _) = room.as_chunks::<{ size_of::<u64>() }>();
    let is_set = |bit: &u64| {
        let word = usize::try_from(bit / 64).unwrap_or(usize::MAX);
        let word = words.get(word).map_or(0, |word| u64::from_ne_bytes(*word));
        word >> (bit % 64) & 1 == 1
    };
    let all = (0..count).filter(is_set);
    all.filter_map(|bit| Some((i32::try_from(bit).ok()?, Direction::Reads)))
        .take(MAX_MEMBERS)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_its_descriptors_without_the_switched_off_ones() {
        let mut memory = |_: u64, room: &mut [u8]| {
            let entry = |descriptor: i32, events: i16| {
                let [low, high] = events.to_ne_bytes();
                [descriptor.to_ne_bytes(), [low, high, 0, 0]].concat()
            };
            let all = [
                entry(5, libc::POLLIN),
                entry(-1, libc::POLLIN),
                entry(9, libc::POLLOUT),
            ];
            room.copy_from_slice(&all.concat());
            true
        };
        let members = [(5, Direction::Reads), (9, Direction::Writes)];
        assert_eq!(polled(64, 3, &mut memory), members);
        assert!(polled(64, 3, &mut |_, _| false).is_empty());
    }

    #[test]
    fn a_set_has_the_descriptors_whose_bits_are_set_up_to_its_count() {
        let mut memory = |_: u64, room: &mut [u8]| {
            room.fill(0);
            room[0] = 0b1001;
            room[8] = 0b11;
            true
        };
        let all = |members: Vec<Member>| members.into_iter().map(|(descriptor, _)| descriptor);
        assert!(all(selected(65, 64, &mut memory)).eq([0, 3, 64]));
        assert!(all(selected(u64::MAX, 64, &mut memory)).eq([0, 3, 64, 65]));
        assert!(selected(65, 0, &mut memory).is_empty(), "no set");
        assert!(selected(65, 64, &mut |_, _| false).is_empty());
    }
}
