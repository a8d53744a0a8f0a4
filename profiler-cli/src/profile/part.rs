//! The outermost object of a profile, and the object of each process below it.
//!
//! Read as a stream, in either form; which one it is may be known at the end only.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::books::{Books, Gathering};
use super::functions::{Functions, StackCosts};
use super::locations::Locations;
use super::names::Shared;
use super::thread::{Head, Thread, ThreadSeed};
use profiler_parent::internal::reading::{Lib, Namer};

/// One process's object. In the processed form the outermost one is all processes'.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) meta: Meta,
    pub(super) threads: Vec<Head>,
    pub(super) processes: Vec<Part>,
    pub(super) books: BTreeMap<String, Books>,
    pub(super) gathering: BTreeMap<String, Gathering>,
    shared: Shared,
    libs: Vec<Lib>,
    /// Of threads that share their tables.
    costs: StackCosts,
    /// Of threads that have their own.
    locations: Locations,
}

/// What is said of the whole.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Meta {
    pub(super) product: Option<String>,
    pub(super) profiling_start_time: Option<f64>,
    pub(super) profiling_end_time: Option<f64>,
    pub(super) interval: Option<f64>,
    pub(super) sample_units: Option<SampleUnits>,
    pub(super) preprocessed_profile_version: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SampleUnits {
    #[serde(rename = "threadCPUDelta")]
    pub(super) cpu: Option<String>,
}

impl Meta {
    /// Whether the profile is in the viewer's own form.
    pub(super) fn is_processed(&self) -> bool {
        self.preprocessed_profile_version.is_some()
    }

    /// Milliseconds in one unit of processor time; `None` if it is counted in something that is no time.
    pub(super) fn cpu_ms(&self) -> Option<f64> {
        match self.sample_units.as_ref()?.cpu.as_deref()? {
            "ns" => Some(1e-6),
            "µs" => Some(1e-3),
            _ => None,
        }
    }
}

impl Part {
    /// Asks for the names of all addresses that have none.
    pub(super) fn ask(&self, namer: &mut Namer) {
        self.locations.ask(&self.libs, namer);
        self.processes.iter().for_each(|process| process.ask(namer));
    }

    /// Adds up the costs of all functions.
    pub(super) fn count(&self, namer: &Namer, functions: &mut Functions) {
        functions.all += self.costs.all;
        functions.all += self.locations.all;
        self.shared.count(&self.costs, functions);
        self.locations.count(&self.libs, namer, functions);
        self.processes.iter().for_each(|process| process.count(namer, functions));
    }

    fn take_in(&mut self, thread: Thread) {
        let mut thread = thread;
        self.threads.push(std::mem::take(&mut thread.head));
        match thread.locations.0.iter().all(Vec::is_empty) {
            true => self.costs.add(&thread.samples),
            false => self.locations.add(thread),
        }
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(PartVisitor)
    }
}

struct PartVisitor;

impl<'de> Visitor<'de> for PartVisitor {
    type Value = Part;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a profile")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Part, A::Error> {
        let mut part = Part::default();
        let mut has_meta = false;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "meta" => {
                    part.meta = map.next_value()?;
                    has_meta = true;
                }
                "libs" => part.libs = map.next_value()?,
                "threads" => map.next_value_seed(Threads(&mut part))?,
                "processes" => part.processes = map.next_value()?,
                "shared" => part.shared = map.next_value()?,
                "profilingLog" => part.books = map.next_value()?,
                "profileGatheringLog" => part.gathering = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        match has_meta {
            true => Ok(part),
            false => Err(serde::de::Error::missing_field("meta")),
        }
    }
}

/// Takes in the threads one after the other.
struct Threads<'p>(&'p mut Part);

impl<'de> DeserializeSeed<'de> for Threads<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Threads<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("threads")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut threads: A) -> Result<(), A::Error> {
        while let Some(thread) = threads.next_element_seed(ThreadSeed)? {
            self.0.take_in(thread);
        }
        Ok(())
    }
}
