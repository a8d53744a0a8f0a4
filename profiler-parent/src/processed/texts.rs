//! The texts of a profile, each once, with a bound on their memory.
//!
//! Names of functions come first and may take a part of the room, so that texts of markers, of which there may be as
//! many as markers, take what is left. Invariant: what finds no room is shown as [`OTHER`], and counted.

use std::io::Write;

use profiler_core::profile::{JsonWriter, StringId, StringTable};

/// Bytes for the names of code.
pub(super) const CODE_BYTES: usize = 8 << 20;
/// Bytes for all texts.
pub(super) const ALL_BYTES: usize = 12 << 20;
/// What is shown for texts that found no room.
pub(super) const OTHER: &str = "(too many different texts)";

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Texts {
    table: StringTable,
    has_code: bool,
    left_out: u64,
}

impl Texts {
    /// The number of a text that comes from outside.
    pub(super) fn intern(&mut self, text: &str) -> StringId {
        if let Some(known) = self.table.known(text) {
            return known;
        }
        let room = if self.has_code { ALL_BYTES } else { CODE_BYTES };
        if self.table.bytes().saturating_add(text.len()) <= room {
            return self.table.intern(text);
        }
        self.left_out += 1;
        self.table.intern(OTHER)
    }

    /// The number of a text of ours: there is always room for it.
    pub(super) fn own(&mut self, text: &str) -> StringId {
        self.table.intern(text)
    }

    /// From now on there is room for all texts.
    pub(super) fn code_is_named(&mut self) {
        self.has_code = true;
    }

    /// How many times a text found no room.
    pub(super) const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Writes the table as an array.
    pub(super) fn write_json<W: Write>(&self, out: &mut JsonWriter<W>) {
        self.table.write_json(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_without_end_take_bounded_memory_and_are_counted() {
        let mut texts = Texts::default();
        let early = texts.intern("early");
        for code in [true, false] {
            for number in 0..400_000 {
                texts.intern(&format!("{code} a name as long as some {number}"));
            }
            texts.code_is_named();
        }
        // The index doubles at once.
        assert!(texts.table.bytes() <= ALL_BYTES * 3 / 2, "{}", texts.table.bytes());
        let kept = texts.table.len() as u64 - 2;
        assert_eq!(kept + texts.left_out(), 800_000);
        assert_eq!(texts.intern("early"), early, "what is known stays known");
        assert_eq!(texts.intern("late"), texts.own(OTHER));
        let own = texts.own("ours");
        assert_ne!(own, texts.own(OTHER));
    }
}
