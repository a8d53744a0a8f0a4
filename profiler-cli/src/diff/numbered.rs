//! Names of processes that differ only in a number, such as `worker 1` and `worker 2`.
//!
//! Used by [`super::run()`] with `--merge-numbered`, and by [`super::table`], which mentions this
//! option.

/// The name with `#` for the number at its end, which may be followed by a closing bracket.
///
/// A name that is only a number stays as it is.
pub(super) fn without_number(name: &str) -> String {
    let end = name.trim_end_matches([')', ']']);
    let stem = end.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let brackets = name.get(end.len()..).unwrap_or_default();
    if stem.len() == end.len() || stem.trim_matches(['(', '[']).is_empty() {
        return name.to_owned();
    }
    format!("{stem}#{brackets}")
}

#[cfg(test)]
mod tests {
    use super::without_number;

    #[test]
    fn the_number_at_the_end_of_a_name_is_left_out() {
        for (name, merged) in [
            ("worker 1", "worker #"),
            ("worker 12", "worker #"),
            ("web-7", "web-#"),
            ("tab [3]", "tab [#]"),
            ("pool(10)", "pool(#)"),
        ] {
            assert_eq!(without_number(name), merged);
        }
        for whole in ["parent", "7", "(3)", "x2go", "", "worker )"] {
            assert_eq!(without_number(whole), whole);
        }
    }
}
