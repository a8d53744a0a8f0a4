//! The names of code that processes generate at run time, for the addresses that are in no file.
//!
//! Made once for a profile, with all its processes. Invariants: an address that is in a file of its
//! process is never named by the process's runtime, although the runtime may once have had code at
//! that address; all processes together read at most [`MOST_BYTES`] bytes.

use profiler_core::internal::reader::Definitions;

use super::frames::MemberNumber;
use crate::generated_code::{GeneratedCode, MOST_BYTES, RuntimeName};

/// A process with code that may have been generated.
#[derive(Debug)]
pub(super) struct GeneratingProcess<'m> {
    pub(super) member: MemberNumber,
    /// Its name and number, for messages.
    pub(super) shown: String,
    pub(super) code: &'m GeneratedCode,
    pub(super) definitions: &'m Definitions,
}

/// The processes of a profile.
#[derive(Debug)]
pub(super) struct GeneratedNames<'m> {
    processes: Vec<GeneratingProcess<'m>>,
    left: u64,
    remarks: Vec<String>,
}

impl<'m> GeneratedNames<'m> {
    /// The names of these processes.
    pub(super) fn new(processes: Vec<GeneratingProcess<'m>>) -> Self {
        Self {
            processes,
            left: MOST_BYTES,
            remarks: Vec::new(),
        }
    }

    /// Calls `found` with each address that has a name. The addresses are ascending and distinct.
    pub(super) fn resolve(
        &mut self,
        member: MemberNumber,
        addresses: &[u64],
        found: &mut dyn FnMut(u64, &RuntimeName<'_>),
    ) {
        let process = self.processes.iter().find(|one| one.member == member);
        let Some(process) = process else {
            return;
        };
        let files = MappedFiles::of(process.definitions);
        let mut addresses = addresses.to_vec();
        addresses.retain(|address| !files.contain(*address));
        if addresses.is_empty() {
            return;
        }
        let remarks = process.code.resolve(&addresses, &mut self.left, found);
        let shown = &process.shown;
        let remarks = remarks
            .into_iter()
            .map(|remark| format!("{shown}: {remark}"));
        self.remarks.extend(remarks);
    }

    /// Descriptions of the names that were left out.
    pub(super) fn into_remarks(self) -> Vec<String> {
        self.remarks
    }
}

/// The addresses of the files that a process has mapped: ascending ranges that do not overlap.
#[derive(Debug)]
struct MappedFiles(Vec<(u64, u64)>);

impl MappedFiles {
    fn of(definitions: &Definitions) -> Self {
        let modules = definitions.modules();
        let ranges = modules.iter().map(|(_, module)| (module.start, module.end));
        Self::merged(ranges.collect())
    }

    fn merged(mut ranges: Vec<(u64, u64)>) -> Self {
        ranges.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
        for (start, end) in ranges {
            match merged.last_mut() {
                Some((_, last)) if start <= *last => *last = end.max(*last),
                _ => merged.push((start, end)),
            }
        }
        Self(merged)
    }

    fn contain(&self, address: u64) -> bool {
        let after = self.0.partition_point(|(start, _)| *start <= address);
        let range = after.checked_sub(1).and_then(|place| self.0.get(place));
        range.is_some_and(|(_, end)| address < *end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_address_is_in_a_file_if_one_range_contains_it(
            ranges in prop::collection::vec((0..100_u64, 0..100_u64), 0..20),
        ) {
            let files = MappedFiles::merged(ranges.clone());
            for address in 0..101 {
                let expected = ranges.iter().any(|(start, end)| (*start..*end).contains(&address));
                prop_assert_eq!(files.contain(address), expected, "{}", address);
            }
        }
    }
}
