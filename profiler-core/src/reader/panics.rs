//! Reads the latest panics of a process.
//!
//! Used for the verdict on a process that has died. The table is written as drawn in
//! `pool::live::panics`. A row counts if it is complete, belongs to the running session, and has
//! valid texts; any other bytes are no panic.

use std::io;

use super::ReadError;
use super::snapshot::PoolReader;
use super::source::{ByteSource, high, low, word};
use super::{ChunkBuffer, Snapshot, ThreadInfo, read_header};
use crate::ids::ThreadId;
use crate::pool::layout::{
    Extent, MAX_PANIC_FILE_BYTES, MAX_PANIC_MESSAGE_BYTES, MAX_PANIC_THREAD_BYTES, MAX_PANICS,
    PANIC_TABLE_BYTES, Region,
};
use crate::pool::live::panics::{
    ENDS_PROCESS, FLAGS_SHIFT, HEAD_WORDS, OF_MAIN_THREAD, ROW_WORDS, word as at,
};
use crate::time::Timestamp;

const TABLE: usize = PANIC_TABLE_BYTES as usize;

/// A panic of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PanicInfo {
    /// When it began.
    pub at: Timestamp,
    /// When the panic hook returned; `None` if the hook ran to the end of the process.
    pub hook_returned: Option<Timestamp>,
    /// The thread that panicked.
    pub tid: ThreadId,
    /// Whether it is the process's main thread.
    pub is_main: bool,
    /// Whether the process cannot survive the panic, as the process itself has noted.
    pub ends_process: bool,
    /// The name of the thread; empty if it has none.
    pub thread: String,
    /// The source file.
    pub file: String,
    /// The line in the file.
    pub line: u32,
    /// The column in the line.
    pub column: u32,
    /// The message, cut to [`MAX_PANIC_MESSAGE_BYTES`].
    pub message: String,
}

impl PanicInfo {
    fn parse(row: &[u8], epoch: u64) -> Option<Self> {
        let version = word(row, at::VERSION);
        if version == 0 || version & 1 == 1 || word(row, at::EPOCH) != epoch {
            return None;
        }
        let lengths = word(row, at::LENGTHS);
        let length = |shift: u32| usize::try_from(lengths >> shift & 0xffff).unwrap_or(0);
        let mut texts = row.get(at::TEXTS * 8..)?;
        let file = take_text(&mut texts, length(0), MAX_PANIC_FILE_BYTES)?;
        let thread = take_text(&mut texts, length(16), MAX_PANIC_THREAD_BYTES)?;
        let message = take_text(&mut texts, length(32), MAX_PANIC_MESSAGE_BYTES)?;
        let flags = lengths >> FLAGS_SHIFT;
        let returned = word(row, at::HOOK_RETURNED);
        Some(Self {
            at: Timestamp::from_raw(word(row, at::AT)),
            hook_returned: (returned != 0).then(|| Timestamp::from_raw(returned)),
            tid: ThreadId::new(word(row, at::THREAD)),
            is_main: flags & OF_MAIN_THREAD != 0,
            ends_process: flags & ENDS_PROCESS != 0,
            thread,
            file,
            line: low(word(row, at::PLACE)),
            column: high(word(row, at::PLACE)),
            message,
        })
    }
}

/// Takes a text of `len` bytes from the front; `None` if it is longer than `most` or not UTF-8.
fn take_text(bytes: &mut &[u8], len: usize, most: usize) -> Option<String> {
    let (text, rest) = bytes.split_at_checked(len).filter(|_| len <= most)?;
    *bytes = rest;
    std::str::from_utf8(text).ok().map(str::to_owned)
}

