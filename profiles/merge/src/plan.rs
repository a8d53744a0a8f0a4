//! What becomes of each input: the names of its hosts, its place on the time line, the numbers of
//! its threads.
//!
//! Made between the two passes. Invariants: the plan is made from all inputs; the second pass
//! does not change it.

use std::io::Write;
use std::path::PathBuf;

use profiler_json::JsonWriter;
use serde_json::{Map, Value};

use super::align::Placed;
use super::hosts::HostRecord;
use super::input::Input;
use super::lists::Lists;
use super::meta::Member;
use super::naming::{HostNames, unique};
use super::second_pass::{InputNumbers, SecondPass, SharedContents};
use super::{HostShift, MergeCounts, MergeError, MergedHost, align, meta, warnings};
use profiler_reader::text::Pass;
use profiler_reader::{ReadError, walk_file};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Plan {
    inputs: Vec<Input>,
    members: Vec<Member>,
    hosts: Vec<HostRecord>,
    start_unix_ns: i64,
    warnings: Vec<String>,
}

impl Plan {
    pub(super) fn new(mut inputs: Vec<Input>, shifts: &[HostShift]) -> Result<Self, MergeError> {
        let all = inputs.iter().flat_map(|input| &input.hosts);
        let names: Vec<String> = all.map(|host| host.name.clone()).collect();
        let ids = unique(&names);
        shift(&mut inputs, shifts, &ids)?;
        let anchors: Vec<_> = inputs.iter().map(|input| input.anchor.clone()).collect();
        let (start_unix_ns, placed) = align::place(&anchors);
        let warnings = warnings::of(&inputs, &placed, &ids);
        let mut plan = Self {
            inputs: Vec::new(),
            members: Vec::new(),
            hosts: Vec::new(),
            start_unix_ns,
            warnings,
        };
        for (input, placed) in inputs.into_iter().zip(placed) {
            plan.add(input, placed, &ids);
        }
        meta::check(&plan.members).map_err(|why| MergeError::Incompatible { why })?;
        Ok(plan)
    }

    fn add(&mut self, mut input: Input, placed: Placed, ids: &[String]) {
        let Placed {
            offset_ns,
            correction_ns,
        } = placed;
        let from = self.hosts.len();
        let hosts = std::mem::take(&mut input.hosts);
        let old_ids: Vec<String> = hosts.iter().map(|host| host.id.clone()).collect();
        let new_ids = ids.get(from..from + hosts.len()).unwrap_or_default();
        let moved = |(host, id): (HostRecord, &String)| HostRecord {
            id: id.clone(),
            offset_ns: host.offset_ns.saturating_add(offset_ns),
            shift_ns: host.shift_ns.saturating_add(input.anchor.shift_ns),
            correction_ns: host.correction_ns.saturating_add(correction_ns),
            ..host
        };
        self.hosts.extend(hosts.into_iter().zip(new_ids).map(moved));
        let before = self.inputs.iter().map(|input| input.threads);
        self.members.push(Member {
            meta: std::mem::take(&mut input.meta),
            names: HostNames::new(&old_ids, new_ids, ids.len()),
            old_ids,
            offset_ns,
            first_thread: before.sum(),
            hosts: from..self.hosts.len(),
        });
        self.inputs.push(input);
    }

    /// Reads an input again, and writes its threads.
    pub(super) fn second_pass<W: Write>(
        &self,
        place: usize,
        numbers: &InputNumbers,
        pass: Pass,
        shared: &mut SharedContents,
        lists: &mut Lists,
        out: &mut JsonWriter<W>,
    ) -> Result<MergeCounts, MergeError> {
        let (Some(input), Some(member)) = (self.inputs.get(place), self.members.get(place)) else {
            return Ok(MergeCounts::default());
        };
        let file = input.open_again()?;
        let mut second = SecondPass::new(numbers, member, shared, lists, out);
        let walked = walk_file(&input.path, &file, pass, &mut second);
        let counts = second.counts();
        match walked {
            // The reason is returned when the output and the lists are finished.
            Err(ReadError::NotAProfile { .. }) if out.is_failed() || lists.is_failed() => {
                Ok(counts)
            }
            walked => walked.map(|_| counts).map_err(MergeError::from),
        }
    }

    /// The length of all texts that are merged.
    pub(super) fn length(&self) -> u64 {
        let lengths = self.inputs.iter().map(|input| input.length);
        lengths.fold(0, u64::saturating_add)
    }

    /// The member `meta`, the hosts, and the warnings.
    pub(super) fn finish(
        mut self,
        shared: SharedContents,
    ) -> (Map<String, Value>, Vec<MergedHost>, Vec<String>) {
        let mut merged = meta::merge(&self.members, &mut self.hosts, self.start_unix_ns);
        merged.insert("categories".to_owned(), shared.categories.into_value());
        merged.insert("markerSchema".to_owned(), shared.schemas.into_value());
        let files = self.members.iter().zip(&self.inputs);
        let files: Vec<PathBuf> = files
            .flat_map(|(member, input)| member.hosts.clone().map(|_| input.path.clone()))
            .collect();
        let hosts = self.hosts.iter().zip(files).enumerate();
        let hosts = hosts.map(|(place, (host, file))| MergedHost {
            name: host.id.clone(),
            file,
            begins_ms: host.offset_ns as f64 / 1e6,
            shifted_ms: host.shift_ns as f64 / 1e6,
            uncertainty: host.uncertainty(self.hosts.get(..place).unwrap_or_default()),
        });
        let hosts = hosts.collect();
        let records = self.hosts.into_iter().map(HostRecord::into_value);
        merged.insert("hosts".to_owned(), records.collect());
        (merged, hosts, self.warnings)
    }
}

/// Stores the caller's shifts in the inputs. `ids` are the names of all hosts.
fn shift(inputs: &mut [Input], shifts: &[HostShift], ids: &[String]) -> Result<(), MergeError> {
    for HostShift { host, ns } in shifts {
        let Some(place) = ids.iter().position(|id| id == host) else {
            return Err(MergeError::UnknownHost {
                host: host.clone(),
                hosts: ids.to_vec(),
            });
        };
        let mut before = 0;
        let input = inputs.iter_mut().find(|input| {
            before += input.hosts.len();
            place < before
        });
        if let Some(input) = input {
            input.anchor.shift_ns = input.anchor.shift_ns.saturating_add(*ns);
        }
    }
    Ok(())
}
