//! A command that uses more memory than allowed, without the profiler's knowledge.

use std::fs::File;
use std::os::unix::fs::FileExt;

use anyhow::Context;

use crate::{Words, number};

/// `sprawl BYTES`: overwrites the last BYTES bytes of the pool of this process, which belong to no
/// chunk.
pub(crate) fn obey(name: &str, words: Words<'_>) -> Option<anyhow::Result<String>> {
    (name == "sprawl").then(|| sprawl(number(words, 0)?))
}

fn sprawl(bytes: u64) -> anyhow::Result<String> {
    let pool = own_pool().context("no pool")?;
    let end = pool.metadata()?.len();
    for offset in (end - bytes..end).step_by(4096) {
        pool.write_all_at(&[0xa5; 4096], offset)?;
    }
    Ok("ok".to_owned())
}

/// Opens the pool that this process inherited.
fn own_pool() -> Option<File> {
    let descriptors = std::fs::read_dir("/proc/self/fd").ok()?.flatten();
    let is_pool = |path: &std::path::PathBuf| {
        std::fs::read_link(path)
            .is_ok_and(|target| target.to_string_lossy().contains("profiler-pool"))
    };
    let path = descriptors
        .map(|descriptor| descriptor.path())
        .find(is_pool)?;
    File::options().write(true).open(path).ok()
}
