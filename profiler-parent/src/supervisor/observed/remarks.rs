//! What the profile's log says about an observed program besides its verdict.

use profiler_observed::file::ObservedHeader;
use profiler_observed::layout::Notes;

/// The system does not show where the threads of a program wait.
pub(super) const NO_WAITING_STACKS: &str =
    "threads that wait have no stacks: this process may not see where they wait";
/// A process that this one cannot see.
pub(super) const HIDDEN: &str =
    "its waiting threads, its memory and its counters are not recorded: its process is not found";

/// The facts that a program's file can report, with their texts.
const FACTS: [(Notes, &str); 5] = [
    (
        Notes::FORBIDDEN,
        "it has no more samples since it has installed a filter of system calls that would refuse them",
    ),
    (
        Notes::FILTERED,
        "threads that start after its filter of system calls have no stacks while they run",
    ),
    (
        Notes::WANTS_SIGNAL,
        "it uses the signal of the samples itself, and gets its own",
    ),
    (
        Notes::SMALL_STACK,
        "threads with a small alternate signal stack have no stacks while they run",
    ),
    (
        Notes::TEXT_CUT,
        "it had more files at its start than can be listed",
    ),
];
/// Programs that used less than this have no statement about their time.
const SHORT_NS: u64 = 20_000_000;
/// From this share on, in percent, there is no statement either.
const GOOD_PERCENT: u64 = 97;

/// The remarks on a program at its end. `sampled_ns` of the `used_ns` that it has used is in
/// samples with stacks; `used_ns` is `None` if it is not known.
pub(super) fn remarks(
    header: &ObservedHeader,
    sampled_ns: u64,
    used_ns: Option<u64>,
) -> Vec<String> {
    let is_reported = |note: Notes| header.notes & note.0 != 0;
    let facts = FACTS.iter().filter(|(note, _)| is_reported(*note));
    let mut all: Vec<String> = facts.map(|(_, text)| (*text).to_owned()).collect();
    let count = |number: u64, text: &str| (number > 0).then(|| format!("{text}: {number}"));
    all.extend(count(
        header.threads_without_timer,
        "threads without stacks while they run, because there was no timer for them",
    ));
    all.extend(count(
        header.forks_without_file,
        "forked children that are not recorded, because they could make no file",
    ));
    all.extend(used_ns.and_then(|used| missing_time(sampled_ns, used)));
    all
}

fn missing_time(sampled_ns: u64, used_ns: u64) -> Option<String> {
    let percent = sampled_ns.saturating_mul(100) / used_ns.max(1);
    (used_ns >= SHORT_NS && percent < GOOD_PERCENT).then(|| {
        let ms = used_ns / 1_000_000;
        format!("{percent} % of the {ms} ms that it used is in samples with stacks")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_anything_special_has_no_remark() {
        let header = ObservedHeader::default();
        assert!(remarks(&header, 99_000_000, Some(100_000_000)).is_empty());
        assert!(remarks(&header, 0, Some(SHORT_NS - 1)).is_empty());
        assert!(remarks(&header, 0, None).is_empty());
    }

    #[test]
    fn facts_counts_and_missing_time_are_told() {
        let header = ObservedHeader {
            notes: Notes::FORBIDDEN.0 | Notes::WANTS_SIGNAL.0,
            threads_without_timer: 3,
            forks_without_file: 1,
            ..ObservedHeader::default()
        };
        let all = remarks(&header, 50_000_000, Some(100_000_000));
        assert_eq!(all.len(), 5, "{all:?}");
        assert_eq!(
            all[4],
            "50 % of the 100 ms that it used is in samples with stacks"
        );
    }
}
