//! A command that uses more memory than allowed, without the profiler's knowledge.

use std::os::unix::fs::FileExt;

use integration_tests::own::pool_file;

use crate::{Words, number};

/// `sprawl BYTES`: overwrites the last BYTES bytes of the pool of this process, which belong to no
/// chunk.
pub(crate) fn obey(name: &str, words: Words<'_>) -> Option<anyhow::Result<String>> {
    (name == "sprawl").then(|| sprawl(number(words, 0)?))
}

fn sprawl(bytes: u64) -> anyhow::Result<String> {
    let pool = pool_file()?;
    let end = pool.metadata()?.len();
    for offset in (end - bytes..end).step_by(4096) {
        pool.write_all_at(&[0xa5; 4096], offset)?;
    }
    Ok("ok".to_owned())
}
