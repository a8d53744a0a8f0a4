//! The names of code that processes generate at run time, for the addresses that are in no file.
//!
//! Made once for a profile, with all its processes. Invariants: an address that is in a file of its
//! process is never named by the process's runtime, although the runtime may once have had code at
//! that address; the runtime of a parent process names only addresses in a forked child that the
//! child's runtime does not name; all processes together read at most [`MAX_BYTES`] bytes and take
//! about [`MAX_TIME`], after which no further look-up begins; each process has a share of both.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use profiler_core::internal::reader::Definitions;
use profiler_generated_code::{GeneratedCode, LookUp, LookUpLimits, RuntimeName};

use super::frames::MemberNumber;
use super::quota::Quota;
use crate::sys::now;

/// Limit on the bytes read for all processes.
const MAX_BYTES: u64 = 2 << 30;
/// Limit on the time for all processes, except the time to start and to end look-ups.
const MAX_TIME: Duration = Duration::from_secs(20);
/// The maximum number of ancestors whose names a forked process gets.
const MAX_PARENTS: usize = 4;
/// Files below this address may be at the same addresses in all processes that execute a program.
const FIRST_RANDOM_ADDRESS: u64 = 1 << 32;
/// Limit on the time for one process.
const MAX_TIME_OF_ONE: Duration = Duration::from_secs(4);

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
    shares: Shares,
    /// The addresses of each process that are in no file, and the places of the processes whose
    /// files may name them: its own first.
    wanted: HashMap<MemberNumber, (Vec<usize>, Vec<u64>)>,
    /// What was found in the files of each process, by its place.
    found: HashMap<usize, LookUp>,
    remarks: Vec<String>,
    /// Number of processes whose files cannot be reached.
    unreachable: usize,
    /// Why the files of the first of them cannot be reached.
    why_unreachable: Option<String>,
}

impl<'m> GeneratedNames<'m> {
    /// The names of these processes.
    pub(super) fn new(processes: Vec<GeneratingProcess<'m>>) -> Self {
        Self {
            shares: Shares::new(processes.len()),
            processes,
            wanted: HashMap::new(),
            found: HashMap::new(),
            remarks: Vec::new(),
            unreachable: 0,
            why_unreachable: None,
        }
    }

    /// Looks for the names of these addresses, in the files of their processes and of the ancestors
    /// of forked processes: in those of each process once. Each member has ascending, distinct
    /// addresses.
    pub(super) fn look_up(&mut self, wanted: &[(MemberNumber, Vec<u64>)]) {
        let mut of_processes: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
        for (member, addresses) in wanted {
            let Some(place) = self.processes.iter().position(|one| one.member == *member) else {
                continue;
            };
            let files = self
                .processes
                .get(place)
                .map(|one| MappedFiles::of(one.definitions));
            let generated = addresses.iter().filter(|address| {
                files
                    .as_ref()
                    .is_some_and(|files| !files.contain(**address))
            });
            let generated: Vec<u64> = generated.copied().collect();
            let chain = self.with_parents(place);
            for place in chain.iter().filter(|_| !generated.is_empty()) {
                of_processes.entry(*place).or_default().extend(&generated);
            }
            self.wanted.insert(*member, (chain, generated));
        }
        for (place, addresses) in of_processes {
            self.look_up_in(place, &addresses.into_iter().collect::<Vec<_>>());
        }
    }

    /// Calls `found` once with each of these addresses that has a name. Only addresses for which
    /// [`Self::look_up`] has looked have names.
    pub(super) fn resolve(
        &self,
        member: MemberNumber,
        found: &mut dyn FnMut(u64, &RuntimeName<'_>),
    ) {
        let Some((chain, addresses)) = self.wanted.get(&member) else {
            return;
        };
        for address in addresses {
            let mut names = chain
                .iter()
                .filter_map(|place| self.found.get(place)?.name_at(*address));
            if let Some(name) = names.next() {
                found(*address, &name);
            }
        }
    }

    /// The process at this place, and those from which it was forked: its parent first.
    fn with_parents(&self, place: usize) -> Vec<usize> {
        let mut all = vec![place];
        while let Some(parent) = all.last().and_then(|last| self.forked_from(*last)) {
            if all.len() > MAX_PARENTS || all.contains(&parent) {
                break;
            }
            all.push(parent);
        }
        all
    }

    /// The process from which this one was forked, if it is in the profile. Two processes that have
    /// each executed a program have their files at different addresses.
    fn forked_from(&self, place: usize) -> Option<usize> {
        let child = self.processes.get(place)?;
        let parent = child.code.forked_from?;
        let is_parent = |one: &GeneratingProcess<'_>| {
            one.code.pid == parent && have_same_addresses(child.definitions, one.definitions)
        };
        self.processes.iter().position(is_parent)
    }

