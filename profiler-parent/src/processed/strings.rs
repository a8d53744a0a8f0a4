//! The strings of a profile, without duplicates, with a bound on their memory.
//!
//! Labels are added first, then names of functions; both have their own part of the memory. Texts
//! of markers, which may all be different, get the remaining memory. Every process has a share of
//! the memory for labels, for names of generated code and for texts of markers, because processes
//! choose these texts. Invariant:
//! a string that does not fit is shown as [`OTHER`] and counted.

use std::io::Write;

use profiler_gecko::model::TextTable;
use profiler_json::{JsonWriter, StringId, StringTable};

use super::quota::Quota;

/// Limit on the bytes of labels.
const LABEL_BYTES: usize = 2 << 20;
/// Limit on the bytes of labels and names of code.
const CODE_BYTES: usize = LABEL_BYTES + (8 << 20);
/// Limit on the bytes of all texts: 150,000 different texts of 80 bytes, with their index.
pub(super) const ALL_BYTES: usize = 15 << 20;
/// The text that replaces texts that do not fit.
pub(super) const OTHER: &str = "(too many different texts)";

/// The table of strings.
#[derive(Debug)]
pub(super) struct ProfileStrings {
    table: StringTable,
    room: StringRoom,
    left_out: u64,
}

/// The kind of strings that are being added, with its limit.
#[derive(Clone, Copy, Debug)]
enum StringRoom {
    Labels(Quota),
    Code,
    Generated(Quota),
    All(Quota),
}

impl ProfileStrings {
    /// Creates an empty table for the labels of this number of processes.
    pub(super) fn new(processes: usize) -> Self {
        let room = StringRoom::Labels(Quota::new(0, LABEL_BYTES, processes));
        Self {
            table: StringTable::default(),
            room,
            left_out: 0,
        }
    }

    /// Begins the next process.
    pub(super) fn begin_process(&mut self, is_root: bool) {
        let used = self.table.bytes();
        match &mut self.room {
            StringRoom::Labels(quota) | StringRoom::Generated(quota) | StringRoom::All(quota) => {
                quota.begin(used, is_root);
            }
            StringRoom::Code => {}
        }
    }

    /// Begins the names of the code that this number of processes generate. They get half of the
    /// memory that is left for names of code, so that code without names can be shown.
    pub(super) fn begin_generated(&mut self, processes: usize) {
        let used = self.table.bytes();
        let most = used.saturating_add(CODE_BYTES.saturating_sub(used) / 2);
        self.room = StringRoom::Generated(Quota::new(used, most, processes));
    }

    /// Ends the labels, or the names of generated code: names of other code follow.
    pub(super) fn begin_code(&mut self) {
        self.room = StringRoom::Code;
    }

    /// Ends the names of code: texts of this number of processes follow.
    pub(super) fn code_is_named(&mut self, processes: usize) {
        self.room = StringRoom::All(Quota::new(self.table.bytes(), ALL_BYTES, processes));
    }

    /// Number of times that a text did not fit.
    pub(super) const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Writes the table as an array.
    pub(super) fn write_json<W: Write>(&self, out: &mut JsonWriter<W>) {
        self.table.write_json(out);
    }
}

impl TextTable for ProfileStrings {
    fn intern(&mut self, text: &str) -> StringId {
        if let Some(known) = self.table.known(text) {
            return known;
        }
        let room = match &self.room {
            StringRoom::Labels(quota) | StringRoom::Generated(quota) | StringRoom::All(quota) => {
                quota.limit()
            }
            StringRoom::Code => CODE_BYTES,
        };
        if self.table.bytes().saturating_add(text.len()) <= room {
            return self.table.intern(text);
        }
        self.left_out += 1;
        self.table.intern(OTHER)
    }

    /// Adds a text of the profiler itself, which always fits.
    fn own(&mut self, text: &str) -> StringId {
        self.table.intern(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_texts_that_do_not_fit_are_counted() {
        let mut texts = ProfileStrings::new(1);
        let early = texts.intern("early");
        for kind in 0..3 {
            for number in 0..400_000 {
                texts.intern(&format!("{kind} a name as long as some {number}"));
            }
            let before = texts.left_out();
            if kind == 0 {
                texts.begin_code()
            } else {
                texts.code_is_named(1)
            }
            texts.intern(&format!(
                "{kind} is over, which is longer than all of those"
            ));
            assert_eq!(
                texts.left_out(),
                before + u64::from(kind == 2),
                "each kind has its own limit"
            );
        }
        // The index doubles its size in one step.
        assert!(
            texts.table.bytes() <= ALL_BYTES * 3 / 2,
            "{}",
            texts.table.bytes()
        );
        let kept = texts.table.len() as u64 - 2;
        assert_eq!(kept + texts.left_out(), 1_200_003);
        assert_eq!(texts.intern("early"), early, "a known text is still found");
        assert_eq!(
            texts.intern("late, and longer than all of those before"),
            texts.own(OTHER)
        );
        let own = texts.own("ours");
        assert_ne!(own, texts.own(OTHER));
    }

    #[test]
    fn a_process_with_many_texts_leaves_room_for_others() {
        let mut texts = ProfileStrings::new(8);
        for kind in ["labels", "generated code", "markers"] {
            for process in 0..8 {
                texts.begin_process(false);
                let count = if process == 0 { 400_000 } else { 500 };
                let before = texts.left_out();
                for number in 0..count {
                    texts.intern(&format!("{kind} of {process}: {number}"));
                }
                assert_eq!(
                    texts.left_out() > before,
                    process == 0,
                    "{kind} of {process}"
                );
            }
            texts.begin_code();
            match kind {
                "labels" => texts.begin_generated(8),
                _ => texts.code_is_named(8),
            }
        }
    }

    #[test]
    fn names_of_generated_code_leave_room_for_code_without_names() {
        let mut texts = ProfileStrings::new(1);
        texts.begin_code();
        texts.begin_generated(1);
        texts.begin_process(false);
        for number in 0..400_000 {
            texts.intern(&format!("generated {number}"));
        }
        let before = texts.left_out();
        assert!(before > 0);
        texts.begin_code();
        for number in 0..10_000 {
            texts.intern(&format!("{number:#x}"));
        }
        assert_eq!(texts.left_out(), before);
    }
}
