//! Reads the table of modules from a crate's README.md. Used by `layers`.
//!
//! The table is the first one in the section `## Modules`. Its first column is `layer`, a number.
//! Its second column names one or more top-level modules in backticks. Text in parentheses, such as
//! a list of submodules, is ignored. Programs (`bin/…`) are ignored, too, because they use the
//! crate from outside.

use std::collections::BTreeMap;

/// The layer of every module in a table.
#[derive(Debug, PartialEq)]
pub(crate) struct Layers(BTreeMap<String, u32>);

impl Layers {
    /// Reads the table of a README. `None` if the README has no section for it. The error says what
    /// is wrong with the table.
    pub(crate) fn parse(readme: &str) -> Result<Option<Self>, String> {
        let Some(section) = section(readme) else {
            return Ok(None);
        };
        let mut rows = section.lines().skip_while(|line| !line.starts_with('|'));
        if rows.next().is_none_or(|head| cell(head, 0) != "layer") {
            return Err("the table of modules does not begin with a column `layer`".to_owned());
        }
        let mut layers = BTreeMap::new();
        for row in rows.skip(1).take_while(|line| line.starts_with('|')) {
            let layer = cell(row, 0);
            let layer = layer
                .parse()
                .map_err(|_| format!("`{layer}` is not the number of a layer"))?;
            for module in modules(cell(row, 1)) {
                if layers.insert(module.clone(), layer).is_some() {
                    return Err(format!("module `{module}` has two rows"));
                }
            }
        }
        Ok(Some(Self(layers)))
    }

    /// The layer of a module.
    pub(crate) fn of(&self, module: &str) -> Option<u32> {
        self.0.get(module).copied()
    }

    /// All modules, in alphabetical order.
    pub(crate) fn modules(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }
}

/// The text below the heading `## Modules`, up to the next heading of its level.
fn section(readme: &str) -> Option<&str> {
    let mut sections = readme.split("\n## ").skip(1);
    sections.find_map(|section| section.strip_prefix("Modules\n"))
}

fn cell(row: &str, index: usize) -> &str {
    row.split('|').nth(index + 1).unwrap_or_default().trim()
}

/// The names in backticks outside of parentheses.
fn modules(cell: &str) -> Vec<String> {
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
