//! File and line of addresses, by a unit's line program.
//!
//! Used by [`super`]. The program is run once for all addresses of the unit, and its rows are not kept.

use std::collections::HashMap;

use gimli::{LineProgramHeader, Reader, UnitRef};

use super::sections::Slice;
use super::work::{Stop, Work};
use crate::symbols::texts::{TextId, Texts};

/// A line of a file, the file by its number in the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) file: u64,
    /// 0: the compiler made this code up.
    pub(super) line: u32,
}

/// The line of each of `wanted`, which are in order.
pub(super) fn locate(
    unit: UnitRef<'_, Slice<'_>>,
    wanted: &[u64],
    work: &Work,
) -> Result<Vec<Option<Line>>, Stop> {
    let mut found = vec![None; wanted.len()];
    let Some(program) = unit.line_program.clone() else { return Ok(found) };
    work.charge(program.header().raw_program_buf().len())?;
    let mut rows = program.rows();
    let mut before: Option<(u64, Line)> = None;
    // The first of `wanted` that is not below the last row's address.
    let mut next = 0;
    while let Some((_, row)) = rows.next_row()? {
        let to = row.address();
        match before {
            Some((from, line)) if from <= to => {
                while let Some(slot) =
                    found.get_mut(next).filter(|_| wanted.get(next).is_some_and(|at| *at < to))
                {
                    slot.get_or_insert(line);
                    next += 1;
                }
            }
            _ => next = wanted.partition_point(|address| *address < to),
        }
        let line = row.line().map_or(0, |line| u32::try_from(line.get()).unwrap_or(0));
        before = (!row.end_sequence()).then_some((row.address(), Line { file: row.file_index(), line }));
    }
    Ok(found)
}

/// The first address of a unit's line program and the one after the last; `None` if it has none.
pub(super) fn extent(unit: UnitRef<'_, Slice<'_>>, work: &Work) -> Result<Option<(u64, u64)>, Stop> {
    let Some(program) = unit.line_program.clone() else { return Ok(None) };
    work.charge(program.header().raw_program_buf().len())?;
    let (mut rows, mut extent) = (program.rows(), None);
    while let Some((_, row)) = rows.next_row()? {
        let (first, last) = extent.unwrap_or((row.address(), row.address()));
        extent = Some((first.min(row.address()), last.max(row.address())));
    }
    Ok(extent.filter(|(first, last)| first < last))
}

/// Paths of a unit's files.
#[derive(Debug, Default)]
pub(super) struct Files(HashMap<u64, Option<TextId>>);

impl Files {
    /// The path of a file by its number.
    pub(super) fn path(
        &mut self,
        unit: UnitRef<'_, Slice<'_>>,
        file: u64,
        texts: &mut Texts,
    ) -> Option<TextId> {
        *self.0.entry(file).or_insert_with(|| {
            let program = unit.line_program.as_ref()?;
            path(unit, program.header(), file).map(|path| texts.file(&path))
        })
    }
}

/// The unit's folder, the file's folder, its name: each may be absolute and then stands for all before.
fn path<'a>(
    unit: UnitRef<'_, Slice<'a>>,
    header: &LineProgramHeader<Slice<'a>>,
    file: u64,
) -> Option<Vec<u8>> {
    let file = header.file(file)?;
    let mut path = unit.comp_dir.map(|folder| folder.slice().to_vec()).unwrap_or_default();
    // Folder 0 is the unit's.
    if file.directory_index() != 0
        && let Some(folder) = file.directory(header)
    {
        push(&mut path, unit.attr_string(folder).ok()?.slice());
    }
    push(&mut path, unit.attr_string(file.path_name()).ok()?.slice());
    Some(path)
}

fn push(path: &mut Vec<u8>, part: &[u8]) {
    let is_absolute =
        part.starts_with(b"/") || part.get(1..3) == Some(b":\\") || part.get(1..3) == Some(b":/");
    if is_absolute {
        path.clear();
    } else if !path.is_empty() && !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(part);
}
