//! Notes the latest panics in the pool, where the parent finds them when the process has died.
//!
//! Called by `integrations/panic` from the panic hook. The marker of a panic is an entry like any
//! other; the note here is what a verdict needs, at a fixed place and of a fixed size. A note is
//! written while the session is paused, and while the thread is within an entry, where a marker
//! would be dropped.
//!
//! Invariants: nothing here waits for a lock, runs code of the host, or panics: a panic in a panic
//! hook aborts the process. Without a session nothing is noted, and in a forked child neither,
//! until it begins anew.

use crate::ids::ThreadId;
use crate::manager::ChunkManager;
use crate::pool::header::cut;
use crate::pool::layout::{
    MAX_PANIC_FILE_BYTES, MAX_PANIC_MESSAGE_BYTES, MAX_PANIC_THREAD_BYTES, PANIC_TEXT_WORDS,
};
use crate::pool::live::panics::{
    ENDS_PROCESS, FLAGS_SHIFT, OF_MAIN_THREAD, PanicWords, WrittenRow,
};
use crate::record::{local, session_state, thread_names};
use crate::sys;
use crate::time::Timestamp;

/// Bytes of the texts of a row.
const TEXT_BYTES: usize = PANIC_TEXT_WORDS * 8;
const _: () =
    assert!(MAX_PANIC_FILE_BYTES + MAX_PANIC_THREAD_BYTES + MAX_PANIC_MESSAGE_BYTES <= TEXT_BYTES);
// A length has 16 bits.
const _: () = assert!(TEXT_BYTES < 1 << 16);

/// What is noted of a panic.
#[derive(Clone, Copy, Debug)]
pub struct PanicFacts<'a> {
    /// When it began.
    pub at: Timestamp,
    /// Its message; a long one is cut.
    pub message: &'a str,
    /// The source file; of a long path the end is kept.
    pub file: &'a str,
    /// The line in the file.
    pub line: u32,
    /// The column in the line.
    pub column: u32,
    /// The name of the thread; empty if it has none.
    pub thread: &'a str,
    /// Whether the process cannot survive the panic.
    pub ends_process: bool,
}

/// A panic that was noted in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotedPanic {
    row: WrittenRow,
    /// The tag of the pool.
    tag: u64,
}

/// Notes a panic of the calling thread. `None` without a session, in a forked child that has not
/// begun anew, and if the pool has no room. Costs some tens of nanoseconds, and a page of the pool
/// at the first panic.
pub fn note(facts: &PanicFacts<'_>) -> Option<NotedPanic> {
    let word = session_state::word();
    if word & session_state::ACTIVE == 0 {
        return None;
    }
    let thread = sys::current_thread_id();
    let is_main = thread.get() == u64::from(sys::process_id().get());
    let words = words_of(facts, session_state::epoch_of(word), thread, is_main);
    local::with_manager(|manager| {
        let row = manager.pool().panics()?.write(is_main, &words)?;
        let tag = manager.tag();
        Some(NotedPanic { row, tag })
    })
}

/// The name of the calling thread, as the profile shows it, if it has one.
pub fn thread_name() -> Option<String> {
    thread_names::own_name()
}

impl NotedPanic {
    /// Notes that the panic hook has returned, so that the process goes on. `None` if the note is
    /// no longer there.
    pub fn hook_returned(self) -> Option<Self> {
        let now = Timestamp::now();
        let row =
            self.with_pool(|manager| manager.pool().panics()?.hook_returned(self.row, now))?;
        Some(Self { row, ..self })
    }

    /// Notes that the process cannot survive the panic: the unwinding met a function that it may
    /// not leave, for which the hook runs once more. `None` if the note is no longer there.
    pub fn ends_process(self) -> Option<Self> {
        let row = self.with_pool(|manager| manager.pool().panics()?.ends_process(self.row))?;
        Some(Self { row, ..self })
    }

    /// Calls `body` if a session records into the pool of the note.
    fn with_pool<T>(self, body: impl FnOnce(&ChunkManager) -> Option<T>) -> Option<T> {
        if !session_state::is_active() {
            return None;
        }
        local::with_manager(|manager| {
            if manager.tag() == self.tag {
                body(manager)
            } else {
                None
            }
        })
    }
}

fn words_of(facts: &PanicFacts<'_>, epoch: u64, thread: ThreadId, is_main: bool) -> PanicWords {
    let file = end_of(facts.file, MAX_PANIC_FILE_BYTES);
    let name = cut(facts.thread, MAX_PANIC_THREAD_BYTES);
    let message = cut(facts.message, MAX_PANIC_MESSAGE_BYTES);
    let flags = if is_main { OF_MAIN_THREAD } else { 0 }
        | if facts.ends_process { ENDS_PROCESS } else { 0 };
    let length = |text: &str| text.len() as u64;
    PanicWords {
        epoch,
        at: facts.at,
        thread,
        place: u64::from(facts.line) | (u64::from(facts.column) << 32),
        lengths: length(file)
            | (length(name) << 16)
            | (length(message) << 32)
            | (flags << FLAGS_SHIFT),
        texts: packed([file, name, message]),
    }
}

/// The texts one after the other, as words.
fn packed(texts: [&str; 3]) -> [u64; PANIC_TEXT_WORDS] {
    let mut words = [0; PANIC_TEXT_WORDS];
    let mut bytes = texts.into_iter().flat_map(str::bytes);
    for word in &mut words {
        let mut raw = [0; 8];
        raw.iter_mut()
            .zip(&mut bytes)
            .for_each(|(place, byte)| *place = byte);
        *word = u64::from_ne_bytes(raw);
    }
    words
}

/// The end of a text, from a character boundary on, of at most `most` bytes.
fn end_of(text: &str, most: usize) -> &str {
    let mut start = text.len().saturating_sub(most);
    while !text.is_char_boundary(start) {
        start = start.saturating_add(1);
    }
    text.get(start..).unwrap_or("")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn facts(file: &str) -> PanicFacts<'_> {
        PanicFacts {
            at: Timestamp::from_raw(5),
            message: "no",
            file,
            line: 7,
            column: 9,
            thread: "worker",
            ends_process: true,
        }
    }

    #[test]
    fn of_a_long_path_the_end_is_kept() {
        assert_eq!(end_of("/a/bc", 3), "/bc");
        assert_eq!(end_of("äb", 2), "b");
        assert_eq!(end_of("äb", 3), "äb");
        let path = "x".repeat(MAX_PANIC_FILE_BYTES) + "/src/main.rs";
        let words = words_of(&facts(&path), 1, ThreadId::new(3), false);
        assert_eq!(words.lengths & 0xffff, MAX_PANIC_FILE_BYTES as u64);
    }

    #[test]
    fn texts_are_packed_without_gaps() {
        let words = packed(["main.rs", "worker", "no"]);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert!(bytes.starts_with(b"main.rsworkerno\0"));
    }

    #[test]
    fn nothing_is_noted_without_a_session() {
        let _alone = crate::session::alone_in_tests();
        assert_eq!(note(&facts("main.rs")), None);
    }
}
