//! Converts `.cpuprofile` files to recordings: a profile in the processed form with one thread.
//!
//! Called by `profiler import`, and by [`super::stack_profile`], which makes a profile of stacks in
//! the same way. A V8 sample lasts until the next one, the last sample until the
//! end; this duration is its weight, in milliseconds, and its time is not changed. Invariant: the
//! file is not trusted: nodes may refer to each other in cycles.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};

use profiler_json::JsonWriter;
use serde::Deserialize;

use super::ExportError;
use profiler_files::output::ProfileFile;
use profiler_files::{WorkEvent, WorkListener};
use profiler_json::PROCESSED_VERSION;
use profiler_reader::text::{Pass, text_of_pass};

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The path of the profile.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// Number of samples.
    pub samples: u64,
}

/// A profile as V8 writes it. Times are microseconds.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Profile {
    pub(super) nodes: Vec<Node>,
    pub(super) start_time: f64,
    pub(super) end_time: f64,
    /// The node of each sample.
    #[serde(default)]
    pub(super) samples: Vec<u64>,
    /// The time of each sample since the previous one.
    #[serde(default)]
    pub(super) time_deltas: Vec<f64>,
}

/// A node of the call tree.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Node {
    pub(super) id: u64,
    pub(super) call_frame: CallFrame,
    #[serde(default)]
    pub(super) children: Vec<u64>,
    pub(super) parent: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallFrame {
    pub(super) function_name: String,
    #[serde(default)]
    pub(super) url: String,
    /// Counts from zero; -1 if unknown.
    #[serde(default = "unknown")]
    pub(super) line_number: i64,
    /// Counts from zero; -1 if unknown.
    #[serde(default = "unknown")]
    pub(super) column_number: i64,
}

/// Where a profile comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    /// The name of the format.
    pub(super) name: &'static str,
    /// Whether functions are those of scripts.
    pub(super) is_script: bool,
}

const CPU_PROFILE: Origin = Origin {
    name: "cpuprofile",
    is_script: true,
};

impl Origin {
    fn category(self, frame: &CallFrame) -> u64 {
        match frame.function_name.as_str() {
            "(idle)" => IDLE,
            "(garbage collector)" => COLLECTOR,
            "(root)" | "(program)" => OTHER,
            _ if self.is_script => SCRIPT,
            _ => OTHER,
        }
    }
}

/// Limit on times from the start, in microseconds (31 years).
const MAX_US: f64 = 1e15;

/// Limit on the start, in microseconds since the system's start or since 1970.
const MAX_START_US: f64 = 4e15;

impl Profile {
    /// The time from the start to the end.
    fn length_us(&self) -> f64 {
        (self.end_time - self.start_time).clamp(0.0, MAX_US)
    }
}

const fn unknown() -> i64 {
    -1
}

/// Converts the `.cpuprofile` file `from` to a profile in the processed form at `to`, compressed if
/// that ends in `.gz`. Holds the whole file in memory.
///
/// # Errors
/// [`ExportError`]; `to` is unchanged then.
pub fn import_cpuprofile(from: &Path, to: &Path) -> Result<Imported, ExportError> {
    import_cpuprofile_with(from, to, &WorkListener::default())
}

/// Like [`import_cpuprofile`], and reports the progress.
///
/// # Errors
/// As [`import_cpuprofile`].
pub fn import_cpuprofile_with(
    from: &Path,
    to: &Path,
    listener: &WorkListener,
) -> Result<Imported, ExportError> {
    super::not_onto_itself(from, to)?;
    let unreadable = |source| ExportError::Read {
        path: from.to_owned(),
        source,
    };
    let file = File::open(from).map_err(unreadable)?;
    let only = Pass {
        listener: listener.clone(),
        before: 0,
        of: 1,
    };
    let input = BufReader::new(text_of_pass(&file, only).map_err(unreadable)?);
    let profile: Profile =
        serde_json::from_reader(input).map_err(|error| ExportError::NotACpuProfile {
            path: from.to_owned(),
            why: error.to_string(),
        })?;
    listener.send(WorkEvent::Writing);
    let name = from
        .file_stem()
        .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    write(&profile, &name, CPU_PROFILE, to)
}

/// Writes a profile in the processed form.
pub(super) fn write(
    profile: &Profile,
    name: &str,
    origin: Origin,
    to: &Path,
) -> Result<Imported, ExportError> {
    let mut file = ProfileFile::create(to)?;
    let mut out = JsonWriter::new(&mut file);
    let samples = Tables::of(profile, origin).write(profile, name, &mut out);
    out.finish()?;
    let bytes = file.commit()?;
    Ok(Imported {
        path: to.to_owned(),
        bytes,
        samples,
    })
}

