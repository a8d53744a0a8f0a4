//! The crashes of a process, as the handler of the crashes has recorded them.
//!
//! Used for the verdict on a process that has died. `integrations/crash` writes a marker into a
//! chunk that was reserved for it. Any other bytes are no crash.

use profiler_core::ids::ThreadId;
use profiler_core::internal::entry::{Entry, MarkerEntry};
use profiler_core::internal::payload::{FieldValue, PayloadReader};
use profiler_core::internal::reader::{
    ByteSource, ChunkBuffer, Definitions, PoolReader, ReadError, Snapshot, ThreadInfo,
};
use profiler_core::time::Timestamp;

/// The name of the marker, and of the type of its payload.
const CRASH: &str = "Crash";
/// The longest text that is read, in characters.
const LONGEST_TEXT: usize = 64;

/// A crash of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashInfo {
    /// When it happened.
    pub at: Timestamp,
    /// The name of the thread that crashed; empty if it is not known.
    pub thread: String,
    /// The name of the signal.
    pub signal: String,
    /// What the signal reports.
    pub reason: String,
    /// The address that the fault is about; empty if there is none.
    pub address: String,
}

impl CrashInfo {
    /// The crashes of the session, the earliest first. Costs the directory, and a snapshot and a
    /// chunk if there are any.
    ///
    /// # Errors
    /// When the source can no longer be read.
    pub fn all<S: ByteSource>(reader: &PoolReader<S>) -> Result<Vec<Self>, ReadError> {
        let mut all = Vec::new();
        if !reader.has_crash()? {
            return Ok(all);
        }
        let snapshot = reader.snapshot()?;
        let rows = snapshot.threads.iter().filter(|row| row.is_of_crash());
        for chunk in rows.flat_map(|row| &row.chunks) {
            let mut buffer = ChunkBuffer::default();
            let Some(entries) = reader.read_chunk(chunk, &mut buffer)? else {
                continue;
            };
            all.extend(entries.filter_map(|entry| Self::of(&entry, &snapshot)));
        }
        all.sort_by_key(|crash| crash.at);
        Ok(all)
    }

    fn of(entry: &Entry<'_>, snapshot: &Snapshot) -> Option<Self> {
        let Entry::Marker(marker) = entry else {
            return None;
        };
        let mut texts = texts(marker, &snapshot.definitions)?;
        Some(Self {
            at: marker.timing.last(),
            thread: thread_name(marker.foreign?, snapshot),
            signal: texts.next()?,
            reason: texts.next()?,
            address: texts.next()?,
        })
    }
}

/// The name of the latest thread that had this number.
fn thread_name(tid: ThreadId, snapshot: &Snapshot) -> String {
    let name = |row: &ThreadInfo| match row.is_main {
        true => "main".to_owned(),
        false => row.name.clone(),
    };
    let mut rows = snapshot.threads.iter().rev();
    rows.find(|row| row.tid == tid)
        .map(name)
        .unwrap_or_default()
}

/// The texts of the payload, if the marker is that of a crash.
fn texts<'a>(
    marker: &MarkerEntry<'a>,
    definitions: &Definitions,
) -> Option<impl Iterator<Item = String> + use<'a>> {
    let site = definitions.site(marker.site)?;
    let kind = definitions.marker_type(site.marker_type)?;
    let is_crash = site.name == CRASH && kind.schema.name == CRASH;
    let text = |value| match value {
        Ok(FieldValue::Str(text)) => Some(text.chars().take(LONGEST_TEXT).collect()),
        _ => None,
    };
    is_crash.then(|| PayloadReader::new(marker.payload).map_while(text))
}
