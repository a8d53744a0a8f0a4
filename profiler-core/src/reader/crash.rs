//! Reads the latest crash of a process, as the handler of the crash has recorded it.
//!
//! Used for the verdict on a process that has died. The crash is a marker in the chunk that was
//! reserved for it (`marker::crash`). Any other bytes are no crash.

use super::snapshot::PoolReader;
use super::source::ByteSource;
use super::{ChunkBuffer, Definitions, ReadError, Snapshot, ThreadInfo};
use crate::entry::{Entry, MarkerEntry};
use crate::ids::ThreadId;
use crate::marker::payload::{FieldValue, PayloadReader};
use crate::sample_types::CRASH_THREAD;
use crate::time::Timestamp;

/// The name of the marker, and of the type of its payload.
const CRASH: &str = "Crash";
/// The longest text that is read.
const LONGEST_TEXT: usize = 64;

/// A crash of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashInfo {
    /// When it happened.
    pub at: Timestamp,
    /// The thread that crashed.
    pub tid: ThreadId,
    /// The name of the thread; empty if it has none.
    pub thread: String,
    /// The name of the signal.
    pub signal: String,
    /// What the signal reports.
    pub reason: String,
    /// The address that the fault is about; empty if there is none.
    pub address: String,
}

impl<S: ByteSource> PoolReader<S> {
    /// The latest crash of the session. Costs the directory, and a snapshot and a chunk if there is
    /// a chunk for it.
    ///
    /// # Errors
    /// When the source can no longer be read.
    pub fn crash(&self) -> Result<Option<CrashInfo>, ReadError> {
        if !self.has_entries_of(CRASH_THREAD)? {
            return Ok(None);
        }
        let snapshot = self.snapshot()?;
        let mut latest = None;
        let rows = snapshot.threads.iter();
        let rows = rows.filter(|thread| thread.name == CRASH_THREAD);
        for chunk in rows.flat_map(|thread| &thread.chunks) {
            let mut buffer = ChunkBuffer::default();
            let Some(entries) = self.read_chunk(chunk, &mut buffer)? else {
                continue;
            };
            latest = entries
                .filter_map(|entry| CrashInfo::of(&entry, &snapshot))
                .chain(latest)
                .max_by_key(|crash| crash.at);
        }
        Ok(latest)
    }
}

impl CrashInfo {
    fn of(entry: &Entry<'_>, snapshot: &Snapshot) -> Option<Self> {
        let Entry::Marker(marker) = entry else {
            return None;
        };
        let tid = marker.foreign?;
        let mut texts = texts(marker, &snapshot.definitions)?;
        let name = |row: &ThreadInfo| match row.is_main {
            true => "main".to_owned(),
            false => row.name.clone(),
        };
        let thread = snapshot.threads.iter().rev().find(|row| row.tid == tid);
        Some(Self {
            at: marker.timing.last(),
            tid,
            thread: thread.map(name).unwrap_or_default(),
            signal: texts.next()?,
            reason: texts.next()?,
            address: texts.next()?,
        })
    }
}

/// The texts of the payload, if the marker is that of a crash.
fn texts<'a>(
    marker: &MarkerEntry<'a>,
    definitions: &Definitions,
) -> Option<impl Iterator<Item = String> + 'a> {
    let site = definitions.site(marker.site)?;
    let is_crash =
        site.name == CRASH && definitions.marker_type(site.marker_type)?.schema.name == CRASH;
    let text = |value| match value {
        Ok(FieldValue::Str(text)) => Some(text.chars().take(LONGEST_TEXT).collect()),
        _ => None,
    };
    is_crash.then(|| PayloadReader::new(marker.payload).map_while(text))
}
