//! Reads a profile file as a stream: first the data that its threads refer to, then one thread at a
//! time.
//!
//! Called by `profiler info` and by every export. Invariant: memory holds the
//! [survey](super::survey) and one thread, never the text of the file.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize as _;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny};

use super::addresses::AddressMap;
use super::counters::{CounterSeries, ReadCounters};
use super::json::{Object, OptionalList};
use super::located::{Located, Names};
use super::markers::NamedMarker;
use super::meta::Meta;
use super::parser::Extents;
use super::stacks::{NodeId, Tables};
use super::survey::{Survey, Wanted};
use super::text::{self, Pass};
use super::thread::{MAIN_THREAD, RawThread, ReadThread};
use super::walk::{PartId, Visit, walk_again};
use profiler_files::WorkListener;

/// The reason why a profile cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The profile.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The file is not a profile.
    #[error("{} is not a profile: {why}", path.display())]
    NotAProfile {
        /// The file.
        path: PathBuf,
        /// The problem, in words.
        why: String,
    },
}

/// A thread of a profile.
#[derive(Debug)]
pub struct Thread<'t> {
    /// The object that contains it.
    pub part: PartId,
    /// Its process's name.
    pub process: &'t str,
    /// Its display name.
    pub name: &'t str,
    /// The thread as the file has it.
    pub raw: &'t RawThread,
    /// The tables that its samples refer to.
    pub tables: &'t Tables,
    /// Whether the tables are its own (Gecko format), and not shared by all threads.
    pub has_own_tables: bool,
    /// The stack of each sample.
    pub nodes: &'t [Option<NodeId>],
    /// The texts that the names and texts of its markers index.
    pub texts: &'t [String],
}

impl Thread<'_> {
    /// The markers with a name, in the order of the file; none if the sink does not need markers.
    pub fn markers(&self) -> impl Iterator<Item = NamedMarker<'_>> {
        self.raw
            .markers
            .iter()
            .filter_map(|marker| NamedMarker::of(marker, self.texts))
    }
}

/// Receives the threads of a profile.
pub trait ThreadSink {
    /// The reason why the sink cannot receive more threads.
    type Error: From<ReadError>;
    /// Whether it needs markers.
    const WITH_MARKERS: bool = false;
    /// Whether it needs the values of counters over time.
    const WITH_COUNTERS: bool = false;

    /// Takes a thread.
    ///
    /// # Errors
    /// Ends the reading.
    fn thread(&mut self, thread: &Thread<'_>, survey: &Survey) -> Result<(), Self::Error>;

    /// Takes a counter, before or after the threads of its process.
    ///
    /// # Errors
    /// Ends the reading.
    fn counter(&mut self, _: &CounterSeries, _: &Survey) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// Reads a profile twice: on opening, and for its threads.
#[derive(Debug)]
pub struct ProfileReader {
    path: PathBuf,
    file: File,
    survey: Survey,
    /// Bytes of the text.
    length: u64,
    listener: WorkListener,
    /// The long values that the first pass has skipped.
    skipped: Extents,
}

impl ProfileReader {
    /// Reads a profile once, compressed or not, and looks up the requested names.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn open(path: &Path, wanted: Wanted) -> Result<Self, ReadError> {
        Self::open_with(path, wanted, WorkListener::default())
    }

    /// Like [`Self::open`], and reports the progress of both passes.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn open_with(
        path: &Path,
        wanted: Wanted,
        listener: WorkListener,
    ) -> Result<Self, ReadError> {
        let file = File::open(path).map_err(|source| ReadError::Read {
            path: path.to_owned(),
            source,
        })?;
        let mut survey = Survey::new(wanted);
        let first = Pass {
            listener: listener.clone(),
            before: 0,
            of: 2,
        };
        let (length, skipped) = read(path, &file, first, &Extents::default(), &mut survey)?;
        if !survey.has_meta {
            let why = "it has no meta".to_owned();
            return Err(ReadError::NotAProfile {
                path: path.to_owned(),
                why,
            });
        }
        survey.name(&listener);
        Ok(Self {
            path: path.to_owned(),
            file,
            survey,
            length,
            listener,
            skipped,
        })
    }

    /// The description of the profile, for a caller that knows more about it.
    pub const fn meta_mut(&mut self) -> &mut Meta {
        &mut self.survey.meta
    }

    /// All data except the threads.
    pub const fn survey(&self) -> &Survey {
        &self.survey
    }

    /// All data except the threads.
    pub fn into_survey(self) -> Survey {
        self.survey
    }

