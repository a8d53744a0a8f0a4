//! What a record becomes in the recording: a marker.
//!
//! Called by the logger while a session runs. The message and the values are formatted once, where
//! they stay; the core calls again only if its room does not suffice. Nothing is allocated, except
//! for the first record of a target. A record with a stack takes another way, because call sites
//! that are made at run time have no stacks.

use log::kv::Source;
use log::{Level, Record};
use profiler_core::internal::payload::PayloadError;
use profiler_core::internal::runtime_site::{FieldWriter, category_of_target};
use profiler_core::marker::schema::{GraphColor, MarkerSchema};
use profiler_core::marker::{MarkerOptions, MarkerStack, ProfilerMarker, add_marker};
use serde::Serialize;

use crate::record_schema::{TYPE_NAME, schema_of};
use crate::sites::{RecordSite, site_of};
use crate::values::{self, Bounded, Guarded, Listed, MAX_TEXT};

/// Most bytes of a target, a module or a file.
const MAX_NAME: usize = 256;

/// Records a marker.
pub(crate) fn add(record: &Record<'_>) {
    let (site, count) = site_of(record);
    site.markers.add(MarkerOptions::default(), |out| {
        write_own(record, site, count, out)?;
        values::write(record.key_values(), &site.names, out)
    });
}

/// Writes the fields that all records have, in the order of the schema.
fn write_own(
    record: &Record<'_>,
    site: &RecordSite,
    count: usize,
    out: &mut FieldWriter<'_>,
) -> Result<(), PayloadError> {
    out.text(record.level().as_str(), MAX_NAME)?;
    match record.args().as_str() {
        Some(text) => out.text(text, MAX_TEXT)?,
        None => out.display(format_args!("{}", Guarded(record.args())), MAX_TEXT)?,
    }
    let has_other_name = site.target != record.target();
    text(out, has_other_name.then(|| record.target()))?;
    text(out, module_of(record))?;
    text(out, record.file())?;
    match record.line() {
        Some(line) => out.u64(line.into())?,
        None => out.none()?,
    }
    out.none()?; // the text with the key-values, which are fields
    match count.saturating_sub(site.names.len()) {
        0 => out.none()?,
        left_out => out.u64(left_out as u64)?,
    }
    text(out, color_of(record.level()))
}

fn text(out: &mut FieldWriter<'_>, text: Option<&str>) -> Result<(), PayloadError> {
    match text {
        Some(text) => out.text(text, MAX_NAME),
        None => out.none(),
    }
}

/// The module of a record, if it is not its target.
fn module_of<'a>(record: &Record<'a>) -> Option<&'a str> {
    record
        .module_path()
        .filter(|module| *module != record.target())
}

/// The colour of a marker, by its level.
fn color_of(level: Level) -> Option<&'static str> {
    match level {
        Level::Error => Some(GraphColor::Red.name()),
        Level::Warn => Some(GraphColor::Orange.name()),
        Level::Info | Level::Debug | Level::Trace => None,
    }
}

/// A record with a stack. Its fields are those of the schema, in this order.
#[derive(Serialize)]
struct RecordWithStack<'a> {
    level: &'a str,
    message: Bounded<&'a std::fmt::Arguments<'a>>,
    target: Option<&'a str>,
    module: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    values: Option<Bounded<Listed<'a>>>,
    left_out: Option<u64>,
    color: Option<&'a str>,
}

impl ProfilerMarker for RecordWithStack<'_> {
    const TYPE_NAME: &'static str = TYPE_NAME;
    const IS_OF_PROFILER: bool = true;

    fn schema() -> MarkerSchema {
        schema_of(&[])
    }
}

/// Records a marker with the stack of the call.
#[cold]
#[inline(never)]
pub(crate) fn add_with_stack(record: &Record<'_>) {
    let values: &dyn Source = record.key_values();
    let mut has_values = false;
    values::for_each(values, |_, _, _| has_values = true);
    let target = cut(record.target());
    let options = MarkerOptions::default().with_stack(MarkerStack::Full);
    let marker = RecordWithStack {
        level: record.level().as_str(),
        message: Bounded(record.args()),
        target: None,
        module: module_of(record).map(cut),
        file: record.file().map(cut),
        line: record.line(),
        values: has_values.then_some(Bounded(Listed(values))),
        left_out: None,
        color: color_of(record.level()),
    };
    add_marker(target, category_of_target(target), options, &marker);
}

/// The beginning of a long name.
fn cut(name: &str) -> &str {
    name.get(..name.floor_char_boundary(MAX_NAME))
        .unwrap_or(name)
}
