//! Parses perf maps: text files with one line for each piece of generated code.
//!
//! ```text
//! 7f3a5c001000 2b py::hot:/srv/app.py        address and size in hexadecimal, then the name
//! 0x00007f1e0c4a2b80 0x00000000000004e8 int Hot.hot(int)
//! ```
//!
//! Used by the look-up. A runtime appends lines while it runs. Invariants: any bytes are accepted;
//! a line that is not understood is skipped and counted; of a last line that the runtime has not
//! finished, and of a long line, the start of the name is used; memory does not grow with the file;
//! at most [`MAX_LINES`] lines are read.

use std::io::{self, BufRead, Read};

use crate::file_kind::Tally;
use crate::ranges::{AddressRange, NamedRanges};

/// Limit on the bytes of a line that are used.
const LONGEST_LINE: u64 = 1 << 14;
/// Limit on the lines of a file.
const MAX_LINES: u64 = 1 << 22;

/// A line of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MapLine<'l> {
    code: Code,
    name: &'l [u8],
}

/// Where the code of a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    In(AddressRange),
    /// The line has the size 0: the code begins here.
    From(u64),
}

impl<'l> MapLine<'l> {
    fn parse(line: &'l [u8]) -> Option<Self> {
        let (start, rest) = word(line)?;
        let (size, rest) = word(rest)?;
        let name = rest.trim_ascii();
        let start = hexadecimal(start)?;
        let code = match hexadecimal(size)? {
            0 => Code::From(start),
            size => Code::In(AddressRange::new(start, size)?),
        };
        (!name.is_empty()).then_some(Self { code, name })
    }
}

/// The first word of a text, and the rest.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_start();
    let end = text.iter().position(u8::is_ascii_whitespace)?;
    text.split_at_checked(end)
}

