//! Rows of a table as lines, whose columns are as wide as their widest texts.
//!
//! Used by `top` and `fleet`. Pure.

/// On which side the texts of all columns but the last are. The last column is on the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// The lines of the head and the rows.
pub(crate) fn aligned<const N: usize>(
    side: Side,
    head: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Vec<String> {
    let all: Vec<[String; N]> = std::iter::once(head.map(str::to_owned))
        .chain(rows)
        .collect();
    let widths: [usize; N] = std::array::from_fn(|column| {
        let texts = all.iter().filter_map(|row| row.get(column));
        texts.map(|text| text.chars().count()).max().unwrap_or(0)
    });
    let cell = |(column, (text, width)): (usize, (String, usize))| match side {
        _ if column + 1 == N => text,
        Side::Left => format!("{text:<width$}"),
        Side::Right => format!("{text:>width$}"),
    };
    let line = |row: [String; N]| {
        let cells = row.into_iter().zip(widths).enumerate().map(cell);
        cells.collect::<Vec<_>>().join("  ")
    };
    all.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_as_wide_as_its_widest_text() {
        let rows = || [["1", "ä", ""], ["1000", "b", "x"]].map(|row| row.map(str::to_owned));
        let lines = |side| aligned(side, ["n", "name", "text"], rows());
        assert_eq!(
            lines(Side::Left),
            ["n     name  text", "1     ä     ", "1000  b     x"]
        );
        assert_eq!(
            lines(Side::Right),
            ["   n  name  text", "   1     ä  ", "1000     b  x"]
        );
    }
}
