//! Stacks: lists of frames, from the outermost to the innermost.
//!
//! Written by `sampler` and by markers and allocations that request their stack; read by the
//! profile writers. A frame is one word and needs only the pool's definitions to be interpreted: an
//! address is relative to its module, so it stays correct after the module is unloaded and another
//! takes its place.
//!
//! ```text
//! frame    bit  63     0: code; bit 62: 0, bits 39…61 definition of the module,
//!                                          bits 0…38 address relative to the module
//!                      0: code; bit 62: 1, bits 0…61 an address in no known module
//!                      1: label; bits 0…31 its definition
//! stack    word 0      bits 0…15 number of frames, bit 16 cut: frames further out are missing
//!          word 1…     frames
//! ```
//!
//! Addresses are as observed: for the innermost frame of a sample the next instruction, for all
//! others the return address.

use super::{DamagedEntry, Words};
use crate::ids::DefinitionId;
pub use crate::sample_types::{Frame, MAX_FRAMES};

const LABEL: u64 = 1 << 63;
const LABEL_MASK: u64 = 0xffff_ffff;
const UNKNOWN: u64 = 1 << 62;
const MODULE_SHIFT: u32 = 39;
const RELATIVE_MASK: u64 = (1 << MODULE_SHIFT) - 1;
const COUNT_MASK: u64 = 0xffff;
const CUT: u64 = 1 << 16;

impl Frame {
    /// The frame with its address plus one. Readers treat the innermost frame of a marker as a
    /// return address, and subtract one to find the call.
    #[cfg_attr(profiler_portable, allow(dead_code))] // no crashes on these systems
    pub(crate) const fn as_return_address(self) -> Self {
        match self {
            Self::Code(module, relative) => Self::Code(module, relative.saturating_add(1)),
            Self::Unknown(address) => Self::Unknown(address.saturating_add(1)),
            Self::Label(_) => self,
        }
    }

    /// Encodes the frame as a word. A module whose number or offset exceeds the word's fields
    /// becomes unknown code.
    pub const fn encode(self) -> u64 {
        match self {
            Self::Label(id) => LABEL | id.get() as u64,
            Self::Code(module, relative)
                if relative <= RELATIVE_MASK
                    && (module.get() as u64) < 1 << (62 - MODULE_SHIFT) =>
            {
                ((module.get() as u64) << MODULE_SHIFT) | relative
            }
            Self::Code(_, address) | Self::Unknown(address) => UNKNOWN | (address & (UNKNOWN - 1)),
        }
    }

    /// Decodes a word; every word is a frame.
    pub fn decode(word: u64) -> Self {
        let id = |number| DefinitionId::new(u32::try_from(number).unwrap_or(0));
        if word & LABEL != 0 {
            Self::Label(id(word & LABEL_MASK))
        } else if word & UNKNOWN != 0 {
            Self::Unknown(word & (UNKNOWN - 1))
        } else {
            Self::Code(id(word >> MODULE_SHIFT), word & RELATIVE_MASK)
        }
    }
}

/// The frames of a stack, outermost first, in the bytes of a chunk's copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack<'a> {
    frames: &'a [u8],
    cut: bool,
}

impl<'a> Stack<'a> {
    /// No stack.
    pub const EMPTY: Self = Self {
        frames: &[],
        cut: false,
    };

    /// Splits `bytes` into the stack at its start and the remaining bytes.
    pub(super) fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), DamagedEntry> {
        let mut words = Words { bytes };
        let head = words.next("stack")?;
        let len = usize::try_from(head & COUNT_MASK).unwrap_or(0) * 8;
        let (frames, rest) = words
            .bytes
            .split_at_checked(len)
            .ok_or(DamagedEntry("stack length"))?;
        Ok((
            Self {
                frames,
                cut: head & CUT != 0,
            },
            rest,
        ))
    }

    /// Its frames, outermost first.
    pub fn frames(self) -> impl ExactSizeIterator<Item = Frame> + DoubleEndedIterator + 'a {
        self.raw().map(Frame::decode)
    }

    /// Its frames as [`Frame::encode`] encodes them, outermost first.
    pub fn words(self) -> impl ExactSizeIterator<Item = u64> + 'a {
        let encoded = |word| {
            let is_label = word & LABEL != 0;
            // Only a damaged label has other bits.
            if is_label {
                word & (LABEL | LABEL_MASK)
            } else {
                word
            }
        };
        self.raw().map(encoded)
    }

    fn raw(self) -> impl ExactSizeIterator<Item = u64> + DoubleEndedIterator + 'a {
        let word = |bytes: &[u8]| {
            bytes
                .first_chunk::<8>()
                .map_or(0, |word| u64::from_ne_bytes(*word))
        };
        self.frames.chunks_exact(8).map(word)
    }

    /// How many frames it has.
    pub const fn len(self) -> usize {
        self.frames.len() / 8
    }

    /// Whether it has none.
    pub const fn is_empty(self) -> bool {
        self.frames.is_empty()
    }

    /// Whether frames further out are missing.
    pub const fn is_cut(self) -> bool {
        self.cut
    }
}

