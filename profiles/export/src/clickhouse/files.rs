//! Writes the rows of a recording into a directory: one compressed file for each table.
//!
//! Called by [`crate`]. `zcat FILE | clickhouse-client --query "INSERT INTO … FORMAT
//! JSONEachRow"` inserts a file. A table without rows has an empty file.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::{BatchIdentity, FleetTable};
use crate::bodies::{BodySink, EncodedBody, MAX_BODY_BYTES};
use crate::recording::{Recording, Totals};
use crate::{ExportError, FleetLabels};
use profiler_files::output::{ProfileFile, WriteBehind};

/// Writes the files, and returns their paths in the order in which they are inserted.
pub(crate) fn write(
    recording: &Recording,
    labels: &FleetLabels,
    to: &Path,
) -> Result<(Totals, Vec<PathBuf>), ExportError> {
    std::fs::create_dir_all(to)?;
    let mut files = TableFiles::create(to)?;
    let identity = BatchIdentity::of(recording.survey(), labels);
    let totals = super::encode(recording, &identity, MAX_BODY_BYTES, &mut files)?;
    let paths = FleetTable::ALL.map(|table| to.join(file_name(table)));
    for file in files.0 {
        file.finish()?.commit()?;
    }
    Ok((totals, paths.into()))
}

fn file_name(table: FleetTable) -> String {
    format!("{}.ndjson.gz", table.name())
}

/// The files of all tables.
struct TableFiles(Vec<WriteBehind<ProfileFile>>);

impl TableFiles {
    fn create(to: &Path) -> Result<Self, ExportError> {
        let file = |table| ProfileFile::create_behind(&to.join(file_name(table)));
        let files: Result<_, _> = FleetTable::ALL.into_iter().map(file).collect();
        Ok(Self(files?))
    }
}

impl BodySink for TableFiles {
    fn body(&mut self, body: EncodedBody<'_>) -> Result<(), ExportError> {
        let table = body.kind.table();
        if let Some(file) = table.and_then(|table| self.0.get_mut(table.index())) {
            file.write_all(body.bytes)?;
        }
        Ok(())
    }
}
