//! Columns of JSON that grow side by side while rows come, and go into the profile one after the other.
//!
//! A [`Column`] is text in memory as long as it is short, and then in an unlinked file: a thread with
//! millions of markers takes no more memory than one with thousands.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use profiler_core::internal::profile::JsonWriter;

/// Bytes of one column that stay in memory.
const IN_MEMORY: usize = 256 * 1024;

/// Bytes that go to a file when there are many.
#[derive(Debug, Default)]
pub(super) struct Spill {
    memory: Vec<u8>,
    file: Option<File>,
}

impl Spill {
    fn spill(&mut self) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => temporary()?,
        };
        self.file.insert(file).write_all(&self.memory)?;
        self.memory.clear();
        Ok(())
    }

    /// Writes all of it as one value.
    pub(super) fn write_to<W: Write>(mut self, out: &mut JsonWriter<W>) -> io::Result<()> {
        out.raw("");
        if let Some(mut file) = self.file.take() {
            file.seek(SeekFrom::Start(0))?;
            let mut buffer = vec![0; IN_MEMORY];
            loop {
                match file.read(&mut buffer)? {
                    0 => break,
                    got => out.raw_more(buffer.get(..got).unwrap_or_default()),
                }
            }
        }
        out.raw_more(&self.memory);
        Ok(())
    }
}

impl Write for Spill {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.memory.len().saturating_add(bytes.len()) > IN_MEMORY {
            self.spill()?;
        }
        self.memory.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An unlinked file that only this process has.
pub(super) fn temporary() -> io::Result<File> {
    tempfile::tempfile_in(crate::outbox::directory())
}

/// A column while it grows: an array that is open.
pub(super) type Column = JsonWriter<Spill>;

/// Begins a column.
pub(super) fn column() -> Column {
    let mut column = JsonWriter::new(Spill::default());
    column.begin_array();
    column
}

/// Ends a column, and writes it under its name.
pub(super) fn end<W: Write>(mut column: Column, name: &str, out: &mut JsonWriter<W>) -> io::Result<()> {
    column.end_array();
    out.key(name);
    column.finish()?.write_to(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_the_same_in_memory_and_in_a_file() {
        for rows in [0_u64, 3, 200_000] {
            let mut column = column();
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
