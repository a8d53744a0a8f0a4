//! Fuzzes the reader of whole pools: the input patches words of an empty, valid pool, in pairs of
//! (place, word).
//!
//! A place counts words from the start of a region, so that a short input reaches every table.

use profiler_core::ids::ByteLimit;
use profiler_core::internal::entry::Entry;
use profiler_core::internal::payload::PayloadReader;
use profiler_core::internal::pool::header::Header;
use profiler_core::internal::pool::layout::Layout;
use profiler_core::internal::pool::{self, PoolSpec};
use profiler_core::internal::reader::{ChunkBuffer, PoolReader};
use profiler_core::session::SessionParams;
use profiler_core::time::SessionClock;
use std::cell::RefCell;
use std::io::Read;

struct Base {
    bytes: Vec<u8>,
    layout: Layout,
}

thread_local! {
    static BASE: RefCell<Base> = RefCell::new(base());
}

fn base() -> Base {
    let limit = ByteLimit::new(64 * 1024);
    let params = SessionParams {
        limit,
        ..SessionParams::default()
    };
    let id = pool::new_id().expect("randomness");
    let spec = PoolSpec {
        id,
        limit,
        allowance: limit,
        clock: SessionClock::start_now(),
        params,
        name: String::new(),
    };
    let mut file = spec.create_pool().expect("memory");
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).expect("readable");
    let layout = Header::parse(&bytes, bytes.len() as u64)
        .expect("a header")
        .layout;
    Base { bytes, layout }
}

impl Base {
    /// Patches a word. The upper 4 bits of `place` select the region, the other 12 bits select a
    /// word in its first 32 KiB.
    fn patch(&mut self, place: u16, word: u64) {
        let regions = self.layout.regions();
        let start = regions
            .get(usize::from(place >> 12))
            .map_or(0, |extent| extent.offset);
        let at = usize::try_from(start).unwrap_or(0) + usize::from(place & 0x0fff) * 8;
        if let Some(bytes) = self.bytes.get_mut(at..at + 8) {
            // An exclusive or changes single bits of the header, and a second patch undoes the
            // first. The words of all other regions are zero.
            let old = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
            bytes.copy_from_slice(&(old ^ word).to_ne_bytes());
        }
    }
}

fn read(bytes: &[u8]) {
    let Ok(reader) = PoolReader::open(bytes) else {
        return;
    };
    let Ok(snapshot) = reader.snapshot() else {
        return;
    };
    for panic in reader.panics().unwrap_or_default() {
        reader.is_latest_of_its_thread(&panic, &snapshot);
    }
    let mut buffer = ChunkBuffer::default();
    for chunk in snapshot.chunks() {
        if let Ok(Some(entries)) = reader.read_chunk(chunk, &mut buffer) {
            for entry in entries {
                if let Entry::Marker(marker) = entry {
                    PayloadReader::new(marker.payload).for_each(drop);
                }
            }
        }
    }
}

/// Checks one input.
pub(crate) fn check_input(data: &[u8]) {
    BASE.with_borrow_mut(|base| {
        let patches: Vec<(u16, u64)> = data
            .chunks_exact(10)
            .take(1000)
            .map(|patch| {
                let (place, word) = patch.split_at(2);
                let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
                (
                    u16::from_le_bytes(place.try_into().unwrap_or_default()),
                    word,
                )
            })
            .collect();
        patches
            .iter()
            .for_each(|(place, word)| base.patch(*place, *word));
        read(&base.bytes);
        // The same patches again restore the pool.
        patches
            .iter()
            .for_each(|(place, word)| base.patch(*place, *word));
    });
}
