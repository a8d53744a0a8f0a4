//! Folded stacks: a line for each stack of each thread, `process;thread;function;… microseconds`.
//!
//! Called by [`super::export`]. A stack whose time rounds to 0 microseconds is left out.

use std::collections::HashMap;
use std::io::{BufWriter, Write};

use super::ExportError;
use super::recording::{Recording, Sink, Thread, Totals};
use super::slices::Slice;
use super::tree::{CallTree, ROOT, TreeId, What};
use crate::reading::{Survey, Tables};

/// Writes the file to `out`.
pub(super) fn write(recording: &Recording, out: impl Write) -> Result<Totals, ExportError> {
    let mut lines = Lines {
        out: BufWriter::new(out),
    };
    let totals = recording.threads(&mut lines)?;
    lines.out.flush()?;
    Ok(totals)
}

struct Lines<W: Write> {
    out: W,
}

impl<W: Write> Sink for Lines<W> {
    fn thread(&mut self, thread: &Thread<'_>, _: &Survey) -> Result<(), ExportError> {
        let mut tree = CallTree::new();
        let mut costs: HashMap<TreeId, u64> = HashMap::new();
        for slice in thread.slices {
            *costs.entry(tree.place(thread.tables, slice)).or_insert(0) += Slice::length(slice);
        }
        let mut costs: Vec<(TreeId, u64)> = costs.into_iter().collect();
        costs.sort();
        for (id, us) in costs
            .into_iter()
            .map(|(id, ns)| (id, ns.saturating_add(500) / 1000))
        {
            if us > 0 {
                let mut frames = vec![plain(thread.process), plain(thread.name)];
                frames.extend(path(&tree, thread.tables, id));
                writeln!(self.out, "{} {us}", frames.join(";"))?;
            }
        }
        Ok(())
    }
}

/// The names of a node's path, outermost first.
fn path(tree: &CallTree, tables: &Tables, id: TreeId) -> Vec<String> {
    let ids = std::iter::successors(Some(id), |id| tree.node(*id)?.caller);
    let names = ids.filter(|id| *id != ROOT).filter_map(|id| {
        let what = tree.node(id)?.what;
        match what {
            What::Func(func) => tables.function(func).map(|function| plain(function.name)),
            what => what.special().map(str::to_owned),
        }
    });
    let mut names: Vec<String> = names.collect();
    names.reverse();
    names
}

/// Replaces the characters that separate frames and lines.
fn plain(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c == ';' {
                ':'
            } else if c.is_control() {
                ' '
            } else {
                c
            }
        })
        .collect()
}
