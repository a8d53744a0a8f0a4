//! A plain reader of the two formats, for the tests. It fails at everything that it does not
//! expect.

use std::collections::{BTreeMap, BTreeSet};

/// The name of a sample and its labels.
pub(super) type Series = (String, BTreeMap<String, String>);

/// Reads a text. Each sample must be below the head of its family, each family and each series must
/// be there once, and the name must end with the unit.
pub(super) fn parse(text: &str) -> BTreeMap<Series, f64> {
    let mut all = BTreeMap::new();
    let mut families = BTreeSet::new();
    let mut family = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line == "# EOF" {
            assert_eq!(lines.peek(), None, "text after the end");
        } else if let Some(head) = line.strip_prefix("# ") {
            let mut words = head.splitn(3, ' ');
            let (what, name) = (words.next().unwrap(), words.next().unwrap());
            let rest = words.next().unwrap();
            assert!(["HELP", "TYPE", "UNIT"].contains(&what), "{line}");
            assert!(what != "UNIT" || name.ends_with(rest), "{line}");
            assert!(
                families.insert((what.to_owned(), name.to_owned())),
                "twice: {line}"
            );
            family = name.to_owned();
        } else {
            let (series, value) = sample(line);
            let ending = series.0.strip_prefix(&family).unwrap_or("no");
            let endings = ["", "_total", "_info", "_bucket", "_sum", "_count"];
            assert!(endings.contains(&ending), "{line} below {family}");
            assert!(all.insert(series, value).is_none(), "twice: {line}");
        }
    }
    all
}

fn sample(line: &str) -> (Series, f64) {
    let (name, rest) = line.split_at(line.find(['{', ' ']).unwrap());
    let mut labels = BTreeMap::new();
    let Some(mut rest) = rest.strip_prefix('{') else {
        return (
            (name.to_owned(), labels),
            rest.trim_start().parse().unwrap(),
        );
    };
    loop {
        let (label, after) = rest.split_once("=\"").unwrap();
        let (value, after) = unquote(after);
        assert!(labels.insert(label.to_owned(), value).is_none(), "{line}");
        match after.split_at(1) {
            (",", after) => rest = after,
            ("}", after) => {
                return (
                    (name.to_owned(), labels),
                    after.trim_start().parse().unwrap(),
                );
            }
            _ => panic!("{line}"),
        }
    }
}

/// The value before the closing quotation mark, and the text after it.
fn unquote(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((place, letter)) = letters.next() {
        value.push(match letter {
            '"' => return (value, &text[place + 1..]),
            '\\' => match letters.next() {
                Some((_, 'n')) => '\n',
                Some((_, escaped @ ('\\' | '"'))) => escaped,
                other => panic!("\\{other:?}"),
            },
            letter => letter,
        });
    }
    panic!("no end: {text}")
}
