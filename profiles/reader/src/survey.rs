//! The first pass through a profile: collects all data that threads refer to, in any order of the
//! file.
//!
//! Used by [`super::reader`]. During the pass, only the addresses of threads that need a name are
//! kept (Gecko format). Afterwards it holds the tables that threads share (processed format), the
//! libraries, and the names that were found.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess};

use super::addresses::{AddressMap, Lib, code_of};
use super::counters::{CounterLevels, CounterSeries, ReadCounters};
use super::json::{Members, Object, OptionalList, skip};
use super::logs::{Logs, ObservedTimeLog, PushedLog};
use super::meta::Meta;
use super::namer::{Nameless, Namer};
use super::shared::SharedTables;
use super::stacks::Tables;
use super::table::{Columns, Table, as_index};
use super::thread::PausedRange;
use super::walk::{PartId, Visit};
use profiler_files::WorkListener;
use profiler_symbols::SymbolOptions;

/// The data that a reader of a profile needs besides its threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// Names for addresses without one, from the files of this machine.
    pub names: bool,
    /// The logs of processes and captures.
    pub logs: bool,
    /// The values of counters.
    pub counters: bool,
}

/// One process's object. In the processed format the outermost object describes all processes.
#[derive(Debug, Default)]
pub struct Part {
    /// The process's name in `meta`.
    pub product: Option<String>,
    /// Empty unless logs are wanted.
    pub logs: Logs,
    pub(super) start_time: Option<f64>,
    /// The libraries of the process.
    pub libs: Vec<Lib>,
    /// The times in which no sample was taken.
    pub paused: Vec<PausedRange>,
    /// Location texts that may be addresses: whether they occur as a caller's, and as the
    /// innermost.
    addresses: HashMap<String, [bool; 2]>,
}

/// The result of the first pass: all data of a profile except its threads.
#[derive(Debug, Default)]
pub struct Survey {
    /// The profile's `meta`.
    pub meta: Meta,
    /// The objects of processes, by [`PartId`].
    pub parts: Vec<Part>,
    /// The tables that threads share in the processed format.
    pub tables: Tables,
    /// Empty unless counters are wanted.
    pub counters: Vec<CounterLevels>,
    pub(super) has_meta: bool,
    pub(super) namer: Namer,
    wanted: Wanted,
}

impl Survey {
    pub(super) fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            ..Self::default()
        }
    }

    /// What pushers had sent before the capture, by destination. Empty unless logs are wanted.
    pub fn pushed(&self) -> Vec<PushedLog> {
        // Both formats have it in the outermost object.
        let logs = self.parts.first().into_iter();
        let logs = logs.flat_map(|root| root.logs.gathering.values());
        logs.flat_map(|log| log.pushed.iter().cloned()).collect()
    }

    /// The processor time of observed processes, over all sessions of the profile.
    pub fn observed(&self) -> Option<ObservedTimeLog> {
        let logs = self.parts.first().into_iter();
        let logs = logs.flat_map(|root| root.logs.gathering.values());
        let times = logs.filter_map(|log| log.observed);
        times.reduce(|one, other| ObservedTimeLog {
            used_us: one.used_us.saturating_add(other.used_us),
            recorded_us: one.recorded_us.saturating_add(other.recorded_us),
            sampled_us: one.sampled_us.saturating_add(other.sampled_us),
        })
    }

    /// Looks up the addresses that have no name. Must be called once, at the end.
    pub(super) fn name(&mut self, listener: &WorkListener) {
        for part in &mut self.parts {
            let libs = AddressMap::of(&part.libs);
            for (text, kinds) in std::mem::take(&mut part.addresses) {
                let Some((lib, address)) = libs.find(&text) else {
                    continue;
                };
                for (is_leaf, wanted) in [false, true].into_iter().zip(kinds) {
                    if wanted {
                        self.namer.ask(lib, code_of(address, is_leaf));
                    }
                }
            }
        }
        if self.wanted.names {
            self.namer.look_up(SymbolOptions::default(), listener);
        }
    }

    /// The libraries whose addresses have no names.
    pub fn into_nameless(self) -> Vec<Nameless> {
        self.namer.into_nameless()
    }

    /// The names and build ids of the libraries of a process. Names may occur several times.
    pub fn build_ids(&self, part: PartId) -> impl Iterator<Item = (&str, &str)> {
        let libs = self
            .parts
            .get(part.0)
            .into_iter()
            .flat_map(|part| &part.libs);
        libs.filter_map(|lib| Some((lib.name.as_str(), lib.code_id.as_deref()?)))
    }

    /// How much later than the outermost process's this process's time origin is, in milliseconds.
    pub fn shift_ms(&self, part: PartId) -> f64 {
        let start = self.parts.get(part.0).and_then(|part| part.start_time);
        start
            .zip(self.meta.start_time)
            .map_or(0.0, |(start, root)| start - root)
    }
}

