//! JSON columns that are filled at the same time, row by row, and written to the profile in turn.
//!
//! A [`Column`] is text in memory while it is short, and in an unlinked file when it is longer: a
//! thread with millions of markers takes no more memory than a thread with thousands. The merge of
//! profiles keeps lists and objects in the same way.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use profiler_json::JsonWriter;
use tempfile::{SpooledData, SpooledTempFile};

/// Limit on the bytes of a column in memory.
const IN_MEMORY: usize = 256 * 1024;
/// Number of bytes that are read from the file of a column at once.
const READ_AT_ONCE: usize = 64 * 1024;

/// The directory for files that are too large for memory.
pub fn directory() -> PathBuf {
    let disk = Path::new("/var/tmp");
    match std::env::var_os("TMPDIR") {
        None if disk.is_dir() => disk.to_owned(),
        _ => std::env::temp_dir(),
    }
}

/// Creates an unlinked file.
pub fn temporary() -> io::Result<File> {
    tempfile::tempfile_in(directory())
}

/// A column to which values are added: an open JSON array.
pub type Column = Spilled;

/// JSON that is kept until it is written to the profile.
pub type Spilled = JsonWriter<SpooledTempFile>;

/// Begins a column. Its file, if it needs one, is in `directory`.
pub fn column(directory: &Path) -> Column {
    let mut column = spilled(directory);
    column.begin_array();
    column
}

/// Begins any value. Its file, if it needs one, is in `directory`.
pub fn spilled(directory: &Path) -> Spilled {
    JsonWriter::new(SpooledTempFile::new_in(IN_MEMORY, directory))
}

/// Ends a column, and writes it under its name.
pub fn end<W: Write>(mut column: Column, name: &str, out: &mut JsonWriter<W>) -> io::Result<()> {
    column.end_array();
    write_spilled(column, name, out)
}

/// Writes a value that is complete under its name.
pub fn write_spilled<W: Write>(
    column: Spilled,
    name: &str,
    out: &mut JsonWriter<W>,
) -> io::Result<()> {
    out.key(name);
    append(column, out)
}

/// Writes members, which are complete without the braces of their object.
pub fn write_spilled_members<W: Write>(
    members: Spilled,
    out: &mut JsonWriter<W>,
) -> io::Result<()> {
    match members.bytes_written() {
        0 => Ok(()),
        _ => append(members, out),
    }
}

fn append<W: Write>(column: Spilled, out: &mut JsonWriter<W>) -> io::Result<()> {
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
            let mut column = column(&directory());
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
