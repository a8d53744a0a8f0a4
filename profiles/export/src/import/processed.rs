//! Writes an imported profile in the processed format, with one thread.
//!
//! Called by [`super::import_cpuprofile`] and by [`super::super::stack_profile`]. The duration of a
//! sample is its weight, in milliseconds.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use profiler_files::output::ProfileFile;
use profiler_json::{JsonWriter, PROCESSED_VERSION};

use super::super::ExportError;
use super::Imported;
use super::columns::{column, empty, number, table};
use super::format::{CallFrame, Node};
use super::functions::{write_frame_table, write_func_table};
use super::origin::{CATEGORIES, Origin};
use super::tables::Tables;
use super::timing::{TimedSample, Timing};

/// Limit on the start, in microseconds since the system's start or since 1970.
const MAX_START_US: f64 = 4e15;

/// Writes a profile in the processed form, under a name.
pub(in super::super) fn write(
    nodes: &[Node],
    timing: &Timing,
    (name, origin): (&str, Origin),
    to: &Path,
) -> Result<Imported, ExportError> {
    let mut file = ProfileFile::create(to)?;
    let mut out = JsonWriter::new(&mut file);
    let writer = Writer {
        origin,
        texts: Vec::new(),
        known_texts: HashMap::new(),
        tables: Tables::of(nodes),
    };
    writer.write(timing, name, &mut out);
    out.finish()?;
    let bytes = file.commit()?;
    Ok(Imported {
        path: to.to_owned(),
        bytes,
        samples: timing.samples.len() as u64,
        remarks: Vec::new(),
    })
}

/// What is written.
#[derive(Debug)]
struct Writer {
    origin: Origin,
    texts: Vec<String>,
    known_texts: HashMap<String, usize>,
    tables: Tables,
}

/// The source files: the indices of their names among the texts, and the row of each.
#[derive(Debug, Default)]
struct Sources {
    all: Vec<usize>,
    rows: HashMap<usize, usize>,
}

impl Writer {
    fn text(&mut self, text: &str) -> usize {
        let next = self.texts.len();
        *self.known_texts.entry(text.to_owned()).or_insert_with(|| {
            self.texts.push(text.to_owned());
            next
        })
    }

    fn write<W: Write>(mut self, timing: &Timing, name: &str, out: &mut JsonWriter<W>) {
        out.begin_object();
        write_meta(timing, name, self.origin, out);
        for empty in ["libs", "counters", "profilerOverhead"] {
            out.key(empty);
            out.begin_array();
            out.end_array();
        }
        out.key("threads");
        out.begin_array();
        self.write_thread(timing, name, out);
        out.end_array();
        self.write_shared(out);
        out.end_object();
    }

    fn write_thread<W: Write>(&self, timing: &Timing, name: &str, out: &mut JsonWriter<W>) {
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
        self.write_samples(&timing.samples, out);
        out.key("markers");
        out.raw(NO_MARKERS);
        out.end_object();
    }

    fn write_samples<W: Write>(&self, samples: &[TimedSample], out: &mut JsonWriter<W>) {
        out.key("samples");
        out.begin_object();
        column(out, "stack", samples, |sample, out| {
            number(self.tables.stack(sample.node).as_ref(), out)
        });
        let befores = std::iter::once(0.0).chain(samples.iter().map(|sample| sample.at_us));
        column(
            out,
            "timeDeltas",
            samples.iter().zip(befores),
            |(sample, before), out| out.f64((sample.at_us - before) / 1e3),
        );
        column(out, "weight", samples, |sample, out| {
            out.f64(sample.us / 1e3)
        });
        out.entry_str("weightType", "tracing-ms");
        out.entry_u64("length", samples.len() as u64);
        out.end_object();
    }

    fn write_shared<W: Write>(&mut self, out: &mut JsonWriter<W>) {
        let funcs = std::mem::take(&mut self.tables.funcs);
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
        let stacks = &self.tables.stacks;
        out.key("shared");
        out.begin_object();
        table(out, "stackTable", stacks.len(), |out| {
            column(out, "frame", stacks, |(_, func), out| out.u64(*func as u64));
            column(out, "prefix", stacks, |(caller, _), out| {
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

const NO_MARKERS: &str =
    r#"{"data":[],"name":[],"startTime":[],"endTime":[],"phase":[],"category":[],"length":0}"#;

fn write_meta<W: Write>(timing: &Timing, name: &str, origin: Origin, out: &mut JsonWriter<W>) {
    let count = timing.samples.len().max(1) as f64;
    let length_ms = timing.length_us / 1e3;
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
    out.f64(timing.start_us.clamp(0.0, MAX_START_US) * 1e3);
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
