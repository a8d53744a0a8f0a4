//! What this process's own pool says, for tests in which nobody else can look.

use profiler_core::internal::reader::PoolReader;

use crate::Words;

/// `books`: recorded, delivered, evicted, unfinished, and dropped by reason, as
/// `ok RECORDED DELIVERED EVICTED UNFINISHED REASON=COUNT…`.
pub(crate) fn obey(name: &str, _words: Words<'_>) -> Option<anyhow::Result<String>> {
    (name == "books").then(books)
}

fn books() -> anyhow::Result<String> {
    let snapshot = PoolReader::open(profiler_core::session::pool_file()?)?.snapshot()?;
    let counts = snapshot.counts();
    let numbers = [counts.recorded(), counts.delivered, counts.evicted, counts.unfinished];
    let numbers: String = numbers.iter().map(|number| format!(" {number}")).collect();
    let reason = |(reason, count): (profiler_core::internal::entry_counts::DropReason, u64)| {
        format!(" {}={count}", reason.name().replace(' ', "-"))
    };
    Ok(format!("ok{numbers}{}", counts.dropped.iter().map(reason).collect::<String>()))
}
