//! Folded stacks: a line for each stack of each thread, `process;thread;function;… microseconds`.
//!
//! Called by [`super::export`]. A stack whose time rounds to 0 microseconds is left out.

use std::io::{BufWriter, Write};

use super::ExportError;
use super::by_row::ByRow;
use super::recording::{Recording, Sink, Thread, Totals};
use super::slices::Slice;
use super::tree::{CallTree, ROOT, TreeId, What};
use profiler_reader::{FuncId, Survey, Tables};

/// Size of the buffer before the file.
const BUFFER: usize = 64 * 1024;

/// Writes the file to `out`.
pub(super) fn write(recording: &Recording, out: impl Write) -> Result<Totals, ExportError> {
    let mut lines = Lines {
        out: BufWriter::with_capacity(BUFFER, out),
        tree: CallTree::default(),
        costs: Vec::new(),
        names: ByRow::default(),
        path: Vec::new(),
        line: String::new(),
    };
    let totals = recording.threads(&mut lines)?;
    lines.out.flush()?;
    Ok(totals)
}

struct Lines<W: Write> {
    out: W,
    tree: CallTree,
    /// Nanoseconds of each node of the tree.
    costs: Vec<u64>,
    /// The names of functions in lines.
    names: ByRow<String>,
    /// The nodes of the line.
    path: Vec<TreeId>,
    /// The line without its time.
    line: String,
}

impl<W: Write> Sink for Lines<W> {
    fn thread(&mut self, thread: &Thread<'_>, _: &Survey) -> Result<(), ExportError> {
        self.tree.begin(thread.tables, thread.has_own_tables);
        let funcs = thread.tables.func_count();
        self.names.begin_thread(funcs, thread.has_own_tables);
        self.costs.clear();
        for slice in thread.slices {
            let place = self.tree.place(slice).0 as usize;
            if place >= self.costs.len() {
                self.costs.resize(place + 1, 0);
            }
            if let Some(cost) = self.costs.get_mut(place) {
                *cost += Slice::length(slice);
            }
        }
        let mut start = String::new();
        push_plain(thread.process, &mut start);
        start.push(';');
        push_plain(thread.name, &mut start);
        let costs = std::mem::take(&mut self.costs);
        for (id, ns) in (0..).map(TreeId).zip(&costs) {
            let us = ns.saturating_add(500) / 1000;
            if us > 0 {
                self.line(&start, thread.tables, id);
                writeln!(self.out, "{} {us}", self.line)?;
            }
        }
        self.costs = costs;
        Ok(())
    }
}

impl<W: Write> Lines<W> {
    /// Makes the line of a node: the names on its path, the outermost first.
    fn line(&mut self, start: &str, tables: &Tables, id: TreeId) {
        let tree = &self.tree;
        let ids = std::iter::successors(Some(id), |id| tree.node(*id)?.caller);
        self.path.clear();
        self.path.extend(ids.filter(|id| *id != ROOT));
        self.line.clear();
        self.line.push_str(start);
        for id in self.path.iter().rev() {
            let name = match tree.node(*id).map(|node| node.what) {
                Some(What::Func(func)) => plain_name(&mut self.names, tables, func),
                what => what.and_then(What::special),
            };
            if let Some(name) = name {
                self.line.push(';');
                self.line.push_str(name);
            }
        }
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
