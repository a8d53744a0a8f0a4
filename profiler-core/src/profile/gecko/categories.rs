//! The category list: one for all processes of a profile.
//!
//! Viewers resolve every process's category numbers in the root's list, so whoever captures
//! merges the categories of all processes first ([`merge_categories`]) and hands the list to
//! all writers. Invariant of a merged list: row 0 is grey and serves for whatever is unknown.

use std::io::Write;

use crate::marker::category::OTHER;
use crate::marker::schema::CategoryColor;
use crate::profile::json::JsonWriter;
use crate::profile::spec::CategoryRow;
use crate::reader::{CategoryDefinition, Definitions};

const OTHER_SUBCATEGORY: &str = "Other";

/// Adds the categories of one process to `rows`: by name, with the subcategories that are new.
///
/// The first call makes row 0 the default category. Where processes disagree about a colour or
/// the order of subcategories, the first one wins.
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
}

/// The row of a category that is known by name; row 0 for any other.
pub fn index_of(rows: &[CategoryRow], name: Option<&str>) -> u64 {
    let index = rows.iter().position(|row| name == Some(row.name.as_str()));
    index.and_then(|index| u64::try_from(index).ok()).unwrap_or(0)
}

/// Writes the list; without any row, the default category alone.
pub fn write<W: Write>(rows: &[CategoryRow], out: &mut JsonWriter<W>) {
    out.key("categories");
    out.begin_array();
    if rows.is_empty() {
        write_row(&row(OTHER.name(), CategoryColor::Grey.name()), out);
    }
    rows.iter().for_each(|row| write_row(row, out));
    out.end_array();
}

/// The number in row `row` of a category's subcategory; 0, which is "Other", if it is not there.
pub fn subcategory_index(
    rows: &[CategoryRow],
    row: u64,
    category: &CategoryDefinition,
    subcategory: u16,
) -> u64 {
    let name = usize::from(subcategory).checked_sub(1).and_then(|at| category.subcategories.get(at));
    let names = usize::try_from(row).ok().and_then(|row| rows.get(row)).map(|row| &row.subcategories);
    let index = names.zip(name).and_then(|(names, name)| names.iter().position(|known| known == name));
    index.and_then(|index| u64::try_from(index).ok()).unwrap_or(0)
}

fn row(name: &str, color: &str) -> CategoryRow {
    let subcategories = vec![OTHER_SUBCATEGORY.to_owned()];
    CategoryRow { name: name.to_owned(), color: color.to_owned(), subcategories }
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
    // A colour that the viewer does not know would make it fail.
    out.entry_str("color", CategoryColor::from_name(&row.color).unwrap_or_default().name());
    out.key("subcategories");
    out.begin_array();
    if row.subcategories.is_empty() {
        out.string(OTHER_SUBCATEGORY);
    }
    row.subcategories.iter().for_each(|name| out.string(name));
    out.end_array();
    out.end_object();
}