/// A number of at most 16 digits, with or without `0x` before it.
fn hexadecimal(digits: &[u8]) -> Option<u64> {
    let prefix = digits
        .strip_prefix(b"0x")
        .or_else(|| digits.strip_prefix(b"0X"));
    let digits = prefix.unwrap_or(digits);
    if digits.len() > 16 || digits.first() == Some(&b'+') {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Reads a file to its end, or up to the limit on lines.
pub(crate) fn read(mut from: impl BufRead, ranges: &mut NamedRanges) -> io::Result<Tally> {
    let mut tally = Tally::default();
    let mut line = Vec::new();
    for _ in 0..MAX_LINES {
        line.clear();
        let mut limited = from.by_ref().take(LONGEST_LINE);
        limited.read_until(b'\n', &mut line)?;
        let is_long = limited.limit() == 0;
        match line.strip_suffix(b"\n") {
            Some(line) => add(line, &mut tally, ranges),
            None if is_long && from.skip_until(b'\n')? > 0 => add(&line, &mut tally, ranges),
            None => {
                add(&line, &mut tally, ranges);
                return Ok(tally); // the end of the file
            }
        }
    }
    tally.is_cut = !from.fill_buf()?.is_empty();
    Ok(tally)
}

/// Adds what a line describes.
fn add(line: &[u8], tally: &mut Tally, ranges: &mut NamedRanges) {
    match MapLine::parse(line) {
        Some(MapLine { code, name }) => {
            tally.entries += 1;
            match code {
                Code::In(range) => ranges.add(range, name),
                Code::From(start) => ranges.add_start(start, name),
            }
        }
        None => tally.malformed += u64::from(!line.trim_ascii().is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(line: &str) -> Option<(AddressRange, &str)> {
        let line = MapLine::parse(line.as_bytes())?;
        let Code::In(range) = line.code else {
            return None;
        };
        Some((range, std::str::from_utf8(line.name).unwrap()))
    }

    #[test]
    fn lines_of_all_runtimes_are_understood() {
        let range = |start, size| AddressRange::new(start, size).unwrap();
        assert_eq!(
            parsed("7f3a5c001000 2b py::hot:/srv/app.py"),
            Some((range(0x7f3a_5c00_1000, 0x2b), "py::hot:/srv/app.py"))
        );
        assert_eq!(
            parsed("0x00007f1e0c4a2b80 0x00000000000004e8 int Hot.hot(int)\r"),
            Some((range(0x7f1e_0c4a_2b80, 0x4e8), "int Hot.hot(int)"))
        );
        assert_eq!(
            parsed("  1F\t10   JS:*a b /x.js:1:2 "),
            Some((range(0x1f, 0x10), "JS:*a b /x.js:1:2"))
        );
    }

    #[test]
    fn other_lines_are_not_understood() {
        for line in [
            "",
            "1",
            "1 2",
            "1 2 ",
            "x 2 name",
            "1 y name",
            "1 0 name",
            "+1 2 name",
            "0x 2 name",
            "0x+1 2 name",
            "11112222333344445 2 name",
            "ffffffffffffffff 2 name",
        ] {
            assert_eq!(parsed(line), None, "{line:?}");
        }
    }

    #[test]
    fn lines_that_are_not_understood_are_counted_and_the_others_are_used() {
        let long = "x".repeat(3 * usize::try_from(LONGEST_LINE).unwrap());
        let text = format!("1000 10 a\nnonsense\n\n2000 10 {long}\n3000 10 b\n4000 10 torn");
        let wanted = [0x1000, 0x2000, 0x3000, 0x4000];
        let mut ranges = NamedRanges::new(&wanted);
        let tally = read(text.as_bytes(), &mut ranges).unwrap();
        assert_eq!((tally.entries, tally.malformed), (4, 1));
        let names = wanted.map(|address| ranges.name_at(address));
        assert_eq!(
            (names[0], names[2], names[3]),
            (Some("a"), Some("b"), Some("torn"))
        );
        let start = names[1].unwrap().trim_end_matches('…');
        assert!(start.len() > 100 && long.starts_with(start), "a long name");
    }

    #[test]
    fn code_without_a_size_reaches_to_the_next_code() {
        let text = "1000 0 a\n1100 0 b\n1200 10 c\n5000 0 d\n";
        let wanted = [
            0xfff, 0x1000, 0x10ff, 0x1100, 0x1205, 0x1210, 0x5fff, 0x6000,
        ];
        let mut ranges = NamedRanges::new(&wanted);
        let tally = read(text.as_bytes(), &mut ranges).unwrap();
        assert_eq!((tally.entries, tally.malformed), (4, 0));
        let names = wanted.map(|address| ranges.name_at(address));
        let expected = [
            None,
            Some("a"),
            Some("a"),
            Some("b"),
            Some("c"),
            None,
            Some("d"),
            None,
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn the_lines_of_a_file_are_limited_whatever_they_contain() {
        let most = usize::try_from(MAX_LINES).unwrap();
        for (line, entries, malformed) in [("1 1 a\n", most, 0), ("\n", 0, 0), ("x\n", 0, most)] {
            let text = line.repeat(most + 1);
            let mut ranges = NamedRanges::new(&[1]);
            let tally = read(text.as_bytes(), &mut ranges).unwrap();
            let counted = (tally.entries, tally.malformed);
            assert_eq!(counted, (entries as u64, malformed as u64), "{line:?}");
            assert!(tally.is_cut, "{line:?}");
            let whole = text.strip_suffix(line).unwrap();
            let tally = read(whole.as_bytes(), &mut NamedRanges::new(&[])).unwrap();
            assert!(!tally.is_cut, "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted_and_every_line_is_counted_once(
            lines in prop::collection::vec("[0-9a-fx \\PC]{0,40}", 0..50),
        ) {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let mut ranges = NamedRanges::new(&[]);
            let tally = read(text.as_bytes(), &mut ranges).unwrap();
            let full = text.lines().filter(|line| !line.trim_ascii().is_empty()).count() as u64;
            prop_assert_eq!(tally.entries + tally.malformed, full);
        }

        #[test]
        fn a_written_line_is_read(
            start in 0..u64::MAX / 2,
            size in 1..u64::MAX / 2,
            name in "[!-~][ -~]{0,60}[!-~]",
            has_prefix in any::<bool>(),
        ) {
            let prefix = if has_prefix { "0x" } else { "" };
            let line = format!("{prefix}{start:x} {prefix}{size:x} {name}");
            prop_assert_eq!(parsed(&line), AddressRange::new(start, size).map(|range| (range, &*name)));
        }
    }
}
