//! Names for the files of threads.
//!
//! Used by [`super::cpuprofile`]. Invariants: the names of one export are unique, also on systems
//! that ignore case; a name is never a path or a directory.

use std::collections::{HashMap, HashSet};

use super::recording::Thread;

/// The largest number of characters of each part of a name.
const LONGEST: usize = 48;

/// The names in use.
#[derive(Debug, Default)]
pub(super) struct FileNames {
    taken: HashSet<String>,
    /// The last number that was tried, by name.
    next: HashMap<String, u64>,
}

impl FileNames {
    /// Returns `PROCESS-PID-THREAD-TID.cpuprofile` with characters that every system allows. Names
    /// are unique, also without regard to case.
    pub(super) fn name(&mut self, thread: &Thread<'_>) -> String {
        let Thread {
            process,
            pid,
            name,
            tid,
            ..
        } = thread;
        let parts = [process, pid, name, tid.to_string().as_str()].map(plain);
        let stem = parts.join("-");
        let mut free = stem.clone();
        while !self.taken.insert(free.to_lowercase()) {
            // Starts at the last number of this name, because there may be thousands.
            let next = self.next.entry(stem.to_lowercase()).or_insert(1);
            *next += 1;
            free = format!("{stem}-{next}");
        }
        format!("{free}.cpuprofile")
    }
}

/// Replaces the characters that a file name may not contain.
fn plain(text: &str) -> String {
    let known = |c: char| {
        if c.is_ascii_alphanumeric() || c == '.' || c == '_' {
            c
        } else {
            '_'
        }
    };
    let text: String = text.chars().take(LONGEST).map(known).collect();
    // A name must not begin with a dot or denote a directory.
    text.trim_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use profiler_reader::{PartId, RawMarkers, Tables};

    #[test]
    fn names_are_plain_and_unique() {
        let tables = Tables::default();
        let markers = RawMarkers::default();
        let mut names = FileNames::default();
        let mut name = |process: &str, name: &str| {
            let thread = Thread {
                part: PartId(0),
                process,
                pid: "12.1",
                name,
                tid: 7,
                is_main: false,
                tables: &tables,
                has_own_tables: false,
                slices: &[],
                markers: &markers,
                texts: &[],
                shift_ns: 0,
            };
            names.name(&thread)
        };
        assert_eq!(
            name("../we ird/é", "io:1"),
            "_we_ird__-12.1-io_1-7.cpuprofile"
        );
        assert_eq!(name("a", "T"), "a-12.1-T-7.cpuprofile");
        assert_eq!(name("a", "t"), "a-12.1-t-7-2.cpuprofile");
        assert!(name(&"x".repeat(5000), "t").len() < 255);
    }
}