    /// Bytes of the text.
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// Reads the profile again, and passes all threads to `sink` in the order of the file.
    ///
    /// # Errors
    /// The error of `sink`, or [`ReadError`].
    pub fn threads<S: ThreadSink>(&self, sink: &mut S) -> Result<(), S::Error> {
        let mut give = Give {
            survey: &self.survey,
            sink,
            failed: None,
        };
        let second = Pass {
            listener: self.listener.clone(),
            before: 1,
            of: 2,
        };
        let done = read(&self.path, &self.file, second, &self.skipped, &mut give);
        match give.failed {
            Some(failed) => Err(failed),
            None => Ok(done.map(drop)?),
        }
    }
}

/// Walks through the text of a file once. Returns the length of the text.
pub fn walk_file<V: Visit>(
    path: &Path,
    file: &File,
    pass: Pass,
    visit: &mut V,
) -> Result<u64, ReadError> {
    read(path, file, pass, &Extents::default(), visit).map(|(length, _)| length)
}

/// Walks through the text of a file, and jumps over the known long values. Returns the length of
/// the text, and the long values that were skipped.
fn read<V: Visit>(
    path: &Path,
    file: &File,
    pass: Pass,
    known: &Extents,
    visit: &mut V,
) -> Result<(u64, Extents), ReadError> {
    let text = text::open(file, pass).map_err(|source| ReadError::Read {
        path: path.to_owned(),
        source,
    })?;
    walk_again(text, known, visit).map_err(|error| ReadError::NotAProfile {
        path: path.to_owned(),
        why: error.to_string(),
    })
}

/// The second pass: passes every thread to the sink.
struct Give<'r, S: ThreadSink> {
    survey: &'r Survey,
    sink: &'r mut S,
    failed: Option<S::Error>,
}

impl<S: ThreadSink> Visit for Give<'_, S> {
    fn thread<'de, D: Deserializer<'de>>(&mut self, part: PartId, from: D) -> Result<(), D::Error> {
        let mut read = ReadThread {
            with_markers: S::WITH_MARKERS,
            ..ReadThread::default()
        };
        Object(&mut read).deserialize(from)?;
        self.give(part, &read.thread).map_err(|error| {
            self.failed = Some(error);
            D::Error::custom("the output failed")
        })
    }

    fn value<'de, D: Deserializer<'de>>(
        &mut self,
        part: PartId,
        key: &str,
        from: D,
    ) -> Result<(), D::Error> {
        if key != "counters" || !S::WITH_COUNTERS {
            return IgnoredAny::deserialize(from).map(drop);
        }
        let mut read = ReadCounters {
            part,
            take: |series: CounterSeries| {
                self.failed = self.sink.counter(&series, self.survey).err();
                self.failed.is_none()
            },
        };
        OptionalList(&mut read).deserialize(from)
    }
}

impl<S: ThreadSink> Give<'_, S> {
    fn give(&mut self, part: PartId, raw: &RawThread) -> Result<(), S::Error> {
        let survey = self.survey;
        let own = own_tables(survey, part, raw);
        let has_own_tables = own.is_some();
        let shared = || raw.sampled_stacks().map(|stack| shared_node(stack?));
        let (own, nodes) = own.map_or_else(
            || (None, shared().collect()),
            |(tables, nodes)| (Some(tables), nodes),
        );
        let tables = own.as_ref().unwrap_or(&survey.tables);
        let product = survey
            .parts
            .get(part.0)
            .and_then(|part| part.product.as_deref());
        let product = product.filter(|_| has_own_tables);
        let process = raw
            .process_name
            .as_deref()
            .or(product)
            .filter(|name| !name.is_empty());
        let thread = Thread {
            part,
            process: process
                .or(survey.meta.product.as_deref())
                .unwrap_or("process"),
            name: if raw.name == MAIN_THREAD {
                "main"
            } else {
                &raw.name
            },
            raw,
            tables,
            has_own_tables,
            nodes: &nodes,
            texts: if has_own_tables {
                &raw.strings
            } else {
                &survey.tables.texts
            },
        };
        self.sink.thread(&thread, survey)
    }
}

/// The tables of a thread that has its own, and the nodes of its samples.
fn own_tables(
    survey: &Survey,
    at: PartId,
    thread: &RawThread,
) -> Option<(Tables, Vec<Option<NodeId>>)> {
    if survey.meta.is_processed() {
        return None;
    }
    let libs = AddressMap::of(survey.parts.get(at.0).map_or(&[], |part| &part.libs));
    let names = Names {
        libs: &libs,
        namer: &survey.namer,
    };
    let mut located = Located::of(thread, names);
    let nodes = thread
        .sampled_stacks()
        .map(|stack| located.leaf(thread, stack?, names))
        .collect();
    located.tables.find_named();
    Some((located.tables, nodes))
}

fn shared_node(stack: usize) -> Option<NodeId> {
    u32::try_from(stack).ok().map(NodeId)
}
