//! What holds for every answer of a store, whatever its bytes are. Shared with the fuzz target
//! `fleet_answer`.

use profiler_parent::internal::fleet_answer::count_stacks;

/// Reads an answer. Returns the number of its rows, or the error.
pub(crate) fn check(answer: &[u8]) -> Result<u64, String> {
    let read = count_stacks(answer).map_err(|error| error.to_string());
    if let Ok(rows) = read {
        let lines = answer.split(|byte| *byte == b'\n').count() as u64;
        assert!(rows < lines, "{rows} rows in {lines} lines");
        let last = answer.trim_ascii_end();
        let is_cut = |last: &[u8]| count_stacks(last).is_err();
        assert!(
            last.is_empty() || is_cut(last),
            "a row without its end counts"
        );
    }
    read
}
