//! The table of functions of an answer.
//!
//! Used while an answer is made. Invariant: rows with the same time are in the order of their
//! names.

use std::cmp::Ordering;

use serde::Serialize;

use super::functions::{FunctionList, texts};
use crate::graph::FunctionTotals;
use crate::selection::{FunctionColumn, Selection};

/// A row of the table of functions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct FunctionRow {
    function: usize,
    self_ns: u64,
    total_ns: u64,
    before_self_ns: u64,
    before_total_ns: u64,
}

/// The rows of the table of functions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct FunctionRows {
    sort: &'static str,
    order: &'static str,
    /// Functions that match the request.
    total: usize,
    rows: Vec<FunctionRow>,
}

impl FunctionRows {
    /// The requested rows. `is_found` says by function whether a search has found it.
    pub(super) fn of(
        mut rows: Vec<FunctionTotals>,
        selection: &Selection,
        is_found: &[bool],
        list: &mut FunctionList<'_>,
    ) -> Self {
        if !selection.find.is_empty() {
            rows.retain(|row| is_found.get(row.function.0 as usize) == Some(&true));
        }
        let total = rows.len();
        sort(&mut rows, selection, list);
        rows.truncate(selection.rows);
        let row = |row: FunctionTotals| FunctionRow {
            function: list.place(row.function),
            self_ns: row.own.now_ns,
            total_ns: row.total.now_ns,
            before_self_ns: row.own.before_ns,
            before_total_ns: row.total.before_ns,
        };
        Self {
            sort: selection.sort.name(),
            order: if selection.is_ascending {
                "asc"
            } else {
                "desc"
            },
            total,
            rows: rows.into_iter().map(row).collect(),
        }
    }
}

fn sort(rows: &mut [FunctionTotals], selection: &Selection, list: &FunctionList<'_>) {
    let column = selection.sort;
    let by_name = |one: &FunctionTotals, other: &FunctionTotals| {
        let text = |row: &FunctionTotals| texts(row.function, list.frames());
        let by_text = text(one).cmp(&text(other));
        by_text.then(one.function.cmp(&other.function))
    };
    let directed = |order: Ordering| match selection.is_ascending {
        true => order,
        false => order.reverse(),
    };
    rows.sort_by(|one, other| match column {
        FunctionColumn::Name => directed(by_name(one, other)),
        _ => {
            let by_time = amounts(one, column).cmp(&amounts(other, column));
            directed(by_time).then_with(|| by_name(one, other))
        }
    });
}

/// What a column sorts by; the second number decides between equal first numbers.
fn amounts(row: &FunctionTotals, column: FunctionColumn) -> (i128, i128) {
    let (own, total) = (i128::from(row.own.now_ns), i128::from(row.total.now_ns));
    match column {
        FunctionColumn::OwnTime => (own, total),
        FunctionColumn::Total => (total, own),
        FunctionColumn::Change => (change_ns(row), 0),
        FunctionColumn::Name => (0, 0),
    }
}

/// How much more own time a function has than in the window before. Both windows have about the
/// same length.
fn change_ns(row: &FunctionTotals) -> i128 {
    i128::from(row.own.now_ns).saturating_sub(i128::from(row.own.before_ns))
}
