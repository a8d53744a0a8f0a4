//! Columns of JSON that grow side by side while rows come, and go into the profile one after the
//! other.
//!
//! A [`Column`] is text in memory while it is short, and then in an unlinked file: a thread with
//! millions of markers takes no more memory than one with thousands.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use profiler_core::internal::profile::JsonWriter;
use tempfile::{SpooledData, SpooledTempFile};

/// Bytes of one column that stay in memory.
const IN_MEMORY: usize = 256 * 1024;
/// Bytes of a column that are read from its file at once.
const READ_AT_ONCE: usize = 64 * 1024;

/// An unlinked file that only this process has.
pub(super) fn temporary() -> io::Result<File> {
    tempfile::tempfile_in(crate::part_file::directory())
}

/// A column while it grows: an array that is open.
pub(super) type Column = JsonWriter<SpooledTempFile>;

/// Begins a column, whose file is in `directory` if it needs one.
pub(super) fn column(directory: &Path) -> Column {
    let mut column = JsonWriter::new(SpooledTempFile::new_in(IN_MEMORY, directory));
    column.begin_array();
    column
}

/// Ends a column, and writes it under its name.
pub(super) fn end<W: Write>(mut column: Column, name: &str, out: &mut JsonWriter<W>) -> io::Result<()> {
    column.end_array();
    out.key(name);
    out.raw("");
    match column.finish()?.into_inner() {
        SpooledData::InMemory(bytes) => out.raw_more(bytes.get_ref()),
        SpooledData::OnDisk(mut file) => {
            file.rewind()?;
            let mut buffer = vec![0; READ_AT_ONCE];
            loop {
                match file.read(&mut buffer)? {
                    0 => break,
                    got => out.raw_more(buffer.get(..got).unwrap_or_default()),
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_the_same_in_memory_and_in_a_file() {
        for rows in [0_u64, 3, 200_000] {
            let mut column = column(&crate::part_file::directory());
            (0..rows).for_each(|row| column.u64(row));
            let mut out = JsonWriter::new(Vec::new());
            out.begin_object();
            end(column, "first", &mut out).unwrap();
            out.entry_u64("second", 7);
            out.end_object();
            let json: serde_json::Value = serde_json::from_slice(&out.finish().unwrap()).unwrap();
            let written: Vec<u64> = serde_json::from_value(json["first"].clone()).unwrap();
            assert!(written.into_iter().eq(0..rows), "{rows}");
            assert_eq!(json["second"], 7);
        }
    }
}
