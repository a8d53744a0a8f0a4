//! Writes tables column by column.
//!
//! Used by [`super::processed`] and [`super::functions`].

use std::io::Write;

use profiler_json::JsonWriter;

pub(super) fn table<W: Write>(
    out: &mut JsonWriter<W>,
    key: &str,
    len: usize,
    columns: impl FnOnce(&mut JsonWriter<W>),
) {
    out.key(key);
    out.begin_object();
    columns(out);
    out.entry_u64("length", len as u64);
    out.end_object();
}

pub(super) fn column<W: Write, T>(
    out: &mut JsonWriter<W>,
    key: &str,
    items: impl IntoIterator<Item = T>,
    mut item: impl FnMut(T, &mut JsonWriter<W>),
) {
    out.key(key);
    out.begin_array();
    items.into_iter().for_each(|value| item(value, out));
    out.end_array();
}

pub(super) fn empty<W: Write>(keys: &[&str], out: &mut JsonWriter<W>) {
    keys.iter()
        .for_each(|key| column(out, key, std::iter::empty::<()>(), |(), _| {}));
}

pub(super) fn number<W: Write>(value: Option<&usize>, out: &mut JsonWriter<W>) {
    maybe(value.map(|value| *value as u64), out);
}

pub(super) fn maybe<W: Write>(value: Option<u64>, out: &mut JsonWriter<W>) {
    match value {
        Some(value) => out.u64(value),
        None => out.null(),
    }
}
