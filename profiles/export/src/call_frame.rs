//! Writes the `callFrame` of V8's formats: a function with its script.
//!
//! Used by the writers of these formats. Viewers merge functions by name, script and line, not by
//! file: so each source file, or library if the file is unknown, is a separate script, numbered
//! over all threads.

use std::collections::HashMap;
use std::io::Write;

use profiler_json::JsonWriter;

use super::by_row::ByRow;
use super::recording::Thread;
use super::tree::What;
use profiler_reader::{Function, Tables};

/// Writes call frames. See the [module](self).
#[derive(Debug)]
pub(super) struct Scripts {
    /// The numbers of the source files.
    numbers: HashMap<String, usize>,
    /// The call frames of functions, as text, because a function has many nodes.
    frames: ByRow<Box<str>>,
    /// Writes one call frame at a time.
    text: JsonWriter<Vec<u8>>,
}

impl Default for Scripts {
    fn default() -> Self {
        Self {
            numbers: HashMap::new(),
            frames: ByRow::default(),
            text: JsonWriter::new(Vec::new()),
        }
    }
}

impl Scripts {
    /// Begins a thread.
    pub(super) fn begin(&mut self, thread: &Thread<'_>) {
        let funcs = thread.tables.func_count();
        self.frames.begin_thread(funcs, thread.has_own_tables);
    }

    /// Writes the key `callFrame` and its object, in which lines and columns start at 0; -1 means
    /// unknown.
    pub(super) fn write<W: Write>(&mut self, tables: &Tables, what: What, out: &mut JsonWriter<W>) {
        out.key("callFrame");
        let What::Func(func) = what else {
            let name = what.special().unwrap_or_default();
            let function = Function {
                name,
                ..Function::default()
            };
            return out.raw(&self.frame(&function));
        };
        if let Some(frame) = self.frames.get(func.0) {
            return out.raw(frame);
        }
        let frame = self.frame(&tables.function(func).unwrap_or_default());
        out.raw(&frame);
        self.frames.insert(func.0, frame.into_boxed_str());
    }

    fn frame(&mut self, function: &Function<'_>) -> String {
        let url = function.file.or(function.library).unwrap_or_default();
        let script = self.number(url).to_string();
        let from_zero = |from_one: Option<u32>| from_one.map_or(-1, |number| i64::from(number) - 1);
        let out = &mut self.text;
        out.begin_object();
        out.entry_str("functionName", function.name);
        out.entry_str("scriptId", &script);
        out.entry_str("url", url);
        out.key("lineNumber");
        out.i64(from_zero(function.line));
        out.key("columnNumber");
        out.i64(from_zero(function.column));
        out.end_object();
        out.take_text()
    }

    /// The number of a file; 0 if it is unknown.
    fn number(&mut self, url: &str) -> usize {
        if url.is_empty() {
            return 0;
        }
        if let Some(known) = self.numbers.get(url) {
            return *known;
        }
        let next = self.numbers.len() + 1;
        self.numbers.insert(url.to_owned(), next);
        next
    }
}