impl<S: ByteSource> PoolReader<S> {
    /// The latest panics of the session, at most [`MAX_PANICS`], in the order of their time. Costs
    /// a few pages, however large the pool is.
    ///
    /// # Errors
    /// When the source can no longer be read.
    pub fn panics(&self) -> Result<Vec<PanicInfo>, ReadError> {
        let epoch = read_header(self.source())?.epoch;
        let table = self.header().layout.region(Region::Panics);
        let before = self.read_panic_table(table)?;
        crate::sync::full_fence();
        let found = self.read_panic_table(table)?;
        crate::sync::full_fence();
        let after = self.read_panic_table(table)?;
        let all = rows(&before).zip(rows(&found)).zip(rows(&after));
        // A row whose version is the same before and after was not written in between.
        let version = |row: &[u8]| word(row, at::VERSION);
        let settled = all.filter(|((before, _), after)| version(before) == version(after));
        let panics = settled.filter_map(|((_, row), _)| PanicInfo::parse(row, epoch));
        let mut panics: Vec<PanicInfo> = panics.filter(|_| epoch != 0).collect();
        panics.sort_by_key(|panic| panic.at);
        Ok(panics)
    }

    fn read_panic_table(&self, table: Extent) -> io::Result<[u8; TABLE]> {
        let mut bytes = [0; TABLE];
        self.source().read_at(&mut bytes, table.offset)?;
        Ok(bytes)
    }

    /// Whether a thread that has panicked has recorded nothing since, and has not ended. Reads one
    /// chunk.
    pub fn is_latest_of_its_thread(&self, panic: &PanicInfo, snapshot: &Snapshot) -> bool {
        let since = panic.hook_returned.unwrap_or(panic.at);
        let is_its = |thread: &&ThreadInfo| thread.tid == panic.tid && thread.registered <= since;
        let Some(thread) = snapshot.threads.iter().find(is_its) else {
            return false;
        };
        let recorded_nothing = thread.committed() == 0;
        let is_quiet = || {
            let last = self.last_entry_of(thread, &mut ChunkBuffer::default());
            last.is_some_and(|last| last <= since)
        };
        thread.ended.is_none() && (recorded_nothing || is_quiet())
    }
}

fn rows(table: &[u8; TABLE]) -> impl Iterator<Item = &[u8]> {
    let rows = table.get(HEAD_WORDS * 8..).unwrap_or_default();
    rows.chunks_exact(ROW_WORDS * 8).take(MAX_PANICS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row with a panic of epoch 3 whose texts have these lengths.
    fn row(version: u64, lengths: u64, texts: &[u8]) -> Vec<u8> {
        let words = [version, 3, 10, 0, 42, 7 | (5 << 32), lengths, 0];
        let mut row: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        row.extend(texts);
        row.resize(ROW_WORDS * 8, 0);
        row
    }

    const LENGTHS: u64 = 4 | (1 << 16) | (3 << 32) | (1 << FLAGS_SHIFT);
    const TEXTS: &[u8] = b"a.rswbad";

    #[test]
    fn a_complete_row_is_a_panic() {
        let panic = PanicInfo::parse(&row(2, LENGTHS, TEXTS), 3).unwrap();
        assert_eq!(
            (panic.file.as_str(), panic.line, panic.column),
            ("a.rs", 7, 5)
        );
        assert_eq!(
            (panic.thread.as_str(), panic.message.as_str()),
            ("w", "bad")
        );
        assert_eq!((panic.hook_returned, panic.is_main), (None, true));
        assert!(!panic.ends_process);
    }

    #[test]
    fn a_torn_row_and_one_of_another_session_are_no_panics() {
        for version in [0, 1, 3] {
            assert_eq!(PanicInfo::parse(&row(version, LENGTHS, TEXTS), 3), None);
        }
        assert_eq!(PanicInfo::parse(&row(2, LENGTHS, TEXTS), 4), None);
    }

    #[test]
    fn invalid_texts_are_no_panic() {
        assert_eq!(PanicInfo::parse(&row(2, LENGTHS, b"a.r\xffwbad"), 3), None);
        for shift in [0, 16, 32] {
            let lengths = LENGTHS | (0xffff << shift);
            assert_eq!(PanicInfo::parse(&row(2, lengths, TEXTS), 3), None);
        }
        assert_eq!(PanicInfo::parse(&row(2, LENGTHS, TEXTS)[..40], 3), None);
    }
}
