//! Prints rows as a table. All columns but the last are aligned to the right.

use crate::plain::plain;
use crate::report::say;

/// Prints a table. All rows have as many cells as there are heads.
pub(super) fn print(heads: &[&str], rows: &[Vec<String>]) {
    if rows.is_empty() {
        return say("nothing in this range of time and with these filters");
    }
    lines(heads, rows).iter().for_each(|line| say(line));
}

fn lines(heads: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let heads = heads.iter().map(|head| (*head).to_owned()).collect();
    let plain_row = |row: &Vec<String>| row.iter().map(|cell| plain(cell)).collect();
    let all: Vec<Vec<String>> = std::iter::once(heads)
        .chain(rows.iter().map(plain_row))
        .collect();
    let width = |column: usize| {
        let cells = all.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let last = all.first().map_or(0, |heads| heads.len().saturating_sub(1));
    let widths: Vec<usize> = (0..last).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths);
        let mut line: String = cells
            .map(|(cell, width)| format!("{cell:>width$}  "))
            .collect();
        line.push_str(row.get(last).map_or("", String::as_str));
        line
    };
    all.iter().map(line).collect()
}

/// Microseconds as milliseconds.
pub(super) fn ms(us: u64) -> String {
    format!("{:.1}", us as f64 / 1e3)
}

/// A part of a whole as a percentage.
pub(super) fn percent(part: u64, of: u64) -> String {
    format!("{:.1}", 100.0 * part as f64 / of.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_foreign_texts_are_plain() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["1", "a", "x\u{1b}y"]), row(["1000", "b", ""])];
        assert_eq!(
            lines(&["n", "name", "text"], &rows),
            ["   n  name  text", "   1     a  x\u{fffd}y", "1000     b  "]
        );
    }
}
