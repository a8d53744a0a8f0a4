//! The session of a test, and what its pool says about panics.

use std::fs::File;

use profiler_core::internal::entry::{Entry, MarkerEntry};
use profiler_core::internal::payload::{FieldValue, PayloadReader};
use profiler_core::internal::reader::{ChunkBuffer, ChunkRead, PanicInfo, PoolReader};
use profiler_core::session::{self, SessionParams, StartOptions};

/// The running session of a test. It stops when this is dropped.
pub(crate) struct RunningSession;

impl RunningSession {
    pub(crate) fn start() -> Self {
        session::start(SessionParams::default(), StartOptions::default()).unwrap();
        Self
    }
}

impl Drop for RunningSession {
    fn drop(&mut self) {
        session::stop();
    }
}

/// A recorded marker of a panic.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) message: String,
}

fn pool() -> PoolReader<File> {
    PoolReader::open(session::pool_file().unwrap()).unwrap()
}

/// The panics that a verdict would know.
pub(crate) fn noted() -> Vec<PanicInfo> {
    pool().panics().unwrap()
}

/// The number of entries that were dropped.
pub(crate) fn dropped() -> u64 {
    pool().snapshot().unwrap().counts().dropped.total()
}

/// All recorded markers of panics.
pub(crate) fn panics() -> Vec<Seen> {
    let reader = pool();
    let snapshot = reader.snapshot().unwrap();
    let mut buffer = ChunkBuffer::default();
    let mut all = Vec::new();
    for chunk in snapshot.chunks() {
        let ChunkRead::Entries(entries) = reader.read_chunk(chunk, &mut buffer).unwrap() else {
            continue;
        };
        let markers = entries.filter_map(|entry| match entry {
            Entry::Marker(marker) => Some(marker),
            _ => None,
        });
        let is_panic = |marker: &MarkerEntry<'_>| {
            let site = snapshot.definitions.site(marker.site);
            site.is_some_and(|site| site.name == "Panic")
        };
        all.extend(markers.filter(is_panic).map(|marker| seen(&marker)));
    }
    all
}

fn seen(marker: &MarkerEntry<'_>) -> Seen {
    let first = PayloadReader::new(marker.payload).next();
    let Some(Ok(FieldValue::Str(message))) = first else {
        panic!("{first:?}");
    };
    Seen {
        message: message.to_owned(),
    }
}