/// The source files: the indices of their names among the texts, and the row of each.
#[derive(Debug, Default)]
struct Sources {
    all: Vec<usize>,
    rows: HashMap<usize, usize>,
}

/// The tables of the processed form.
#[derive(Debug)]
struct Tables {
    origin: Origin,
    texts: Vec<String>,
    known_texts: HashMap<String, usize>,
    funcs: Vec<CallFrame>,
    /// Indices of the caller and of the function.
    stacks: Vec<(Option<usize>, usize)>,
    by_id: HashMap<u64, usize>,
}

impl Tables {
    fn of(profile: &Profile, origin: Origin) -> Self {
        let mut tables = Self {
            origin,
            texts: Vec::new(),
            known_texts: HashMap::new(),
            funcs: Vec::new(),
            stacks: Vec::new(),
            by_id: HashMap::new(),
        };
        let rows: HashMap<u64, usize> = (0..)
            .zip(&profile.nodes)
            .map(|(row, node)| (node.id, row))
            .collect();
        let mut callers: HashMap<u64, u64> = HashMap::new();
        for node in &profile.nodes {
            callers.extend(node.parent.map(|parent| (node.id, parent)));
            callers.extend(node.children.iter().map(|child| (*child, node.id)));
        }
        let mut funcs = HashMap::new();
        for node in &profile.nodes {
            tables.add(
                node.id,
                &callers,
                |id| profile.nodes.get(*rows.get(&id)?),
                &mut funcs,
            );
        }
        tables
    }

