//! Selects the threads that a session records, by Gecko's matching rules.
//!
//! `record` applies the filter once per thread and session, when the thread records its first
//! entry; the sampler applies it to threads that have recorded nothing. Rules: no filter or `*`
//! selects all threads; a filter matches a thread whose name contains it, without regard to ASCII
//! case; `pid:N` selects all threads of that process; a process is excluded only if every filter is
//! a `pid:` of another process.

use crate::ids::ProcessId;

/// The filters of a session, as applied to one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadFilter {
    all: bool,
    excluded: bool,
    names: Vec<String>,
}

#[cfg(all(feature = "engine", unix))]
const _: () = assert!(ThreadFilter::MAX_BYTES == crate::params::SessionParams::MAX_FILTER_BYTES);

impl ThreadFilter {
    /// The length of the longest filter, in bytes.
    pub const MAX_BYTES: usize = 256;

    /// Reads the filter list for process `pid`.
    pub fn new(filters: &[String], pid: ProcessId) -> Self {
        let is_mine = |filter: &String| pid_of(filter) == Some(pid);
        let is_other = |filter: &String| pid_of(filter).is_some_and(|named| named != pid);
        Self {
            all: filters.is_empty()
                || filters
                    .iter()
                    .any(|filter| filter == "*" || is_mine(filter)),
            excluded: !filters.is_empty() && filters.iter().all(is_other),
            names: filters
                .iter()
                .filter(|f| pid_of(f).is_none())
                .map(|f| f.to_ascii_lowercase())
                .collect(),
        }
    }

    /// Whether a thread with this name is recorded.
    pub fn selects(&self, thread_name: &str) -> bool {
        let name = thread_name.to_ascii_lowercase();
        self.all
            || self
                .names
                .iter()
                .any(|filter| !filter.is_empty() && name.contains(filter.as_str()))
    }

    /// Why a filter can select nothing, if so: it is empty, too long, or begins with `pid:` and goes
    /// on with anything but a number.
    pub fn why_nonsense(filter: &str) -> Option<&'static str> {
        if filter.trim().is_empty() {
            Some("it is empty; leave it out, or use * for all threads")
        } else if filter.len() > Self::MAX_BYTES {
            Some("it has more than 256 bytes")
        } else if filter.starts_with("pid:") && pid_of(filter).is_none() {
            Some("pid: needs the number of a process")
        } else {
            None
        }
    }

    /// Whether this process is excluded, regardless of its threads' names.
    pub const fn excludes_process(&self) -> bool {
        self.excluded
    }
}

fn pid_of(filter: &str) -> Option<ProcessId> {
    filter
        .strip_prefix("pid:")
        .and_then(|number| number.parse().ok())
        .map(ProcessId::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(filters: &[&str]) -> ThreadFilter {
        let filters: Vec<String> = filters.iter().map(ToString::to_string).collect();
        ThreadFilter::new(&filters, ProcessId::new(42))
    }

    #[test]
    fn no_filter_and_star_select_everything() {
        assert!(filter(&[]).selects("anything"));
        assert!(filter(&["nope", "*"]).selects("anything"));
    }

    #[test]
    fn names_match_by_part_without_regard_to_ascii_case() {
        let only = filter(&["WORK"]);
        assert!(only.selects("my-worker-1"));
        assert!(!only.selects("main"));
        assert!(!filter(&["Ä"]).selects("ä"));
    }

    #[test]
    fn own_pid_selects_all_threads() {
        assert!(filter(&["pid:42", "x"]).selects("main"));
        assert!(!filter(&["pid:43", "x"]).selects("main"));
    }

    #[test]
    fn a_process_is_excluded_only_if_every_filter_is_a_foreign_pid() {
        assert!(filter(&["pid:1", "pid:2"]).excludes_process());
        assert!(!filter(&["pid:1", "pid:42"]).excludes_process());
        assert!(!filter(&["pid:1", "main"]).excludes_process());
        assert!(!filter(&[]).excludes_process());
    }

    #[test]
    fn a_filter_that_can_select_nothing_is_nonsense() {
        let long = "x".repeat(257);
        for filter in ["", " \t", "pid:", "pid:x", "pid:-1", &long] {
            assert!(ThreadFilter::why_nonsense(filter).is_some(), "{filter:?}");
        }
        for filter in ["*", "main", "pid:7", "pid", "a b"] {
            assert_eq!(ThreadFilter::why_nonsense(filter), None);
        }
    }

    #[test]
    fn a_filter_with_a_comma_stays_whole() {
        assert!(filter(&["a,b"]).selects("xa,by"));
        assert!(!filter(&["a,b"]).selects("xay"));
    }
}
