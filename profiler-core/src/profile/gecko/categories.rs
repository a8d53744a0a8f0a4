//! The category list: one for all processes of a profile.
//!
//! Viewers resolve every process's category numbers in the root's list, so whoever captures
//! merges the categories of all processes first ([`merge_categories`]) and hands the list to
//! all writers. Invariant of a merged list: row 0 is grey and serves for whatever is unknown.

use std::io::Write;

use crate::category::OTHER;
use crate::profile::frame_names::{USER, user_row};
use crate::profile::json::JsonWriter;
use crate::profile::spec::CategoryRow;
use crate::reader::{CategoryDefinition, Definitions};
use crate::schema::CategoryColor;

const OTHER_SUBCATEGORY: &str = "Other";

/// Adds the categories of one process to `rows`: by name, with the subcategories that are new.
///
/// The first call makes row 0 the default category; where code was sampled, there is one for code. Where processes disagree about a colour or
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
    if definitions.has_modules() && find(rows, USER.name()).is_none() {
        rows.push(user_row());
    }
}

/// The row of a category that is known by name; row 0 for any other.
pub(super) fn index_of(rows: &[CategoryRow], name: Option<&str>) -> u64 {
    name.and_then(|name| find(rows, name)).unwrap_or(0)
}

/// The row of a category.
pub fn find(rows: &[CategoryRow], name: &str) -> Option<u64> {
    place_of(rows.iter().map(|row| row.name.as_str()), name)
}

/// The row of a category and the number of its subcategory; 0 for what is unknown.
pub fn pair_of(rows: &[CategoryRow], name: Option<&str>, subcategory: Option<&str>) -> (u64, u64) {
    let category = index_of(rows, name);
    let row = rows.iter().find(|row| Some(row.name.as_str()) == name);
    let known = row.zip(subcategory);
    let subcategory =
        known.and_then(|(row, name)| place_of(row.subcategories.iter().map(String::as_str), name));
    (category, subcategory.unwrap_or(0))
}

fn place_of<'a>(mut names: impl Iterator<Item = &'a str>, name: &str) -> Option<u64> {
    names.position(|known| known == name).and_then(|place| u64::try_from(place).ok())
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
