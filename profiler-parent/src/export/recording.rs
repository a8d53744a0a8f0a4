//! The second look at a profile: thread after thread, each with all that a format needs to write it.
//!
//! One thread is held at a time, beside what the [survey](super::survey) holds.

use std::cell::Cell;
use std::fs::File;
use std::io::BufReader;

use serde::Deserialize as _;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny};

use super::ExportError;
use super::bounded::Counted;
use super::located::{Located, Names};
use super::markers::RawMarkers;
use super::pauses::Pauses;
use super::raw::{MAIN_THREAD, RawThread, RawThreadSeed};
use super::slices::{Cut, Slice, bounded_ns, stacks_of};
use super::survey::Survey;
use super::tables::{NodeId, Tables};
use super::walk::{PartId, Visit, Walk};
use super::{ExportOptions, TimeKind};
use crate::reading::{AddressMap, text};

/// A thread as formats write it.
#[derive(Debug)]
pub(super) struct Thread<'t> {
    pub(super) process: &'t str,
    /// As the profile has it: a number, or one with a life such as `12.1`.
    pub(super) pid: &'t str,
    pub(super) name: &'t str,
    pub(super) tid: u64,
    pub(super) is_main: bool,
    pub(super) tables: &'t Tables,
    pub(super) slices: &'t [Slice],
    pub(super) markers: &'t RawMarkers,
    /// What markers' names and texts are places in.
    pub(super) texts: &'t [String],
    pub(super) shift_ns: i64,
}

/// What takes threads.
pub(super) trait Sink {
    /// Whether it shows markers.
    const WITH_MARKERS: bool = false;
    /// Takes a thread.
    fn thread(&mut self, thread: &Thread<'_>, survey: &Survey) -> Result<(), ExportError>;
}

/// A profile that was looked through once.
#[derive(Debug)]
pub(super) struct Recording {
    file: File,
    pub(super) survey: Survey,
    time: TimeKind,
    /// Bytes of the text.
    length: u64,
}

impl Recording {
    /// Looks through a profile, and finds names for what has none.
    pub(super) fn open(path: &std::path::Path, options: &ExportOptions) -> Result<Self, ExportError> {
        let unreadable = |source| ExportError::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(unreadable)?;
        let mut survey = Survey::new(options.names);
        let length = walk(&file, &mut survey).map_err(|error| error.at(path))?;
        if !survey.has_meta {
            return Err(ExportError::NotAProfile { path: path.to_owned(), why: "it has no meta".to_owned() });
        }
        survey.name();
        Ok(Self { file, survey, time: options.time, length })
    }

    /// Bytes that an export of it may have, see [`super::bounded`].
    pub(super) const fn most_bytes(&self) -> u64 {
        super::bounded::most_bytes(self.length)
    }

    /// Gives all threads to `sink`.
    pub(super) fn threads<S: Sink>(
        &self,
        path: &std::path::Path,
        sink: &mut S,
    ) -> Result<Totals, ExportError> {
        let mut give = Give { recording: self, sink, failed: None, totals: Totals::default() };
        let walked = walk(&self.file, &mut give);
        match (give.failed, walked) {
            (Some(failed), _) => Err(failed),
            (None, walked) => walked.map(|_| give.totals).map_err(|error| error.at(path)),
        }
    }
}

/// What was given away.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) threads: u64,
    pub(super) samples: u64,
}

enum Failed {
    Read(std::io::Error),
    Parse(serde_json::Error),
}

impl Failed {
    fn at(self, path: &std::path::Path) -> ExportError {
        let path = path.to_owned();
        match self {
            Self::Read(source) => ExportError::Read { path, source },
            Self::Parse(error) => ExportError::NotAProfile { path, why: error.to_string() },
        }
    }
}

/// Gives the length of the text.
fn walk<V: Visit>(file: &File, visit: &mut V) -> Result<u64, Failed> {
    let text = text(file).map_err(Failed::Read)?;
    let length = Cell::new(0);
    // Parsing takes single bytes, which a reader of a known kind gives fastest.
    let mut from = serde_json::Deserializer::from_reader(BufReader::new(Counted::new(text, &length)));
    let walked = Walk::new(visit, &mut 0).deserialize(&mut from);
    walked.and_then(|()| from.end()).map_err(Failed::Parse)?;
    Ok(length.get())
}