    /// Adds a node after its callers. In a cycle, one node is treated as having no caller.
    fn add<'p>(
        &mut self,
        id: u64,
        callers: &HashMap<u64, u64>,
        node: impl Fn(u64) -> Option<&'p Node>,
        funcs: &mut HashMap<CallFrame, usize>,
    ) {
        let mut path = vec![id];
        let mut on_path = std::collections::HashSet::from([id]);
        while let Some(caller) = path.last().and_then(|last| callers.get(last)) {
            if self.by_id.contains_key(caller)
                || node(*caller).is_none()
                || !on_path.insert(*caller)
            {
                break;
            }
            path.push(*caller);
        }
        for id in path.into_iter().rev() {
            let Some(frame) = node(id).map(|node| node.call_frame.clone()) else {
                continue;
            };
            if self.by_id.contains_key(&id) {
                continue;
            }
            let caller = callers
                .get(&id)
                .and_then(|caller| self.by_id.get(caller))
                .copied();
            let func = *funcs.entry(frame).or_insert_with_key(|frame| {
                self.funcs.push(frame.clone());
                self.funcs.len() - 1
            });
            self.by_id.insert(id, self.stacks.len());
            self.stacks.push((caller, func));
        }
    }

    fn text(&mut self, text: &str) -> usize {
        let next = self.texts.len();
        *self.known_texts.entry(text.to_owned()).or_insert_with(|| {
            self.texts.push(text.to_owned());
            next
        })
    }

    /// Writes the profile. Returns the number of samples.
    fn write<W: Write>(mut self, profile: &Profile, name: &str, out: &mut JsonWriter<W>) -> u64 {
        out.begin_object();
        write_meta(profile, name, self.origin, out);
        for empty in ["libs", "counters", "profilerOverhead"] {
            out.key(empty);
            out.begin_array();
            out.end_array();
        }
        out.key("threads");
        out.begin_array();
        let samples = self.write_thread(profile, name, out);
        out.end_array();
        self.write_shared(out);
        out.end_object();
        samples
    }

    fn write_thread<W: Write>(
        &self,
        profile: &Profile,
        name: &str,
        out: &mut JsonWriter<W>,
    ) -> u64 {
        out.begin_object();
        out.entry_str("name", "GeckoMain");
        out.entry_bool("isMainThread", true);
        out.entry_str("processType", "default");
        out.entry_str("processName", name);
        out.entry_str("pid", "1");
        out.entry_u64("tid", 1);
        for (key, value) in [("processStartupTime", "0"), ("processShutdownTime", "null")] {
            out.key(key);
            out.raw(value);
        }
        for (key, value) in [
            ("registerTime", "0"),
            ("unregisterTime", "null"),
            ("pausedRanges", "[]"),
        ] {
            out.key(key);
            out.raw(value);
        }
        let samples = self.write_samples(profile, out);
        out.key("markers");
        out.raw(NO_MARKERS);
        out.end_object();
        samples
    }

    fn write_samples<W: Write>(&self, profile: &Profile, out: &mut JsonWriter<W>) -> u64 {
        let times = times(profile);
        let ends = times.iter().skip(1).copied().chain([profile.length_us()]);
        out.key("samples");
        out.begin_object();
        column(
            out,
            "stack",
            times.iter().zip(&profile.samples),
            |(_, id), out| number(self.by_id.get(id), out),
        );
        let befores = std::iter::once(&0.0).chain(&times);
        column(
            out,
            "timeDeltas",
            times.iter().zip(befores),
            |(at, before), out| out.f64((at - before) / 1e3),
        );
        column(out, "weight", times.iter().zip(ends), |(at, end), out| {
            out.f64((end - at).max(0.0) / 1e3)
        });
        out.entry_str("weightType", "tracing-ms");
        out.entry_u64("length", times.len() as u64);
        out.end_object();
        times.len() as u64
    }

    fn write_shared<W: Write>(&mut self, out: &mut JsonWriter<W>) {
        let funcs = std::mem::take(&mut self.funcs);
        let shown = |frame: &CallFrame| match frame.function_name.as_str() {
            "" => "(anonymous)".to_owned(),
            name => name.to_owned(),
        };
        let names: Vec<usize> = funcs.iter().map(|frame| self.text(&shown(frame))).collect();
        let mut sources = Sources::default();
        let of: Vec<Option<usize>> = funcs
            .iter()
            .map(|frame| self.source(&frame.url, &mut sources))
            .collect();
        out.key("shared");
        out.begin_object();
        table(out, "stackTable", self.stacks.len(), |out| {
            column(out, "frame", &self.stacks, |(_, func), out| {
                out.u64(*func as u64)
            });
            column(out, "prefix", &self.stacks, |(caller, _), out| {
                number(caller.as_ref(), out)
            });
        });
        write_frame_table(&funcs, self.origin, out);
        write_func_table(&funcs, &names, &of, self.origin, out);
        table(out, "resourceTable", 0, |out| {
            empty(&["lib", "name", "host", "type"], out)
        });
        table(out, "nativeSymbols", 0, |out| {
            empty(&["libIndex", "address", "name", "functionSize"], out)
        });
        let sources = sources.all;
        table(out, "sources", sources.len(), |out| {
            column(out, "uuid", &sources, |_, out| out.null());
            column(out, "filename", &sources, |source, out| {
                out.u64(*source as u64)
            });
        });
        column(out, "stringArray", &self.texts, |text, out| {
            out.string(text)
        });
        out.end_object();
    }

    /// The row of a file in the table of sources.
    fn source(&mut self, url: &str, sources: &mut Sources) -> Option<usize> {
        if url.is_empty() {
            return None;
        }
        let text = self.text(url);
        let next = sources.all.len();
        Some(*sources.rows.entry(text).or_insert_with(|| {
            sources.all.push(text);
            next
        }))
    }
}

/// Converts a line or column that counts from zero to the viewer's, which counts from one.
fn from_one(number: i64) -> Option<u64> {
    u64::try_from(number).ok().map(|number| number + 1)
}

/// Writes the table of frames: one frame for each function.
fn write_frame_table<W: Write>(funcs: &[CallFrame], origin: Origin, out: &mut JsonWriter<W>) {
    table(out, "frameTable", funcs.len(), |out| {
        for (key, value) in [
            ("address", "-1"),
            ("inlineDepth", "0"),
            ("subcategory", "0"),
        ] {
            column(out, key, funcs, |_, out| out.raw(value));
        }
        column(out, "category", funcs, |frame, out| {
            out.u64(origin.category(frame))
        });
        column(out, "func", 0..funcs.len(), |func, out| {
            out.u64(func as u64)
        });
        for key in ["nativeSymbol", "innerWindowID"] {
            column(out, key, funcs, |_, out| out.null());
        }
        column(out, "line", funcs, |frame, out| {
            maybe(from_one(frame.line_number), out)
        });
        column(out, "column", funcs, |frame, out| {
            maybe(from_one(frame.column_number), out)
        });
    });
}