    /// Looks for the names of these addresses in the files of one process.
    fn look_up_in(&mut self, place: usize, addresses: &[u64]) {
        let Some(process) = self.processes.get(place) else {
            return;
        };
        let Some(limits) = self.shares.begin() else {
            return self.note_unreachable("those of other processes took too long".to_owned());
        };
        let began = now();
        let mut look_up = process.code.resolve(addresses, limits);
        self.shares.spend(look_up.bytes, began.elapsed());
        let remarks = look_up.remarks.iter();
        self.remarks
            .extend(remarks.map(|remark| format!("{}: {remark}", process.shown)));
        if let Some(why) = look_up.unreachable.take() {
            self.note_unreachable(why);
        }
        self.found.insert(place, look_up);
    }

    fn note_unreachable(&mut self, why: String) {
        self.unreachable += 1;
        self.why_unreachable.get_or_insert(why);
    }

    /// Descriptions of the names that were left out.
    pub(super) fn into_remarks(self) -> Vec<String> {
        let count = self.unreachable;
        let unreachable = self.why_unreachable.map(|why| {
            format!("the generated code of {count} processes has no names, because their files cannot be reached: {why}")
        });
        self.remarks.into_iter().chain(unreachable).collect()
    }
}

/// Whether a file is at the same address in both processes.
fn have_same_addresses(one: &Definitions, other: &Definitions) -> bool {
    let of_other = other.modules();
    let is_there = |path: &str, start: u64| {
        let mut all = of_other.iter();
        all.any(|(_, module)| module.start == start && module.path == path)
    };
    let modules = one.modules();
    let mut random = modules
        .iter()
        .filter(|(_, module)| module.start >= FIRST_RANDOM_ADDRESS);
    random.any(|(_, module)| is_there(&module.path, module.start))
}

/// The shares of the processes in the bytes that are read and in the time.
#[derive(Debug)]
struct Shares {
    bytes: Quota,
    milliseconds: Quota,
    used_bytes: usize,
    used: Duration,
}

impl Shares {
    fn new(processes: usize) -> Self {
        let bytes = usize::try_from(MAX_BYTES).unwrap_or(usize::MAX);
        Self {
            bytes: Quota::new(0, bytes, processes),
            milliseconds: Quota::new(0, in_milliseconds(MAX_TIME), processes),
            used_bytes: 0,
            used: Duration::ZERO,
        }
    }

    /// The limits for the next process. `None` if the earlier ones have used all of the time, which
    /// look-ups that are late can exceed.
    fn begin(&mut self) -> Option<LookUpLimits> {
        self.bytes.begin(self.used_bytes, false);
        let used = in_milliseconds(self.used);
        self.milliseconds.begin(used, false);
        let bytes = self.bytes.limit().saturating_sub(self.used_bytes);
        let time = self.milliseconds.limit().saturating_sub(used);
        let time = Duration::from_millis(u64::try_from(time).unwrap_or(u64::MAX));
        (!time.is_zero()).then(|| LookUpLimits {
            bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
            patience: time.min(MAX_TIME_OF_ONE),
        })
    }

    /// Subtracts what the process that has begun last has used.
    fn spend(&mut self, bytes: u64, time: Duration) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.used_bytes = self.used_bytes.saturating_add(bytes);
        self.used = self.used.saturating_add(time);
    }
}

fn in_milliseconds(time: Duration) -> usize {
    usize::try_from(time.as_millis()).unwrap_or(usize::MAX)
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

    #[test]
    fn processes_that_use_all_of_their_shares_leave_some_for_the_others() {
        for processes in [2, 10, 100] {
            let mut shares = Shares::new(processes);
            let mut sum = Duration::ZERO;
            for number in 0..processes {
                let limits = shares.begin().unwrap();
                let least = MAX_BYTES / 32 / processes as u64;
                assert!(limits.bytes >= least, "{number} of {processes}: {limits:?}");
                let least = MAX_TIME / 64 / u32::try_from(processes).unwrap();
                assert!(
                    limits.patience >= least,
                    "{number} of {processes}: {limits:?}"
                );
                shares.spend(limits.bytes, limits.patience);
                sum += limits.patience;
            }
            assert!(shares.used_bytes as u64 <= MAX_BYTES);
            assert!(sum <= MAX_TIME);
        }
    }

    #[test]
    fn look_ups_that_are_late_take_a_limited_time_together() {
        const LATE: Duration = Duration::from_secs(1);
        let mut shares = Shares::new(1000);
        for _ in 0..1000 {
            if let Some(limits) = shares.begin() {
                shares.spend(0, limits.patience + LATE);
            }
        }
        assert!(shares.begin().is_none());
        assert!(shares.used <= MAX_TIME + MAX_TIME_OF_ONE + LATE);
    }

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
