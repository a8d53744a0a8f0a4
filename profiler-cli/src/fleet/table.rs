//! Prints rows as a table. All columns but the last are aligned to the right.

use crate::columns::{Side, aligned};
use crate::console::say;
use crate::plain::plain;

/// Prints a table.
pub(super) fn print<const N: usize>(heads: [&str; N], rows: &[[String; N]]) {
    if rows.is_empty() {
        return say("nothing in this range of time and with these filters");
    }
    lines(heads, rows).iter().for_each(|line| say(line));
}

fn lines<const N: usize>(heads: [&str; N], rows: &[[String; N]]) -> Vec<String> {
    let plain_row = |row: &[String; N]| row.each_ref().map(|cell| plain(cell));
    aligned(Side::Right, heads, rows.iter().map(plain_row))
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
        let row = |cells: [&str; 3]| cells.map(str::to_owned);
        let rows = [row(["1", "a", "x\u{1b}y"]), row(["1000", "b", ""])];
        assert_eq!(
            lines(["n", "name", "text"], &rows),
            ["   n  name  text", "   1     a  x\u{fffd}y", "1000     b  "]
        );
    }
}