struct Give<'r, S> {
    recording: &'r Recording,
    sink: &'r mut S,
    failed: Option<ExportError>,
    totals: Totals,
}

impl<S: Sink> Visit for Give<'_, S> {
    fn begin(&mut self, _: PartId) {}

    fn value<'de, D: Deserializer<'de>>(&mut self, _: PartId, _: &str, from: D) -> Result<(), D::Error> {
        IgnoredAny::deserialize(from).map(drop)
    }

    fn thread<'de, D: Deserializer<'de>>(&mut self, part: PartId, from: D) -> Result<(), D::Error> {
        let thread = RawThreadSeed { with_markers: S::WITH_MARKERS }.deserialize(from)?;
        if let Err(error) = self.give(part, thread) {
            self.failed = Some(error);
            return Err(D::Error::custom("the output failed"));
        }
        Ok(())
    }
}

impl<S: Sink> Give<'_, S> {
    fn give(&mut self, at: PartId, thread: RawThread) -> Result<(), ExportError> {
        let survey = &self.recording.survey;
        let part = survey.parts.get(at.0);
        let shift_ns = bounded_ns(survey.shift_ms(at));
        let ranges = thread.paused.iter().chain(part.iter().flat_map(|part| &part.paused));
        let shift = |at: i64| if at == i64::MIN || at == i64::MAX { at } else { at.saturating_add(shift_ns) };
        let ranges = ranges.filter_map(|range| range.ns()).map(|(start, end)| (shift(start), shift(end)));
        let paused = Pauses::of(if thread.samples.0.iter().all(Vec::is_empty) {
            Vec::new()
        } else {
            ranges.collect()
        });
        let cut = Cut {
            time: self.recording.time,
            interval_ns: survey.meta.interval_ns(),
            cpu_unit_ns: survey.meta.cpu_unit_ns(),
            shift_ns,
            paused,
        };
        let own = self.own_tables(at, &thread);
        let (tables, nodes) = match &own {
            Some((tables, nodes)) => (tables, nodes.clone()),
            None => (&survey.tables, stacks_of(&thread).map(|stack| shared_node(stack?)).collect()),
        };
        let slices = cut.slices(&thread, tables, &nodes);
        let product = part.and_then(|part| part.product.as_deref()).filter(|_| own.is_some());
        let process = thread.process_name.as_deref().or(product).filter(|name| !name.is_empty());
        self.totals.threads += 1;
        self.totals.samples += slices.iter().filter(|slice| slice.is_sample).count() as u64;
        let given = Thread {
            process: process.or(survey.meta.product.as_deref()).unwrap_or("process"),
            pid: &thread.pid,
            name: if thread.name == MAIN_THREAD { "main" } else { &thread.name },
            tid: thread.tid,
            is_main: thread.is_main,
            tables,
            slices: &slices,
            markers: &thread.markers,
            texts: if own.is_some() { &thread.strings } else { &survey.tables.texts },
            shift_ns,
        };
        self.sink.thread(&given, survey)
    }

    /// The tables of a thread that brings its own, and the nodes of its samples.
    fn own_tables(&self, at: PartId, thread: &RawThread) -> Option<(Tables, Vec<Option<NodeId>>)> {
        let survey = &self.recording.survey;
        if survey.meta.preprocessed_profile_version.is_some() {
            return None;
        }
        let libs = AddressMap::of(survey.parts.get(at.0).map_or(&[], |part| &part.libs));
        let names = Names { libs: &libs, namer: &survey.namer };
        let mut located = Located::of(thread, names);
        let nodes = stacks_of(thread).map(|stack| located.leaf(thread, stack?, names)).collect();
        located.tables.find_leaves();
        Some((located.tables, nodes))
    }
}

fn shared_node(stack: usize) -> Option<NodeId> {
    u32::try_from(stack).ok().map(NodeId)
}