/// Bytes that a stack of `frames` frames takes.
pub(crate) const fn encoded_len(frames: usize) -> usize {
    8 + frames * 8
}

/// Writes a stack, outermost frame first, to the start of `room`; returns the number of bytes, or
/// `None` if there is no room. Frames beyond [`MAX_FRAMES`] are cut at the inner end; callers cut
/// at the outer end before.
pub(crate) fn write(
    room: &mut [u8],
    frames: impl ExactSizeIterator<Item = Frame>,
    cut: bool,
) -> Option<usize> {
    let count = frames.len().min(MAX_FRAMES);
    let len = encoded_len(count);
    let (head, rest) = room.get_mut(..len)?.split_first_chunk_mut::<8>()?;
    *head = (count as u64 | if cut { CUT } else { 0 }).to_ne_bytes();
    for (place, frame) in rest.chunks_exact_mut(8).zip(frames) {
        place.copy_from_slice(&frame.encode().to_ne_bytes());
    }
    Some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: [Frame; 4] = [
        Frame::Code(DefinitionId::new(0x7f_ffff), RELATIVE_MASK),
        Frame::Label(DefinitionId::new(u32::MAX)),
        Frame::Unknown(0x7fff_ffff_ffff),
        Frame::Code(DefinitionId::new(1), 0),
    ];

    #[test]
    fn a_stack_survives_and_leaves_the_bytes_after_it() {
        let mut room = [7; 64];
        let len = write(&mut room, FRAMES.into_iter(), true).unwrap();
        let (stack, rest) = Stack::split(&room).unwrap();
        assert_eq!((len, rest.len()), (40, 24));
        assert!(stack.is_cut());
        assert_eq!(stack.frames().collect::<Vec<_>>(), FRAMES);
    }

    #[test]
    fn the_words_of_a_stack_are_its_encoded_frames_also_if_they_are_damaged() {
        let labels = [LABEL, LABEL | UNKNOWN | 7, LABEL | 7 << 40 | 9];
        let words = [
            0,
            1,
            u64::MAX,
            u64::MAX >> 1,
            UNKNOWN - 1,
            RELATIVE_MASK + 1,
        ];
        let words: Vec<u64> = words.into_iter().chain(labels).collect();
        let head = [words.len() as u64];
        let bytes = head
            .iter()
            .chain(&words)
            .flat_map(|word| word.to_ne_bytes());
        let bytes: Vec<u8> = bytes.collect();
        let (stack, _) = Stack::split(&bytes).unwrap();
        let encoded: Vec<_> = stack.frames().map(Frame::encode).collect();
        assert_eq!(stack.words().collect::<Vec<_>>(), encoded);
        assert_ne!(encoded, words, "damaged labels have one form");
    }

    #[test]
    fn a_stack_without_room_is_not_written() {
        assert_eq!(write(&mut [0; 39], FRAMES.into_iter(), false), None);
    }

    #[test]
    fn a_stack_longer_than_its_bytes_is_damage() {
        let mut room = [0; 40];
        write(&mut room, FRAMES.into_iter(), false).unwrap();
        assert!(Stack::split(&room[..39]).is_err());
        assert!(Stack::split(&[]).is_err());
    }

    #[test]
    fn a_module_or_offset_beyond_a_frame_is_an_unknown_address() {
        let far = Frame::Code(DefinitionId::new(1), 1 << 40);
        assert_eq!(Frame::decode(far.encode()), Frame::Unknown(1 << 40));
    }
}