/// Writes the table of functions. `names` and `sources` have an item for each function: the index
/// of its name among the texts, and the row of its file among the sources.
fn write_func_table<W: Write>(
    funcs: &[CallFrame],
    names: &[usize],
    sources: &[Option<usize>],
    origin: Origin,
    out: &mut JsonWriter<W>,
) {
    table(out, "funcTable", funcs.len(), |out| {
        column(out, "name", names, |name, out| out.u64(*name as u64));
        for key in ["isJS", "relevantForJS"] {
            column(out, key, funcs, |frame, out| {
                out.bool(key == "isJS" && origin.category(frame) == SCRIPT)
            });
        }
        column(out, "resource", funcs, |_, out| out.i64(-1));
        column(out, "source", sources, |source, out| {
            number(source.as_ref(), out)
        });
        column(out, "lineNumber", funcs, |frame, out| {
            maybe(from_one(frame.line_number), out)
        });
        column(out, "columnNumber", funcs, |frame, out| {
            maybe(from_one(frame.column_number), out)
        });
    });
}

const NO_MARKERS: &str =
    r#"{"data":[],"name":[],"startTime":[],"endTime":[],"phase":[],"category":[],"length":0}"#;
/// Rows in the table of categories.
const OTHER: u64 = 0;
const IDLE: u64 = 1;
const SCRIPT: u64 = 2;
const COLLECTOR: u64 = 3;
const CATEGORIES: &str = r#"[{"name":"Other","color":"grey","subcategories":["Other"]},
{"name":"Idle","color":"transparent","subcategories":["Other"]},
{"name":"JavaScript","color":"yellow","subcategories":["Other"]},
{"name":"GC / CC","color":"orange","subcategories":["Other"]}]"#;

/// The times of the samples, in microseconds from the start, never decreasing. Samples without a
/// time are left out.
fn times(profile: &Profile) -> Vec<f64> {
    let mut at = 0.0;
    let mut latest = 0.0_f64;
    let deltas = profile.time_deltas.iter().take(profile.samples.len());
    deltas
        .map(|delta| {
            at = (at + delta).clamp(-MAX_US, MAX_US);
            latest = latest.max(at);
            latest
        })
        .collect()
}

fn write_meta<W: Write>(profile: &Profile, name: &str, origin: Origin, out: &mut JsonWriter<W>) {
    let count = profile.samples.len().max(1) as f64;
    let length_ms = profile.length_us() / 1e3;
    out.key("meta");
    out.begin_object();
    out.entry_u64("version", u64::from(profiler_json::GECKO_VERSION));
    out.entry_u64("preprocessedProfileVersion", u64::from(PROCESSED_VERSION));
    for (key, ms) in [
        ("interval", length_ms / count),
        ("startTime", 0.0),
        ("profilingStartTime", 0.0),
    ] {
        out.key(key);
        out.f64(ms);
    }
    out.key("profilingEndTime");
    out.f64(length_ms);
    out.key("startTimeAsClockMonotonicNanosecondsSinceBoot");
    out.f64(profile.start_time.clamp(0.0, MAX_START_US) * 1e3);
    out.entry_u64("processType", 0);
    out.entry_str("product", name);
    out.entry_str("importedFrom", origin.name);
    out.entry_u64("stackwalk", 1);
    out.entry_bool("debug", false);
    out.entry_bool("symbolicated", true);
    out.entry_bool("sourceCodeIsNotOnSearchfox", true);
    out.key("sampleUnits");
    out.raw(r#"{"time":"ms","eventDelay":"ms","threadCPUDelta":"ns"}"#);
    out.key("categories");
    out.raw(CATEGORIES);
    out.key("markerSchema");
    out.raw("[]");
    out.end_object();
}

fn table<W: Write>(
    out: &mut JsonWriter<W>,
    key: &str,
    len: usize,
    columns: impl FnOnce(&mut JsonWriter<W>),
) {
    out.key(key);
    out.begin_object();
    columns(out);
    out.entry_u64("length", len as u64);
    out.end_object();
}

fn column<W: Write, T>(
    out: &mut JsonWriter<W>,
    key: &str,
    items: impl IntoIterator<Item = T>,
    mut item: impl FnMut(T, &mut JsonWriter<W>),
) {
    out.key(key);
    out.begin_array();
    items.into_iter().for_each(|value| item(value, out));
    out.end_array();
}

fn empty<W: Write>(keys: &[&str], out: &mut JsonWriter<W>) {
    keys.iter()
        .for_each(|key| column(out, key, std::iter::empty::<()>(), |(), _| {}));
}

fn number<W: Write>(value: Option<&usize>, out: &mut JsonWriter<W>) {
    maybe(value.map(|value| *value as u64), out);
}

fn maybe<W: Write>(value: Option<u64>, out: &mut JsonWriter<W>) {
    match value {
        Some(value) => out.u64(value),
        None => out.null(),
    }
}
