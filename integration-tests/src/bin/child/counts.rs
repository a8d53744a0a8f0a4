//! A command that answers the counts in the pool of this process, for tests in which no other
//! process can read the pool.

use profiler_core::internal::reader::PoolReader;

use crate::Words;

/// `counts`: recorded, delivered, evicted, unfinished, and dropped by reason, as
/// `ok RECORDED DELIVERED EVICTED UNFINISHED REASON=COUNT…`.
pub(crate) fn obey(name: &str, _words: Words<'_>) -> Option<anyhow::Result<String>> {
    (name == "counts").then(counts)
}

fn counts() -> anyhow::Result<String> {
    let snapshot = PoolReader::open(profiler_core::session::pool_file()?)?.snapshot()?;
    let counts = snapshot.counts();
    let numbers = [
        counts.recorded(),
        counts.delivered,
        counts.evicted,
        counts.unfinished,
    ];
    let numbers: String = numbers.iter().map(|number| format!(" {number}")).collect();
    let reason = |(reason, count): (profiler_core::session::DropReason, u64)| {
        format!(" {}={count}", reason.name().replace(' ', "-"))
    };
    Ok(format!(
        "ok{numbers}{}",
        counts.dropped.iter().map(reason).collect::<String>()
    ))
}
