//! The JSON format of speedscope: one profile for each thread with samples, named "process /
//! thread".
//!
//! Called by [`super::export`]. Profiles are written per thread; the functions that they share come
//! last. Consecutive slices with the same stack are one sample with the sum of their weights; time
//! without a stack is an empty sample. Of a deep stack, the innermost [`MAX_FRAMES`] functions are
//! written, and [`CALLERS_LEFT_OUT`] as their caller.

use std::collections::HashMap;
use std::io::Write;

use profiler_json::JsonWriter;

use super::ExportError;
use super::by_row::ByRow;
use super::depth::{CALLERS_LEFT_OUT, MAX_FRAMES};
use super::recording::{Recording, Sink, Thread, Totals};
use super::slices::Slice;
use super::tree::What;
use profiler_reader::{FuncId, Function, Survey};

/// The schema URL that identifies speedscope files.
const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// Writes the file to `out`.
pub(super) fn write(recording: &Recording, out: impl Write) -> Result<Totals, ExportError> {
    let mut out = JsonWriter::new(out);
    out.begin_object();
    out.entry_str("$schema", SCHEMA);
    out.entry_str("exporter", concat!("profiler ", env!("CARGO_PKG_VERSION")));
    out.entry_str(
        "name",
        recording
            .survey()
            .meta
            .product
            .as_deref()
            .unwrap_or_default(),
    );
    out.key("profiles");
    out.begin_array();
    let mut profiles = Profiles {
        out,
        functions: HashMap::new(),
        names: Vec::new(),
        numbers: ByRow::default(),
        stack: Vec::new(),
    };
    let totals = recording.threads(&mut profiles)?;
    let Profiles { mut out, names, .. } = profiles;
    out.end_array();
    out.key("shared");
    out.begin_object();
    out.key("frames");
    out.begin_array();
    names.iter().for_each(|function| function.write(&mut out));
    out.end_array();
    out.end_object();
    out.end_object();
    out.finish()?;
    Ok(totals)
}

/// A function with copies of its texts, because the texts of a thread may be dropped with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Owned {
    name: String,
    file: Option<String>,
    line: Option<u32>,
}

impl Owned {
    fn of(function: &Function<'_>) -> Self {
        let file = function.file.or(function.library).map(str::to_owned);
        Self {
            name: function.name.to_owned(),
            file,
            line: function.line,
        }
    }

    fn write<W: Write>(&self, out: &mut JsonWriter<W>) {
        out.begin_object();
        out.entry_str("name", &self.name);
        if let Some(file) = &self.file {
            out.entry_str("file", file);
        }
        if let Some(line) = self.line {
            out.entry_u64("line", u64::from(line));
        }
        out.end_object();
    }
}

struct Profiles<W: Write> {
    out: JsonWriter<W>,
    functions: HashMap<Owned, usize>,
    names: Vec<Owned>,
    /// The numbers of the functions of the present tables.
    numbers: ByRow<usize>,
    /// The functions of the stack that is being written, the innermost first.
    stack: Vec<FuncId>,
}

impl<W: Write> Sink for Profiles<W> {
    fn thread(&mut self, thread: &Thread<'_>, _: &Survey) -> Result<(), ExportError> {
        let (Some(first), Some(last)) = (thread.slices.first(), thread.slices.last()) else {
            return Ok(());
        };
        let funcs = thread.tables.func_count();
        self.numbers.begin_thread(funcs, thread.has_own_tables);
        let mut weights: Vec<u64> = Vec::new();
        self.out.begin_object();
        self.out.entry_str("type", "sampled");
        self.out
            .entry_str("name", &format!("{} / {}", thread.process, thread.name));
        self.out.entry_str("unit", "nanoseconds");
        for (key, at) in [("startValue", first.start), ("endValue", last.end)] {
            self.out.key(key);
            self.out.i64(at);
        }
        self.out.key("samples");
        self.out.begin_array();
        let mut before = None;
        for slice in thread.slices {
            if self.out.is_failed() {
                break;
            }
            let shown = (slice.stack, slice.is_idle);
            match weights.last_mut().filter(|_| before == Some(shown)) {
                Some(weight) => *weight += slice.length(),
                None => {
                    self.stack(thread, slice);
                    weights.push(slice.length());
                }
            }
            before = Some(shown);
        }
        self.out.end_array();
        self.out.key("weights");
        self.out.begin_array();
        weights.iter().for_each(|weight| self.out.u64(*weight));
        self.out.end_array();
        self.out.end_object();
        Ok(())
    }
}

impl<W: Write> Profiles<W> {
    /// Writes a stack, outermost function first.
    fn stack(&mut self, thread: &Thread<'_>, slice: &Slice) {
        self.out.begin_array();
        let stack = slice.stack.filter(|_| !slice.is_idle).into_iter();
        let mut funcs = std::mem::take(&mut self.stack);
        funcs.clear();
        let mut all = stack.flat_map(|stack| thread.tables.functions(stack));
        funcs.extend(all.by_ref().take(MAX_FRAMES));
        if all.next().is_some() {
            self.special(CALLERS_LEFT_OUT);
        }
        for func in funcs.iter().rev() {
            let number = match self.numbers.get(func.0) {
                Some(known) => *known,
                None => {
                    let function = thread.tables.function(*func).unwrap_or_default();
                    let number = self.number(Owned::of(&function));
                    self.numbers.insert(func.0, number);
                    number
                }
            };
            self.out.u64(number as u64);
        }
        if funcs.is_empty() && !slice.is_idle {
            self.special(What::Program.special().unwrap_or_default());
        }
        self.stack = funcs;
        self.out.end_array();
    }

    /// Writes a frame that is not a function.
    fn special(&mut self, name: &str) {
        let number = self.number(Owned::of(&Function {
            name,
            ..Function::default()
        }));
        self.out.u64(number as u64);
    }

    fn number(&mut self, function: Owned) -> usize {
        let next = self.names.len();
        *self
            .functions
            .entry(function)
            .or_insert_with_key(|function| {
                self.names.push(function.clone());
                next
            })
    }
}
