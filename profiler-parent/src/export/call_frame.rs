//! Writes the `callFrame` of V8's formats: a function with its script.
//!
//! Used by the writers of these formats. Viewers merge functions by name, script and line, not by
//! file: so each source file, or library if the file is unknown, is a separate script, numbered
//! over all threads.

use std::collections::HashMap;
use std::io::Write;

use profiler_core::internal::profile::JsonWriter;

use super::tree::What;
use crate::reading::{Function, Tables};

/// The numbers of the source files.
#[derive(Debug, Default)]
pub(super) struct Scripts(HashMap<String, usize>);

impl Scripts {
    /// Writes the key `callFrame` and its object, in which lines and columns start at 0; -1 means
    /// unknown.
    pub(super) fn write<W: Write>(&mut self, tables: &Tables, what: What, out: &mut JsonWriter<W>) {
        let function = match what {
            What::Func(func) => tables.function(func).unwrap_or_default(),
            _ => Function {
                name: what.special().unwrap_or_default(),
                ..Function::default()
            },
        };
        let url = function.file.or(function.library).unwrap_or_default();
        let from_zero = |from_one: Option<u32>| from_one.map_or(-1, |number| i64::from(number) - 1);
        out.key("callFrame");
        out.begin_object();
        out.entry_str("functionName", function.name);
        out.entry_str("scriptId", &self.number(url).to_string());
        out.entry_str("url", url);
        out.key("lineNumber");
        out.i64(from_zero(function.line));
        out.key("columnNumber");
        out.i64(from_zero(function.column));
        out.end_object();
    }

    /// The number of a file; 0 if it is unknown.
    fn number(&mut self, url: &str) -> usize {
        if url.is_empty() {
            return 0;
        }
        if let Some(known) = self.0.get(url) {
            return *known;
        }
        let next = self.0.len() + 1;
        self.0.insert(url.to_owned(), next);
        next
    }
}
