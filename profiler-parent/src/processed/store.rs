//! Bytes of many lists, filled side by side, with a bounded sum of memory.
//!
//! The entries of many threads lie mixed in a pool, and a profile wants them thread by thread. Each
//! [`Log`] keeps what came last in memory; full blocks go to one unlinked file, each with the place of the one
//! before it. Invariants: the memory of all logs together is about [`MEMORY`], however many there are and however
//! much they hold: blocks get smaller as logs get more; what was added in one piece is read in one piece.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::spill::temporary;

/// Bytes that all logs together keep in memory, by about.
pub(super) const MEMORY: usize = 4 << 20;
const LARGEST_BLOCK: usize = 4096;
const SMALLEST_BLOCK: usize = 64;
/// Place of the block before, length.
const HEAD: usize = 16;

/// Where full blocks are.
#[derive(Debug, Default)]
pub(super) struct RowStore {
    file: Option<File>,
    end: u64,
    logs: usize,
    scratch: Vec<u8>,
}

impl RowStore {
    /// How much a log may hold in memory, now that there are so many.
    fn block(&self) -> usize {
        (MEMORY / self.logs.max(1)).clamp(SMALLEST_BLOCK, LARGEST_BLOCK)
    }

    fn append(&mut self, before: Option<u64>, block: &[u8]) -> io::Result<u64> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(temporary()?),
        };
        self.scratch.clear();
        self.scratch.extend_from_slice(&before.unwrap_or(u64::MAX).to_ne_bytes());
        self.scratch.extend_from_slice(&(block.len() as u64).to_ne_bytes());
        self.scratch.extend_from_slice(block);
        let at = self.end;
        file.write_all_at(&self.scratch, at)?;
        self.end = at.saturating_add(self.scratch.len() as u64);
        self.scratch.shrink_to(1 << 16);
        Ok(at)
    }

    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.as_ref().ok_or(io::ErrorKind::NotFound)?.read_exact_at(bytes, at)
    }

    /// The place of the block before, and the length of this one.
    fn head(&self, at: u64) -> io::Result<(Option<u64>, usize)> {
        let mut head = [0; HEAD];
        self.read(at, &mut head)?;
        let mut words = head.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
        let (before, len) = (words.next().unwrap_or(u64::MAX), words.next().unwrap_or(0));
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::InvalidData)?;
        Ok(((before != u64::MAX).then_some(before), len))
    }
}

/// One list.
#[derive(Debug, Default)]
pub(super) struct Log {
    tail: Vec<u8>,
    last: Option<u64>,
    has_begun: bool,
}

impl Log {
    /// Adds bytes that are read in one piece again.
    pub(super) fn push(&mut self, store: &mut RowStore, pieces: &[&[u8]]) -> io::Result<()> {
        if !std::mem::replace(&mut self.has_begun, true) {
            store.logs += 1;
        }
        pieces.iter().for_each(|piece| self.tail.extend_from_slice(piece));
        let block = store.block();
        if self.tail.len() >= block {
            self.last = Some(store.append(self.last, &self.tail)?);
            self.tail.clear();
            self.tail.shrink_to(2 * block);
        }
        Ok(())
    }

    /// Shows all bytes, block by block, in the order in which they were added.
    pub(super) fn for_each(
        &self,
        store: &RowStore,
        mut show: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let (mut blocks, mut next) = (Vec::new(), self.last);
        while let Some(at) = next {
            let (before, len) = store.head(at)?;
            blocks.push((at, len));
            next = before;
        }
        let mut block = Vec::new();
        for (at, len) in blocks.into_iter().rev() {
            block.resize(len, 0);
            store.read(at.saturating_add(HEAD as u64), &mut block)?;
            show(&block)?;
        }
        show(&self.tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_that_grow_side_by_side_come_back_whole_and_in_order() {
        let (mut store, mut logs) =
            (RowStore::default(), [const { Vec::new() }; 3].map(|_: Vec<u8>| Log::default()));
        for number in 0..30_000_u64 {
            logs[number as usize % 3].push(&mut store, &[&number.to_ne_bytes(), b"12345678"]).unwrap();
        }
        for (number, log) in logs.iter().enumerate() {
            let mut seen = Vec::new();
            log.for_each(&store, |bytes| {
                assert_eq!(bytes.len() % 16, 0, "what was added together stays together");
                seen.extend(bytes.chunks(16).map(|row| u64::from_ne_bytes(*row.first_chunk().unwrap())));
                Ok(())
            })
            .unwrap();
            assert!(seen.into_iter().eq((0..10_000).map(|n| n * 3 + number as u64)));
        }
    }

    #[test]
    fn the_memory_of_all_logs_is_bounded_however_many_there_are() {
        let (mut store, mut logs) = (RowStore::default(), Vec::new());
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
}
