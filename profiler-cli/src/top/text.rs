//! Text of the tables: short names, numbers with units, highlighted heads.

use crate::plain::plain;

/// The longest shown name, in characters.
pub(super) const NAME: usize = 32;

/// What an empty cell shows.
pub(super) fn none() -> String {
    "–".to_owned()
}

/// A name with at most `most` characters.
pub(super) fn cut(name: &str, most: usize) -> String {
    let name = plain(name);
    match name.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or_default()),
        None => name,
    }
}

/// A duration.
#[allow(clippy::cast_precision_loss)] // shown with three digits
pub(super) fn time(ns: u64) -> String {
    let of = |unit: f64| ns as f64 / unit;
    match ns {
        0 => none(),
        1..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} µs", digits(of(1e3))),
        1_000_000..1_000_000_000 => format!("{} ms", digits(of(1e6))),
        1_000_000_000..120_000_000_000 => format!("{} s", digits(of(1e9))),
        _ => format!("{} min", digits(of(60e9))),
    }
}

/// A part of a whole, in percent.
#[allow(clippy::cast_precision_loss)] // shown with three digits
pub(super) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return none();
    }
    format!("{}%", digits(part as f64 * 100.0 / whole as f64))
}

/// A number with three digits.
pub(super) fn digits(number: f64) -> String {
    let decimals = if number >= 100.0 {
        0
    } else {
        1 + usize::from(number < 10.0)
    };
    format!("{number:.decimals$}")
}

/// A number of bytes.
#[allow(clippy::cast_precision_loss)] // shown with few digits
pub(super) fn bytes(count: u64) -> String {
    format!("{:.1} MiB", count as f64 / f64::from(1 << 20))
}

/// The lines as one text: each at most `columns` characters wide, heads bold if `is_terminal`.
pub(super) fn joined(
    lines: impl IntoIterator<Item = Line>,
    is_terminal: bool,
    columns: Option<usize>,
) -> String {
    let shown = |Line { is_head, text }: Line| {
        let text: String = text
            .trim_end()
            .chars()
            .take(columns.unwrap_or(usize::MAX))
            .collect();
        match is_head && is_terminal {
            true => format!("{BOLD}{text}{PLAIN}\n"),
            false => format!("{text}\n"),
        }
    };
    lines.into_iter().map(shown).collect()
}

/// Begins and ends highlighted text in a terminal.
pub(super) const BOLD: &str = "\x1b[1m";
pub(super) const PLAIN: &str = "\x1b[0m";

/// A line of output.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Whether it is the head of a table.
    is_head: bool,
    text: String,
}

impl Line {
    /// A line outside the tables.
    pub(super) const fn plain(text: String) -> Self {
        let is_head = false;
        Self { is_head, text }
    }

    /// The lines of a table, the first of which is its head.
    pub(super) fn table(lines: Vec<String>) -> impl Iterator<Item = Self> {
        lines.into_iter().enumerate().map(|(number, text)| Self {
            is_head: number == 0,
            text,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        assert_eq!(
            [0, 999, 1_500_000, 3_000_000_000].map(time),
            ["–", "999 ns", "1.50 ms", "3.00 s"]
        );
        assert_eq!([percent(1, 3), percent(1, 0)], ["33.3%", "–"]);
    }
}
