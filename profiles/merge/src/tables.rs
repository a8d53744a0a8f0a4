//! The shared tables of the merged profile: each text, library, function, frame and stack once.
//!
//! Filled by the first pass, input by input; [`Tables::add`] returns where the rows of an input are
//! now. Written at the end, because markers of the second pass add texts. Invariants: equal rows
//! are one row, so a function that ran on two machines is one function; rows keep their order, so
//! the caller of a stack has a smaller number; memory grows with the number of different rows, not
//! with samples and markers.

use std::collections::HashMap;
use std::io::Write;

use profiler_json::interner::Interner;
use profiler_json::{JsonWriter, StringTable};
use serde_json::Value;

use super::categories::CategoryNumbers;
use super::shared_rows::{RawColumns, RawRow, RawShared};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Source {
    id: Option<Box<str>>,
    file: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Resource {
    lib: Option<u32>,
    name: u32,
    host: Option<u32>,
    kind: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Native {
    lib: u32,
    address: i64,
    name: u32,
    size: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Func {
    name: u32,
    is_js: bool,
    is_relevant_for_js: bool,
    resource: Option<u32>,
    source: Option<u32>,
    line: Option<u32>,
    column: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Frame {
    address: i64,
    depth: u32,
    category: Option<u32>,
    subcategory: Option<u32>,
    func: u32,
    native: Option<u32>,
    window: i64,
    line: Option<u32>,
    column: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Stack {
    frame: u32,
    caller: Option<u32>,
}

/// The numbers that the rows of one input have now. The second pass needs them.
#[derive(Debug, Default)]
pub(super) struct RowNumbers {
    pub(super) strings: Vec<u32>,
    pub(super) stacks: Vec<u32>,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) strings: StringTable,
    libs: Vec<Value>,
    known_libs: HashMap<String, u32>,
    sources: Interner<Source>,
    resources: Interner<Resource>,
    natives: Interner<Native>,
    funcs: Interner<Func>,
    frames: Interner<Frame>,
    stacks: Interner<Stack>,
}

impl Tables {
    /// Adds the tables of an input.
    ///
    /// # Errors
    /// A row refers to a row that does not exist, in words.
    pub(super) fn add(
        &mut self,
        raw: &RawShared,
        libs: Vec<Value>,
        categories: &CategoryNumbers,
    ) -> Result<RowNumbers, String> {
        let texts = raw.strings.iter();
        let strings: Vec<u32> = texts.map(|text| self.strings.intern(text).get()).collect();
        let libs: Vec<u32> = libs.into_iter().map(|lib| self.lib(lib)).collect();
        let sources = self.add_sources(raw, &strings)?;
        let resources = interned(&mut self.resources, &raw.resources, |_, row| {
            Ok(Resource {
                lib: row.refer(0, &libs, "library")?,
                name: row.refer_always(1, &strings, "text")?,
                host: row.refer(2, &strings, "text")?,
                kind: row.number(3),
            })
        })?;
        let natives = interned(&mut self.natives, &raw.natives, |_, row| {
            Ok(Native {
                lib: row.refer_always(0, &libs, "library")?,
                address: row.wide(1),
                name: row.refer_always(2, &strings, "text")?,
                size: row.number(3),
            })
        })?;
        let funcs = interned(&mut self.funcs, &raw.funcs, |_, row| {
            Ok(Func {
                name: row.refer_always(0, &strings, "text")?,
                is_js: row.flag(1),
                is_relevant_for_js: row.flag(2),
                resource: row.refer(3, &resources, "resource")?,
                source: row.refer(4, &sources, "source")?,
                line: row.number(5),
                column: row.number(6),
            })
        })?;
        let frames = interned(&mut self.frames, &raw.frames, |_, row| {
            let category = categories.row(row.number(2))?;
            Ok(Frame {
                address: row.wide(0),
                depth: row.number(1).unwrap_or(0),
                category,
                subcategory: categories.subcategory(row.number(2), row.number(3)),
                func: row.refer_always(4, &funcs, "function")?,
                native: row.refer(5, &natives, "native symbol")?,
                window: row.wide(6),
                line: row.number(7),
                column: row.number(8),
            })
        })?;
        let stacks = interned(&mut self.stacks, &raw.stacks, |before, row| {
            Ok(Stack {
                frame: row.refer_always(0, &frames, "frame")?,
                caller: row.refer(1, before, "stack")?,
            })
        })?;
        Ok(RowNumbers { strings, stacks })
    }

    fn lib(&mut self, lib: Value) -> u32 {
        let next = u32::try_from(self.libs.len()).unwrap_or(u32::MAX);
        *self.known_libs.entry(lib.to_string()).or_insert_with(|| {
            self.libs.push(lib);
            next
        })
    }

    fn add_sources(&mut self, raw: &RawShared, strings: &[u32]) -> Result<Vec<u32>, String> {
        let mut ids = raw.source_ids.iter();
        interned(&mut self.sources, &raw.sources, |_, row| {
            Ok(Source {
                id: ids.next().cloned().flatten(),
                file: row.refer_always(0, strings, "text")?,
            })
        })
    }

    /// Writes the keys `libs` and `shared`.
    pub(super) fn write<W: Write>(&self, out: &mut JsonWriter<W>) {
        out.entry_list("libs", &self.libs, |lib, out| out.raw(&lib.to_string()));
        out.key("shared");
        out.begin_object();
        table("stackTable", &self.stacks, out, |stacks, out| {
            column("frame", stacks, out, |row| number(row.frame));
            column("prefix", stacks, out, |row| maybe(row.caller));
        });
        self.write_frames(out);
        self.write_funcs(out);
        table("resourceTable", &self.resources, out, |rows, out| {
            column("lib", rows, out, |row| maybe(row.lib));
            column("name", rows, out, |row| number(row.name));
            column("host", rows, out, |row| maybe(row.host));
            column("type", rows, out, |row| maybe(row.kind));
        });
        table("nativeSymbols", &self.natives, out, |rows, out| {
            column("libIndex", rows, out, |row| number(row.lib));
            column("address", rows, out, |row| Some(row.address));
            column("name", rows, out, |row| number(row.name));
            column("functionSize", rows, out, |row| maybe(row.size));
        });
        table("sources", &self.sources, out, |rows, out| {
            out.entry_list("uuid", rows, |row, out| match &row.id {
                Some(id) => out.string(id),
                None => out.null(),
            });
            column("filename", rows, out, |row| number(row.file));
        });
        out.key("stringArray");
        self.strings.write_json(out);
        out.end_object();
    }

    fn write_frames<W: Write>(&self, out: &mut JsonWriter<W>) {
        table("frameTable", &self.frames, out, |rows, out| {
            column("address", rows, out, |row| Some(row.address));
            column("inlineDepth", rows, out, |row| number(row.depth));
            column("category", rows, out, |row| maybe(row.category));
            column("subcategory", rows, out, |row| maybe(row.subcategory));
            column("func", rows, out, |row| number(row.func));
            column("nativeSymbol", rows, out, |row| maybe(row.native));
            let window = |row: &Frame| (row.window >= 0).then_some(row.window);
            column("innerWindowID", rows, out, window);
            column("line", rows, out, |row| maybe(row.line));
            column("column", rows, out, |row| maybe(row.column));
        });
    }

    fn write_funcs<W: Write>(&self, out: &mut JsonWriter<W>) {
        table("funcTable", &self.funcs, out, |rows, out| {
            column("name", rows, out, |row| number(row.name));
            out.entry_list("isJS", rows, |row, out| out.bool(row.is_js));
            out.entry_list("relevantForJS", rows, |row, out| {
                out.bool(row.is_relevant_for_js);
            });
            column("resource", rows, out, |row| {
                maybe(row.resource).or(Some(-1))
            });
            column("source", rows, out, |row| maybe(row.source));
            column("lineNumber", rows, out, |row| maybe(row.line));
            column("columnNumber", rows, out, |row| maybe(row.column));
        });
    }
}

/// Adds the rows of a table. `row_of` also gets the new numbers of the rows before. Returns the new
/// numbers of all rows.
fn interned<T: Eq + std::hash::Hash, const N: usize>(
    table: &mut Interner<T>,
    raw: &RawColumns<N>,
    mut row_of: impl FnMut(&[u32], RawRow<N>) -> Result<T, String>,
) -> Result<Vec<u32>, String> {
    let mut numbers = Vec::with_capacity(raw.len());
    for row in 0..raw.len() {
        let row = row_of(&numbers, raw.row(row))?;
        let number = table.intern(row, u32::MAX as usize);
        numbers.push(number.ok_or("the merged tables have too many rows")?);
    }
    Ok(numbers)
}

fn number(number: u32) -> Option<i64> {
    Some(i64::from(number))
}

fn maybe(value: Option<u32>) -> Option<i64> {
    value.map(i64::from)
}

fn table<T: Eq + std::hash::Hash, W: Write>(
    name: &str,
    rows: &Interner<T>,
    out: &mut JsonWriter<W>,
    write: impl FnOnce(&[T], &mut JsonWriter<W>),
) {
    out.key(name);
    out.begin_object();
    write(rows.all(), out);
    out.entry_u64("length", rows.all().len() as u64);
    out.end_object();
}

fn column<T, W: Write>(
    name: &str,
    rows: &[T],
    out: &mut JsonWriter<W>,
    value: impl Fn(&T) -> Option<i64>,
) {
    out.entry_list(name, rows, |row, out| match value(row) {
        Some(number) => out.i64(number),
        None => out.null(),
    });
}
