//! Writes the object `shared`: the tables that all threads refer to.
//!
//! Written after the threads, because their markers add texts. Invariants: a node's caller has a
//! smaller number; every column of a table has the same length, and all columns of the declared
//! version are present.

use std::collections::HashMap;
use std::io::Write;

use profiler_gecko::model::TextTable;
use profiler_json::{JsonWriter, StringId};

use super::frames::Frames;
use super::libs::Libs;
use super::stacks::Stacks;
use super::strings::ProfileStrings;
use super::symbolicated::{Func, SymbolicatedFrames};

/// The type of a resource that is a library.
const LIBRARY: u64 = 1;

/// Writes the key `shared`.
pub(super) fn write<W: Write>(
    named: &SymbolicatedFrames,
    stacks: &Stacks,
    frames: &Frames,
    libs: &Libs,
    strings: &mut ProfileStrings,
    out: &mut JsonWriter<W>,
) {
    out.key("shared");
    out.begin_object();
    write_stacks(named, stacks, out);
    write_frames(named, frames, out);
    let sources = write_funcs(named.funcs.all(), out);
    write_resources(libs, strings, out);
    write_natives(named, out);
    write_sources(&sources, out);
    out.key("stringArray");
    strings.write_json(out);
    out.end_object();
}

fn length<W: Write>(len: usize, out: &mut JsonWriter<W>) {
    out.entry_u64("length", u64::try_from(len).unwrap_or(u64::MAX));
}

fn write_stacks<W: Write>(named: &SymbolicatedFrames, stacks: &Stacks, out: &mut JsonWriter<W>) {
    out.key("stackTable");
    out.begin_object();
    let mut len = 0;
    out.key("frame");
    out.begin_array();
    named.nodes(stacks, |_, frame| {
        out.u64(u64::from(frame));
        len += 1;
    });
    out.end_array();
    out.key("prefix");
    out.begin_array();
    named.nodes(stacks, |caller, _| out.u64_or_null(caller.map(u64::from)));
    out.end_array();
    length(len, out);
    out.end_object();
}

fn write_frames<W: Write>(named: &SymbolicatedFrames, raw: &Frames, out: &mut JsonWriter<W>) {
    let frames = &named.frames;
    let categories = named.categories;
    out.key("frameTable");
    out.begin_object();
    out.entry_list("address", frames, |frame, out| match frame.address(raw) {
        Some(address) => out.u64(address),
        None => out.i64(-1),
    });
    out.entry_list("inlineDepth", frames, |frame, out| {
        out.u64(u64::from(frame.depth))
    });
    out.entry_list("category", frames, |frame, out| {
        out.u64_or_null(frame.category(raw, categories).map(|(row, _)| row));
    });
    out.entry_list("subcategory", frames, |frame, out| {
        out.u64_or_null(frame.category(raw, categories).map(|(_, sub)| sub));
    });
    out.entry_list("func", frames, |frame, out| out.u64(u64::from(frame.func)));
    out.entry_list("nativeSymbol", frames, |frame, out| {
        out.u64_or_null(frame.native().map(u64::from))
    });
    out.entry_list("innerWindowID", frames, |_, out| out.null());
    out.entry_list("line", frames, |frame, out| {
        out.u64_or_null(frame.line().map(u64::from))
    });
    out.entry_list("column", frames, |_, out| out.null());
    length(frames.len(), out);
    out.end_object();
}

/// Writes the functions. Returns the sources that they refer to.
fn write_funcs<W: Write>(funcs: &[Func], out: &mut JsonWriter<W>) -> Vec<StringId> {
    let mut known = HashMap::new();
    let mut sources = Vec::new();
    out.key("funcTable");
    out.begin_object();
    out.entry_list("name", funcs, |func, out| {
        out.u64(u64::from(func.name.get()))
    });
    for flag in ["isJS", "relevantForJS"] {
        out.entry_list(flag, funcs, |_, out| out.bool(false));
    }
    out.entry_list("resource", funcs, |func, out| match func.lib() {
        Some(lib) => out.u64(u64::from(lib.0)),
        None => out.i64(-1),
    });
    out.entry_list("source", funcs, |func, out| {
        let source = func.source.map(|source| {
            *known.entry(source).or_insert_with(|| {
                sources.push(source);
                u64::try_from(sources.len() - 1).unwrap_or(0)
            })
        });
        out.u64_or_null(source);
    });
    out.entry_list("lineNumber", funcs, |func, out| {
        out.u64_or_null(func.line().map(u64::from));
    });
    out.entry_list("columnNumber", funcs, |_, out| out.null());
    length(funcs.len(), out);
    out.end_object();
    sources
}

/// Writes one resource per file, with the number of the file.
fn write_resources<W: Write>(libs: &Libs, strings: &mut ProfileStrings, out: &mut JsonWriter<W>) {
    let names: Vec<StringId> = libs
        .iter()
        .map(|(id, _)| strings.own(libs.name(id)))
        .collect();
    out.key("resourceTable");
    out.begin_object();
    out.entry_list("lib", 0..libs.len(), |lib, out| {
        out.u64(u64::try_from(lib).unwrap_or(0))
    });
    out.entry_list("name", &names, |name, out| out.u64(u64::from(name.get())));
    out.entry_list("host", &names, |_, out| out.null());
    out.entry_list("type", &names, |_, out| out.u64(LIBRARY));
    length(libs.len(), out);
    out.end_object();
}

fn write_natives<W: Write>(named: &SymbolicatedFrames, out: &mut JsonWriter<W>) {
    let natives = named.natives.all();
    out.key("nativeSymbols");
    out.begin_object();
    out.entry_list("libIndex", natives, |native, out| {
        out.u64(u64::from(native.lib.0))
    });
    out.entry_list("address", natives, |native, out| out.u64(native.address));
    out.entry_list("name", natives, |native, out| {
        out.u64(u64::from(native.name.get()))
    });
    out.entry_list("functionSize", natives, |native, out| {
        out.u64_or_null(native.size.map(u64::from))
    });
    length(natives.len(), out);
    out.end_object();
}

fn write_sources<W: Write>(sources: &[StringId], out: &mut JsonWriter<W>) {
    out.key("sources");
    out.begin_object();
    // Later versions call this column `id`; viewers rename it.
    out.entry_list("uuid", sources, |_, out| out.null());
    out.entry_list("filename", sources, |source, out| {
        out.u64(u64::from(source.get()))
    });
    length(sources.len(), out);
    out.end_object();
}
