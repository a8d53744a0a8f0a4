//! Many lists of bytes, filled at the same time, with a bound on their total memory.
//!
//! The entries of many threads are interleaved in a pool, but a profile lists them thread by
//! thread. Each [`Log`] keeps its latest bytes in memory. Full blocks are written to one unlinked
//! file, in extents of the log that get larger as the log grows; each extent contains the position
//! of the next. Invariants: the memory of all logs together is about [`MEMORY`], for any number of
//! logs of any length, because blocks get smaller as the number of logs grows; reading needs memory
//! for one extent, and one read per extent; bytes that were added in one call are read in one
//! piece.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::rows::row;
use profiler_files::spill::temporary;

/// Approximate limit on the bytes that all logs together keep in memory.
pub(super) const MEMORY: usize = 4 << 20;
const LARGEST_BLOCK: usize = 4096;
const SMALLEST_BLOCK: usize = 64;
const LARGEST_EXTENT: usize = 1 << 15;
const SMALLEST_EXTENT: usize = 512;
/// Size of the head of an extent in bytes: position and length of the next extent, and the number
/// of filled bytes in this one.
const HEAD: usize = 24;

/// The file of the full blocks.
#[derive(Debug, Default)]
pub(super) struct RowStore {
    file: Option<File>,
    end: u64,
    logs: usize,
    #[cfg(test)]
    reads: std::cell::Cell<usize>,
}

/// A piece of the file that belongs to one log.
#[derive(Clone, Copy, Debug)]
struct Extent {
    at: u64,
    len: usize,
}

impl RowStore {
    /// Limit on the bytes of one log in memory, for the current number of logs.
    fn block(&self) -> usize {
        (MEMORY / self.logs.max(1)).clamp(SMALLEST_BLOCK, LARGEST_BLOCK)
    }

    fn allot(&mut self, len: usize) -> Extent {
        let at = self.end;
        self.end = at.saturating_add(len as u64);
        Extent { at, len }
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(temporary()?),
        };
        file.write_all_at(bytes, at)
    }

    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        #[cfg(test)]
        self.reads.set(self.reads.get() + 1);
        self.file
            .as_ref()
            .ok_or(io::ErrorKind::NotFound)?
            .read_exact_at(bytes, at)
    }
}

/// One list of bytes.
#[derive(Debug, Default)]
pub(super) struct Log {
    tail: Vec<u8>,
    first: Option<Extent>,
    /// The last extent, and the number of its filled bytes, including its head.
    last: Option<(Extent, usize)>,
    has_begun: bool,
}

impl Log {
    /// Adds bytes that will be read in one piece.
    pub(super) fn push(&mut self, store: &mut RowStore, pieces: &[&[u8]]) -> io::Result<()> {
        if !std::mem::replace(&mut self.has_begun, true) {
            store.logs += 1;
        }
        pieces
            .iter()
            .for_each(|piece| self.tail.extend_from_slice(piece));
        let block = store.block();
        if self.tail.len() >= block {
            let (extent, filled) = self.room(store)?;
            store.write(extent.at.saturating_add(filled as u64), &self.tail)?;
            self.last = Some((extent, filled + self.tail.len()));
            self.tail.clear();
            self.tail.shrink_to(2 * block);
        }
        Ok(())
    }

    /// Returns an extent with room for the tail, and the number of its filled bytes.
    fn room(&mut self, store: &mut RowStore) -> io::Result<(Extent, usize)> {
        let len = match self.last {
            Some((last, filled)) if filled + self.tail.len() <= last.len => {
                return Ok((last, filled));
            }
            Some((last, _)) => (2 * last.len).min(LARGEST_EXTENT),
            None => SMALLEST_EXTENT,
        };
        let next = store.allot(len.max(HEAD + self.tail.len()));
        match self.last {
            Some((last, filled)) => {
                let head = [next.at, next.len as u64, filled as u64].map(u64::to_ne_bytes);
                store.write(last.at, head.as_flattened())?;
            }
            None => self.first = Some(next),
        }
        Ok((next, HEAD))
    }

