//! Reads a crate's table of floors from ARCHITECTURE.md. Used by `floors`.
//!
//! The table is the first one in the section whose heading begins with the crate's name. Its first
//! column is `floor`, a number. Its second column names one or more rooms in backticks. Text in
//! parentheses, such as a list of submodules, is ignored. Programs (`bin/…`) are ignored, too,
//! because they use the crate from outside.

use std::collections::BTreeMap;

/// The floor of every room in a table.
#[derive(Debug)]
pub(crate) struct Floors(BTreeMap<String, u32>);

impl Floors {
    /// Reads the table of the crate `name`. The error is a line for the report.
    pub(crate) fn parse(document: &str, name: &str) -> Result<Self, String> {
        let section = section(document, name);
        let section =
            section.ok_or_else(|| format!("{name}: ARCHITECTURE.md has no section for it"))?;
        let mut rows = section.lines().skip_while(|line| !line.starts_with('|'));
        if rows.next().is_none_or(|head| cell(head, 0) != "floor") {
            return Err(format!(
                "{name}: its table in ARCHITECTURE.md does not begin with a column `floor`"
            ));
        }
        let mut floors = BTreeMap::new();
        for row in rows.skip(1).take_while(|line| line.starts_with('|')) {
            let floor = cell(row, 0);
            let floor = floor.parse().map_err(|_| {
                format!("{name}: `{floor}` in ARCHITECTURE.md is not the number of a floor")
            })?;
            for room in rooms(cell(row, 1)) {
                if floors.insert(room.clone(), floor).is_some() {
                    return Err(format!(
                        "{name}: ARCHITECTURE.md has two rows for room `{room}`"
                    ));
                }
            }
        }
        Ok(Self(floors))
    }

    /// The floor of a room.
    pub(crate) fn of(&self, room: &str) -> Option<u32> {
        self.0.get(room).copied()
    }

    /// All rooms, in alphabetical order.
    pub(crate) fn rooms(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }
}

/// The text below the heading that begins with `name`, up to the next heading of its level.
fn section<'a>(document: &'a str, name: &str) -> Option<&'a str> {
    let sections = document.split("\n## ").skip(1);
    let mut named = sections.filter(|section| {
        section
            .strip_prefix(name)
            .is_some_and(|rest| rest.starts_with([',', '\n', ' ', ':']))
    });
    named.next()
}

fn cell(row: &str, index: usize) -> &str {
    row.split('|').nth(index + 1).unwrap_or_default().trim()
}

/// The names in backticks outside of parentheses.
fn rooms(cell: &str) -> Vec<String> {
    let mut depth = 0_usize;
    let outside: String = cell
        .chars()
        .filter(|letter| {
            depth += usize::from(*letter == '(');
            let is_outside = depth == 0;
            depth = depth.saturating_sub(usize::from(*letter == ')'));
            is_outside
        })
        .collect();
    let names = outside
        .split('`')
        .skip(1)
        .step_by(2)
        .map(|name| name.trim_end_matches('/').to_owned());
    names.filter(|name| !name.starts_with("bin/")).collect()
}
