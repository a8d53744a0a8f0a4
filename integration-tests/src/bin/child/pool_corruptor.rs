//! Commands that damage the pool of this process without the profiler's knowledge.
//!
//! They overwrite, punch, truncate and fill the file, which a process can open again through its
//! descriptor, and unmap the mapping. Random numbers come from a fixed seed.

#![allow(unsafe_code)]

use std::os::unix::fs::FileExt;

use anyhow::{Context, ensure};
use profiler_core::internal::reader::read_header;

use integration_tests::own::pool_file;

use crate::Words;

pub(crate) fn obey(name: &str, _: Words<'_>) -> Option<anyhow::Result<String>> {
    Some(match name {
        "scribble" => std::thread::Builder::new()
            .spawn(|| drop(scribble_forever()))
            .map(|_| "ok".to_owned())
            .map_err(Into::into),
        "punch" => punch(),
        "truncate" => truncate(),
        "fill" => fill(),
        "unmap" => unmap(),
        _ => return None,
    })
}

/// Overwrites random places of all tables without end, with random words and with valid words in
/// the wrong places.
pub(crate) fn scribble_forever() -> anyhow::Result<std::convert::Infallible> {
    let file = pool_file()?;
    let layout = read_header(&file)
        .map_err(|error| anyhow::anyhow!("{error}"))?
        .layout;
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    loop {
        let region = layout.regions()[usize::try_from(random.below(7))?];
        // Mostly at the beginning of a table, which is in use.
        let reach = if random.below(4) == 0 {
            region.len
        } else {
            region.len.min(16 * 1024)
        };
        let inside = region.offset + random.below(reach / 8) * 8;
        // The header, too, but rarely its first words, because without them the file is not a pool.
        let header = 8 * if random.below(64) == 0 {
            random.below(512)
        } else {
            10 + random.below(40)
        };
        let at = if random.below(8) == 0 { header } else { inside };
        let word = match random.below(6) {
            0 => 0,
            1 => u64::MAX,
            2 => random.below(1 << 20),
            3 => inside,
            4 => 1 << random.below(64),
            _ => random.next(),
        };
        file.write_all_at(&word.to_ne_bytes(), at)?;
        if random.below(256) == 0 {
            std::thread::yield_now();
        }
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}

/// Removes every page of the pool, including the header.
fn punch() -> anyhow::Result<String> {
    let file = pool_file()?;
    let length = file.metadata()?.len();
    let how = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, how, 0, length)?;
    Ok("ok".to_owned())
}

/// Tries to truncate and to extend the pool.
fn truncate() -> anyhow::Result<String> {
    let file = pool_file()?;
    let length = file.metadata()?.len();
    let results = [0, length - 1, length + 1].map(|length| file.set_len(length).is_ok());
    ensure!(file.metadata()?.len() == length, "its length changed");
    Ok(format!("ok {results:?}"))
}

/// Allocates memory for every page of the pool, regardless of the allowance.
fn fill() -> anyhow::Result<String> {
    use std::os::unix::fs::MetadataExt;
    let file = pool_file()?;
    let length = file.metadata()?.len();
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, length)?;
    Ok(format!("ok {}", file.metadata()?.blocks() * 512))
}

/// Unmaps the pool, as a wrong `munmap` of the host would.
fn unmap() -> anyhow::Result<String> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let line = maps
        .lines()
        .find(|line| line.contains("profiler-pool"))
        .context("no mapping")?;
    let (range, _) = line.split_once(' ').context("no range")?;
    let (begin, end) = range.split_once('-').context("no range")?;
    let begin = usize::from_str_radix(begin, 16)?;
    let end = usize::from_str_radix(end, 16)?;
    // SAFETY: not safe: the next thread that records causes the fault that the test needs.
    unsafe { libc::munmap(std::ptr::without_provenance_mut(begin), end - begin) };
    Ok("ok".to_owned())
}
