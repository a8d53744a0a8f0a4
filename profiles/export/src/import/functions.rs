//! Writes the tables of frames and of functions: one frame for each function.
//!
//! Called by [`super::processed`].

use std::io::Write;

use profiler_json::JsonWriter;

use super::columns::{column, maybe, number, table};
use super::format::CallFrame;
use super::origin::{Origin, SCRIPT};

/// Converts a line or column that counts from zero to the viewer's, which counts from one.
fn from_one(number: i64) -> Option<u64> {
    u64::try_from(number).ok().map(|number| number + 1)
}

/// Writes the table of frames: one frame for each function.
pub(super) fn write_frame_table<W: Write>(
    funcs: &[CallFrame],
    origin: Origin,
    out: &mut JsonWriter<W>,
) {
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
pub(super) fn write_func_table<W: Write>(
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
