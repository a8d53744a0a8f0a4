//! The category list: one for all processes of a profile.
//!
//! Viewers resolve every process's category numbers in the root's list, so a capture first merges
//! the categories of all processes ([`merge_categories`]) and passes the list to all writers.
//! Invariant of a merged list: row 0 is grey and stands for unknown categories.

use std::io::Write;

use crate::CategoryRow;
use crate::frame_names::{IDLE, USER};
use profiler_core::category::OTHER;
use profiler_core::internal::reader::{CategoryDefinition, Definitions, LabelDefinition};
use profiler_core::marker::schema::CategoryColor;
use profiler_json::JsonWriter;

const OTHER_SUBCATEGORY: &str = "Other";

/// Adds the categories of one process to `rows`. Categories of the same name are merged, with all
/// their subcategories.
///
/// The first call makes row 0 the default category. If there are modules, there is a category for
/// code; if there are modules or labels, there is one for idle samples. If processes disagree about
/// a colour or the order of subcategories, the first one wins.
pub fn merge_categories(rows: &mut Vec<CategoryRow>, definitions: &Definitions) {
    if rows.is_empty() {
        rows.push(row(OTHER.name(), CategoryColor::Grey.name()));
    }
    for category in definitions.categories() {
        match rows.iter_mut().find(|row| row.name == category.name) {
            Some(known) => add_subcategories(known, category),
            None => {
                let mut new = row(&category.name, &category.color);
                add_subcategories(&mut new, category);
                rows.push(new);
            }
        }
    }
    if definitions.has_modules() {
        add_missing(rows, USER.name(), CategoryColor::Yellow);
    }
    if definitions.has_modules() || definitions.has_labels() {
        add_missing(rows, IDLE.name(), CategoryColor::Transparent);
    }
}

/// Adds a category of the profiler, unless a process defines one of the same name.
fn add_missing(rows: &mut Vec<CategoryRow>, name: &str, color: CategoryColor) {
    if find_category(rows, name).is_none() {
        rows.push(row(name, color.name()));
    }
}

/// The row of a category.
pub fn find_category(rows: &[CategoryRow], name: &str) -> Option<u64> {
    place_of(rows.iter().map(|row| row.name.as_str()), name)
}

/// The row of a label's category and the number of its subcategory; 0 for unknown ones.
pub fn label_category(
    rows: &[CategoryRow],
    definitions: &Definitions,
    label: &LabelDefinition,
) -> (u64, u64) {
    let Some(category) = definitions.category(label.category) else {
        return (0, 0);
    };
    let Some(row) = find_category(rows, &category.name) else {
        return (0, 0);
    };
    let name = usize::from(label.subcategory)
        .checked_sub(1)
        .and_then(|at| category.subcategories.get(at));
    let known = rows.iter().find(|row| row.name == category.name).zip(name);
    let subcategory =
        known.and_then(|(row, name)| place_of(row.subcategories.iter().map(String::as_str), name));
    (row, subcategory.unwrap_or(0))
}

fn place_of<'a>(mut names: impl Iterator<Item = &'a str>, name: &str) -> Option<u64> {
    names
        .position(|known| known == name)
        .and_then(|place| u64::try_from(place).ok())
}

/// Writes the list; without any row, the default category alone.
pub(super) fn write<W: Write>(rows: &[CategoryRow], out: &mut JsonWriter<W>) {
    let default = [row(OTHER.name(), CategoryColor::Grey.name())];
    out.entry_list(
        "categories",
        if rows.is_empty() { &default } else { rows },
        write_row,
    );
}

fn row(name: &str, color: &str) -> CategoryRow {
    let subcategories = vec![OTHER_SUBCATEGORY.to_owned()];
    CategoryRow {
        name: name.to_owned(),
        color: color.to_owned(),
        subcategories,
    }
}

fn add_subcategories(row: &mut CategoryRow, category: &CategoryDefinition) {
    for name in &category.subcategories {
        if !row.subcategories.contains(name) {
            row.subcategories.push(name.clone());
        }
    }
}

fn write_row<W: Write>(row: &CategoryRow, out: &mut JsonWriter<W>) {
    out.begin_object();
    out.entry_str("name", &row.name);
    // Viewers fail on a colour that they do not know.
    out.entry_str(
        "color",
        CategoryColor::from_name(&row.color)
            .unwrap_or_default()
            .name(),
    );
    out.key("subcategories");
    out.begin_array();
    if row.subcategories.is_empty() {
        out.string(OTHER_SUBCATEGORY);
    }
    row.subcategories.iter().for_each(|name| out.string(name));
    out.end_array();
    out.end_object();
}
