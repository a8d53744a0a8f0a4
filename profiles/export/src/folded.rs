//! Folded stacks: a line for each stack of each thread, `process;thread;function;… microseconds`.
//!
//! Called by [`super::export`]. What a line has less than its whole nanoseconds is added to the
//! next line, so that the lines of a thread add up. A line of 0 microseconds is left out. Of a deep
//! stack, the innermost [`MAX_FRAMES`] functions are written below [`CALLERS_LEFT_OUT`].

use std::io::{BufWriter, Write};

use super::ExportError;
use super::by_row::ByRow;
use super::depth::{CALLERS_LEFT_OUT, MAX_FRAMES};
use super::recording::{Recording, Sink, Thread, Totals};
use super::tree::{ThreadTree, What};
use profiler_reader::{FuncId, Survey, Tables};

/// Size of the buffer before the file.
const BUFFER: usize = 64 * 1024;

/// Writes the file to `out`.
pub(super) fn write(recording: &Recording, out: impl Write) -> Result<Totals, ExportError> {
    let mut lines = Lines {
        out: BufWriter::with_capacity(BUFFER, out),
        tree: ThreadTree::default(),
        line: Line::default(),
    };
    let totals = recording.threads(&mut lines)?;
    lines.out.flush()?;
    Ok(totals)
}

struct Lines<W: Write> {
    out: W,
    /// The weights of its nodes are nanoseconds.
    tree: ThreadTree,
    line: Line,
}

/// The line of a stack.
#[derive(Default)]
struct Line {
    /// The names of functions in lines.
    names: ByRow<String>,
    /// The functions of the stack, the innermost first.
    stack: Vec<What>,
    /// The line without its time.
    text: String,
}

impl<W: Write> Sink for Lines<W> {
    fn thread(&mut self, thread: &Thread<'_>, _: &Survey) -> Result<(), ExportError> {
        let Self { out, tree, line } = self;
        tree.begin(thread.tables);
        let funcs = thread.tables.func_count();
        line.names.begin_thread(funcs, thread.has_own_tables);
        for slice in thread.slices {
            let place = tree.place(thread.tables, slice);
            tree.calls.add_own(place, slice.length());
        }
        let mut start = String::new();
        push_plain(thread.process, &mut start);
        start.push(';');
        push_plain(thread.name, &mut start);
        let mut rest = 500_u64;
        for (id, node) in tree.calls.nodes() {
            let ns = node.own.saturating_add(rest);
            let us = ns / 1000;
            // A node without time has no line.
            rest = ns % 1000;
            if us > 0 {
                let stack = tree.calls.callers(id).map(|(_, node)| node.func);
                let text = line.of(&start, thread.tables, stack);
                writeln!(out, "{text} {us}")?;
            }
        }
        Ok(())
    }
}

impl Line {
    /// The line of a stack, whose innermost function comes first: the outermost comes first in it.
    fn of(&mut self, start: &str, tables: &Tables, stack: impl Iterator<Item = What>) -> &str {
        let mut stack = stack.filter(|what| *what != What::Root);
        self.stack.clear();
        self.stack.extend(stack.by_ref().take(MAX_FRAMES));
        self.text.clear();
        self.text.push_str(start);
        if stack.next().is_some() {
            self.text.push(';');
            self.text.push_str(CALLERS_LEFT_OUT);
        }
        for what in self.stack.iter().rev() {
            let name = match *what {
                What::Func(func) => plain_name(&mut self.names, tables, func),
                special => special.special(),
            };
            if let Some(name) = name {
                self.text.push(';');
                self.text.push_str(name);
            }
        }
        &self.text
    }
}

/// The name of a function, without the characters that separate frames and lines.
fn plain_name<'n>(names: &'n mut ByRow<String>, tables: &Tables, func: FuncId) -> Option<&'n str> {
    let name = tables.function(func)?.name;
    let make = || {
        let mut plain = String::with_capacity(name.len());
        push_plain(name, &mut plain);
        plain
    };
    names
        .get_or_insert_with(func.0, make)
        .map(|name| name.as_str())
}

/// Adds a name, with other characters for those that separate frames and lines.
pub(super) fn push_plain(name: &str, to: &mut String) {
    to.extend(name.chars().map(|c| {
        if c == ';' {
            ':'
        } else if c.is_control() {
            ' '
        } else {
            c
        }
    }));
}
