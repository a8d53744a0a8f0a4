//! Wraps the lines of a text, as `fold -s` does: the program whose two versions docs/compare.md
//! compares.
//!
//! ```text
//! wrap_text old|new FILE ROUNDS
//! ```
//!
//! `old` and `new` choose the version of the crate `unicode-width`: 0.1.12 adds up the widths of the
//! characters; later versions also find sequences of several characters with a width of their own,
//! such as emoji.

use std::collections::HashMap;

use anyhow::{Context, Result, bail};

/// The columns of a line.
const COLUMNS: usize = 72;

fn main() -> Result<()> {
    let _profiler = profiler_child::init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [version, file, rounds] = &arguments[..] else {
        bail!("usage: wrap_text old|new FILE ROUNDS");
    };
    let width: fn(&str) -> usize = match version.as_str() {
        "old" => unicode_width_old::UnicodeWidthStr::width,
        "new" => unicode_width_new::UnicodeWidthStr::width,
        _ => bail!("the versions are old and new"),
    };
    let text = std::fs::read_to_string(file).with_context(|| file.clone())?;
    let mut columns = 0;
    for _ in 0..rounds.parse()? {
        let wrapped = wrap(&text, width);
        columns += wrapped.lines().map(width).max().unwrap_or(0);
        columns += most_frequent_word(&wrapped).map_or(0, str::len);
    }
    println!("{columns}");
    Ok(())
}

/// The text with line breaks between words, so that its lines fit.
#[inline(never)]
fn wrap(text: &str, width: fn(&str) -> usize) -> String {
    let mut wrapped = String::with_capacity(text.len());
    for line in text.lines() {
        let mut column = 0;
        for word in line.split_inclusive(' ') {
            let columns = width(word);
            if column + columns > COLUMNS {
                wrapped.push('\n');
                column = 0;
            }
            wrapped.push_str(word);
            column += columns;
        }
        wrapped.push('\n');
    }
    wrapped
}

#[inline(never)]
fn most_frequent_word(text: &str) -> Option<&str> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for word in text.split_whitespace() {
        *counts.entry(word).or_default() += 1;
    }
    let most = counts
        .into_iter()
        .max_by_key(|(word, count)| (*count, *word));
    most.map(|(word, _)| word)
}
