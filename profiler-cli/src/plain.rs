//! Foreign texts as they are printed: names of functions, markers, processes, libraries and files.
//!
//! Used by every subcommand that prints names from a profile, a pool or the live page. Invariant: a
//! printed name can neither control the terminal nor begin another line.

/// A text with a replacement for each control character.
pub(crate) fn plain(text: &str) -> String {
    let printed = |letter: char| {
        if letter.is_control() {
            '\u{fffd}'
        } else {
            letter
        }
    };
    text.chars().map(printed).collect()
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn a_name_has_no_control_characters() {
        let name = "naïve\u{1b}[31m\n\u{9b}\u{7f}\t";
        assert_eq!(
            plain(name),
            "naïve\u{fffd}[31m\u{fffd}\u{fffd}\u{fffd}\u{fffd}"
        );
    }
}