    /// Calls `show` with all bytes, block by block, in the order in which they were added.
    pub(super) fn for_each(
        &self,
        store: &RowStore,
        mut show: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut next = self.first;
        while let Some(extent) = next {
            let of_last = self.last.filter(|(last, _)| last.at == extent.at);
            bytes.resize(of_last.map_or(extent.len, |(_, filled)| filled), 0);
            store.read(extent.at, &mut bytes)?;
            let (head, rest) = bytes
                .split_at_checked(HEAD)
                .ok_or(io::ErrorKind::InvalidData)?;
            if of_last.is_some() {
                show(rest)?;
                break;
            }
            let [at, len, filled] = row(head);
            let narrow =
                |number: u64| usize::try_from(number).map_err(|_| io::ErrorKind::InvalidData);
            let filled = narrow(filled)?.saturating_sub(HEAD);
            show(rest.get(..filled).ok_or(io::ErrorKind::InvalidData)?)?;
            next = Some(Extent {
                at,
                len: narrow(len)?,
            });
        }
        show(&self.tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_filled_at_the_same_time_are_read_completely_and_in_order() {
        let mut store = RowStore::default();
        let mut logs = [const { Vec::new() }; 3].map(|_: Vec<u8>| Log::default());
        for number in 0..30_000_u64 {
            logs[number as usize % 3]
                .push(&mut store, &[&number.to_ne_bytes(), b"12345678"])
                .unwrap();
        }
        for (number, log) in logs.iter().enumerate() {
            let mut seen = Vec::new();
            log.for_each(&store, |bytes| {
                assert_eq!(
                    bytes.len() % 16,
                    0,
                    "bytes of one call are read in one piece"
                );
                seen.extend(
                    bytes
                        .chunks(16)
                        .map(|row| u64::from_ne_bytes(*row.first_chunk().unwrap())),
                );
                Ok(())
            })
            .unwrap();
            assert!(
                seen.into_iter()
                    .eq((0..10_000).map(|n| n * 3 + number as u64))
            );
        }
    }

    #[test]
    fn the_memory_of_many_logs_is_bounded() {
        let mut store = RowStore::default();
        let mut logs = Vec::new();
        logs.resize_with(60_000, Log::default);
        for _ in 0..12 {
            for log in &mut logs {
                log.push(&mut store, &[&[7; 24]]).unwrap();
            }
        }
        let held: usize = logs.iter().map(|log| log.tail.capacity()).sum();
        assert!(held <= 3 * MEMORY, "{held}");
        let mut bytes = 0;
        logs[0]
            .for_each(&store, |block| {
                bytes += block.len();
                Ok(())
            })
            .unwrap();
        assert_eq!(bytes, 12 * 24);
    }

    #[test]
    fn a_list_of_many_small_blocks_is_read_in_few_large_pieces() {
        let mut store = RowStore {
            logs: 100_000,
            ..RowStore::default()
        };
        let mut log = Log::default();
        for number in 0..40_000_u64 {
            log.push(&mut store, &[&number.to_ne_bytes(), &[7; 16]])
                .unwrap();
        }
        let long = vec![9; 3 * LARGEST_EXTENT];
        log.push(&mut store, &[&long]).unwrap();
        log.push(&mut store, &[&[8; 100]]).unwrap();
        let mut seen = Vec::new();
        log.for_each(&store, |bytes| {
            seen.extend_from_slice(bytes);
            Ok(())
        })
        .unwrap();
        let (rows, rest) = seen.split_at(40_000 * 24);
        assert!(
            rows.chunks(24)
                .map(|row| u64::from_ne_bytes(*row.first_chunk().unwrap()))
                .eq(0..40_000)
        );
        assert_eq!(rest, [&long[..], &[8; 100]].concat());
        let reads = store.reads.get();
        assert!(reads <= 45, "{reads} reads of {} KiB", seen.len() >> 10);
        assert!(
            store.end <= 2 * seen.len() as u64,
            "{} bytes of the file",
            store.end
        );
    }
}