impl Visit for Survey {
    fn begin(&mut self, _: PartId) {
        self.parts.push(Part::default());
    }

    fn value<'de, D: Deserializer<'de>>(
        &mut self,
        at: PartId,
        key: &str,
        from: D,
    ) -> Result<(), D::Error> {
        let Wanted { logs, counters, .. } = self.wanted;
        let Some(part) = self.parts.get_mut(at.0) else {
            return Ok(());
        };
        match key {
            "meta" => {
                let meta = Meta::deserialize(from)?;
                (part.product, part.start_time) = (meta.product.clone(), meta.start_time);
                if at == PartId(0) {
                    (self.meta, self.has_meta) = (meta, true);
                }
            }
            "libs" => part.libs = Vec::deserialize(from)?,
            "pausedRanges" => part.paused = Option::deserialize(from)?.unwrap_or_default(),
            "profilingLog" if logs => part.logs.profiling = Deserialize::deserialize(from)?,
            "profileGatheringLog" if logs => part.logs.gathering = Deserialize::deserialize(from)?,
            "counters" if counters => {
                let counters = &mut self.counters;
                let mut read = ReadCounters {
                    part: at,
                    take: |series: CounterSeries| {
                        counters.push(series.into());
                        true
                    },
                };
                OptionalList(&mut read).deserialize(from)?;
            }
            "shared" => {
                let mut shared = SharedTables::default();
                Object(&mut shared).deserialize(from)?;
                self.tables = shared.into_tables();
            }
            _ => drop(IgnoredAny::deserialize(from)?),
        }
        Ok(())
    }

    fn thread<'de, D: Deserializer<'de>>(&mut self, at: PartId, from: D) -> Result<(), D::Error> {
        if !self.wanted.names || self.meta.is_processed() {
            return IgnoredAny::deserialize(from).map(drop);
        }
        let mut thread = Locations::default();
        Object(&mut thread).deserialize(from)?;
        if let Some(part) = self.parts.get_mut(at.0) {
            thread.note(&mut part.addresses);
        }
        Ok(())
    }
}

/// The tables of a thread that map its samples to addresses.
#[derive(Debug, Default)]
struct Locations {
    samples: Table<1>,
    /// `prefix`, `frame`.
    stacks: Table<2>,
    frames: Table<1>,
    strings: Vec<String>,
}

impl Locations {
    /// Notes the addresses on the stacks of samples.
    fn note(&self, addresses: &mut HashMap<String, [bool; 2]>) {
        let [leaves] = &self.samples.0;
        let [prefixes, frames] = &self.stacks.0;
        let rows = prefixes.len().max(frames.len());
        let mut is_leaf = vec![false; rows];
        let mut is_caller = vec![false; rows];
        for leaf in leaves.iter().filter_map(|leaf| as_index(*leaf)) {
            if mark(&mut is_leaf, leaf) {
                continue;
            }
            let mut stack = leaf;
            while let Some(caller) = self.stacks.index(0, stack).filter(|caller| *caller < stack) {
                if mark(&mut is_caller, caller) {
                    break;
                }
                stack = caller;
            }
        }
        let mut of_texts = vec![[false; 2]; self.strings.len()];
        for (row, kinds) in is_caller.into_iter().zip(is_leaf).enumerate() {
            let frame = self.stacks.index(1, row);
            let text = frame.and_then(|frame| self.frames.index(0, frame));
            if let Some(noted) = text.and_then(|text| of_texts.get_mut(text)) {
                *noted = [noted[0] | kinds.0, noted[1] | kinds.1];
            }
        }
        for (text, kinds) in self.strings.iter().zip(of_texts) {
            if kinds != [false; 2] && text.starts_with("0x") {
                let noted = addresses.entry(text.clone()).or_default();
                *noted = [noted[0] | kinds[0], noted[1] | kinds[1]];
            }
        }
    }
}

/// Marks a row. Returns whether it was marked, or does not exist.
fn mark(rows: &mut [bool], row: usize) -> bool {
    rows.get_mut(row)
        .is_none_or(|is_marked| std::mem::replace(is_marked, true))
}

impl Members for Locations {
    const NAME: &'static str = "a thread";

    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "samples" => self.samples = map.next_value_seed(Columns([("stack", 0)]))?,
            "stackTable" => {
                self.stacks = map.next_value_seed(Columns([("prefix", 0), ("frame", 1)]))?
            }
            "frameTable" => self.frames = map.next_value_seed(Columns([("location", 0)]))?,
            "stringTable" => self.strings = map.next_value()?,
            _ => skip(map)?,
        }
        Ok(())
    }
}
