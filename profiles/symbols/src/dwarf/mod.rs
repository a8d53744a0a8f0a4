//! Debug information: functions, inlined functions, files and lines of addresses.
//!
//! Called by [`super::module`] with all addresses of a file at once, sorted. Each unit that
//! contains some of them is read once, for all of its addresses together, and then dropped; so
//! memory is bounded by the largest unit, and time by the size of the units that are hit. It uses
//! `gimli` instead of `addr2line`, which follows inlined functions by recursion (a crafted file
//! overflows the stack, which no caller survives), keeps every unit that it has read, and does not
//! return the start of a function. Invariants: accepts any bytes; the work is bounded by [`work`],
//! the memory by the limits of [`units`] and [`walk`].

mod entry;
mod lines;
mod names;
mod sections;
mod split;
mod units;
mod walk;
mod work;

use std::path::Path;

use gimli::{Dwarf, Unit, UnitRef};

pub(super) use self::sections::{PackageSections, Sections};
pub(super) use self::split::{open_package, package_sections};
pub(super) use self::work::Stop;

use self::entry::DwarfEntry;
use self::lines::{Files, LineRow};
use self::names::{Name, Names};
use self::sections::Slice;
use self::units::Units;
use self::walk::Walked;
use self::work::Work;
use super::place::CodeRange;
use super::problem::Problem;
use super::reading::Reading;
use super::texts::{TextId, Texts};

/// Limit on the units that are searched for one address.
const UNITS_PER_ADDRESS: u8 = 4;

/// One function at one address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct RawFrame {
    pub(super) function: Option<TextId>,
    pub(super) file: Option<TextId>,
    pub(super) line: u32,
}

/// The debug information of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Located {
    /// Innermost first; empty if nothing is known.
    pub(super) frames: Vec<RawFrame>,
    /// The code range of the function.
    pub(super) function: Option<CodeRange>,
    /// The function's name is not its linkage name, which would be more complete.
    pub(super) is_short_name: bool,
}

/// A file's debug information, with the files that belong to it.
#[derive(Debug)]
pub(super) struct DebugFiles<'d> {
    pub(super) sections: &'d Sections<'d>,
    pub(super) shared: Option<&'d Sections<'d>>,
    pub(super) package: Option<&'d PackageSections<'d>>,
    /// The file with the debug information.
    pub(super) path: &'d Path,
    /// The program that the process ran.
    pub(super) program: &'d Path,
    pub(super) options: &'d Reading,
}

/// The addresses of one file, and the results so far.
struct Batch<'b> {
    addresses: &'b [u64],
    found: Vec<Located>,
    texts: &'b mut Texts,
    problems: &'b mut Vec<Problem>,
}

/// Looks up the addresses, which are sorted and distinct.
pub(super) fn locate(
    files: &DebugFiles<'_>,
    addresses: &[u64],
    texts: &mut Texts,
    problems: &mut Vec<Problem>,
) -> Vec<Located> {
    let bytes = files.sections.bytes()
        + files.shared.map_or(0, Sections::bytes)
        + files.package.map_or(0, PackageSections::bytes);
    let work = Work::new(bytes, addresses.len());
    let mut dwarf = files.sections.borrow();
    if let Some(shared) = files.shared {
        dwarf.set_sup(shared.borrow());
    }
    let units = Units::new(&dwarf, &work);
    let shared = dwarf.sup().map(|dwarf| Units::new(dwarf, &work));
    let search = Search {
        files,
        units: &units,
        shared: shared.as_ref(),
    };
    let mut batch = Batch {
        addresses,
        found: vec![Located::default(); addresses.len()],
        texts,
        problems,
    };
    if let Err(stop) = search.run(&mut batch) {
        batch.complain(files.path, stop);
    }
    if work.left_out() > 0 {
        let path = files.path.to_owned();
        let what = "inlined functions";
        batch.problems.push(Problem::LeftOut {
            path,
            what,
            count: work.left_out(),
        });
    }
    batch.found
}

impl Batch<'_> {
    /// Records a problem of a file, once.
    fn complain(&mut self, path: &Path, stop: Stop) {
        let path = path.to_owned();
        let problem = match stop {
            Stop::Exhausted => Problem::TooMuch(path),
            Stop::Absurd | Stop::Damaged(_) => Problem::BadDebugInformation {
                path,
                reason: stop.to_string(),
            },
        };
        self.note(problem);
    }

    fn note(&mut self, problem: Problem) {
        if self.problems.len() < 16 && !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    fn is_known(&self, index: usize) -> bool {
        self.found
            .get(index)
            .is_some_and(|located| !located.frames.is_empty())
    }
}

struct Search<'s, 'a> {
    files: &'s DebugFiles<'s>,
    units: &'s Units<'a>,
    shared: Option<&'s Units<'a>>,
}

impl<'a> Search<'_, 'a> {
    fn run(&self, batch: &mut Batch<'_>) -> Result<(), Stop> {
        let mut names = Names::new(self.units, self.shared);
        let mut tries = vec![0_u8; batch.addresses.len()];
        let mut unranged = Vec::new();
        for index in (0..self.units.len()).filter(|index| !self.units.is_of_types(*index)) {
            match self.ranged_unit(index, &mut tries, batch, &mut names) {
                Ok(true) => {}
                Ok(false) => unranged.push(index),
                Err(Stop::Exhausted) => return Err(Stop::Exhausted),
                Err(stop) => batch.complain(self.files.path, stop),
            }
        }
        let mut wanted: Vec<usize> = (0..batch.addresses.len()).collect();
        wanted.retain(|at| !batch.is_known(*at));
        for index in unranged {
            match self.unranged_unit(index, &wanted, batch, &mut names) {
                Ok(true) => {
                    self.units.work.charge(wanted.len())?;
                    wanted.retain(|at| !batch.is_known(*at));
                }
                Ok(false) => {}
                Err(Stop::Exhausted) => return Err(Stop::Exhausted),
                Err(stop) => batch.complain(self.files.path, stop),
            }
        }
        Ok(())
    }

    /// Looks up the addresses in the code ranges of a unit. Returns false if the unit states no
    /// ranges.
    fn ranged_unit(
        &self,
        index: usize,
        tries: &mut [u8],
        batch: &mut Batch<'_>,
        names: &mut Names<'_, 'a>,
    ) -> Result<bool, Stop> {
        let unit = self.units.load(index)?;
        let unit_ref = UnitRef::new(self.units.dwarf, &unit);
        let mut entries = unit_ref.entries_raw(None)?;
        let root = entries
            .read_abbreviation()?
            .ok_or(gimli::Error::MissingUnitDie)?;
        if root.tag() == gimli::DW_TAG_partial_unit {
            return Ok(true);
        }
        let mut wanted = Vec::new();
        let root = DwarfEntry::read(&mut entries, root, unit_ref)?;
        let has_ranges = root.ranges(unit_ref, self.units.work, |range| {
            let first = batch
                .addresses
                .partition_point(|address| *address < range.begin);
            let after = batch
                .addresses
                .partition_point(|address| *address < range.end)
                .max(first);
            self.units.work.charge(after - first)?;
            for (at, tries) in (first..after).zip(tries.get_mut(first..after).unwrap_or_default()) {
                if *tries < UNITS_PER_ADDRESS && !batch.is_known(at) {
                    *tries += 1;
                    wanted.push(at);
                }
            }
            Ok(())
        })?;
        wanted.sort_unstable();
        wanted.dedup();
        self.unit(index, &unit, &wanted, batch, names)?;
        Ok(has_ranges)
    }

    /// Looks up the addresses in a unit without code ranges, by the extent of its lines. Returns
    /// whether the unit contains any of them.
    fn unranged_unit(
        &self,
        index: usize,
        wanted: &[usize],
        batch: &mut Batch<'_>,
        names: &mut Names<'_, 'a>,
    ) -> Result<bool, Stop> {
        let unit = self.units.load(index)?;
        let unit_ref = UnitRef::new(self.units.dwarf, &unit);
        let Some((first, last)) = lines::extent(unit_ref, self.units.work)? else {
            return Ok(false);
        };
        let address = |at: &usize| batch.addresses.get(*at).copied().unwrap_or(0);
        let from = wanted.partition_point(|at| address(at) < first);
        let to = wanted.partition_point(|at| address(at) < last).max(from);
        self.units.work.charge(to - from)?;
        let within = wanted.get(from..to).unwrap_or_default();
        self.unit(index, &unit, within, batch, names)?;
        Ok(!within.is_empty())
    }

    fn unit(
        &self,
        index: usize,
        unit: &Unit<Slice<'a>>,
        wanted: &[usize],
        batch: &mut Batch<'_>,
        names: &mut Names<'_, 'a>,
    ) -> Result<(), Stop> {
        if wanted.is_empty() {
            return Ok(());
        }
        let unit_ref = UnitRef::new(self.units.dwarf, unit);
        let addresses: Vec<u64> = wanted
            .iter()
            .filter_map(|at| batch.addresses.get(*at).copied())
            .collect();
        let lines = lines::locate(unit_ref, &addresses, self.units.work)?;
        let hit = Hit {
            unit: unit_ref,
            wanted,
            addresses: &addresses,
            lines: &lines,
        };
        let Some(path) = split::path(self.units, unit) else {
            let walked = walk::walk(self.units, unit, &addresses)?;
            hit.compose(&walked, unit, names, batch);
            return Ok(());
        };
        let in_package = self.in_package(index, &hit, batch);
        let package = split::package_path(self.files.program);
        if found(in_package, &package, batch)? {
            return Ok(());
        }
        let in_split_file = self.in_split_file(index, &path, &hit, batch);
        if !found(in_split_file, &path, batch)? {
            batch.note(Problem::NoSplitFile(path));
            hit.compose_lines(batch);
        }
        Ok(())
    }

    /// Looks up a unit whose functions are in the package of split files. Returns whether they are.
    fn in_package(
        &self,
        index: usize,
        hit: &Hit<'_, '_>,
        batch: &mut Batch<'_>,
    ) -> Result<bool, Stop> {
        let Some(package) = self.files.package else {
            return Ok(false);
        };
        let package = package.borrow()?;
        let whole = self.files.sections.borrow();
        let skeleton = self.units.seen_by(&whole, self.units.work).load(index)?;
        let Some(number) = skeleton.dwo_id else {
            return Ok(false);
        };
        match package.find_cu(number, &whole)? {
            Some(split) => self.in_split(&split, &skeleton, hit, batch),
            None => Ok(false),
        }
    }

    /// Looks up a unit whose functions are in a separate split file. Returns whether they are.
    fn in_split_file(
        &self,
        index: usize,
        path: &Path,
        hit: &Hit<'_, '_>,
        batch: &mut Batch<'_>,
    ) -> Result<bool, Stop> {
        let Some(file) = split::open(path, self.files.program, self.files.options) else {
            return Ok(false);
        };
        let sections = match split::sections(&file) {
            Ok(sections) => sections,
            Err(error) => {
                batch.note(error.problem(&file.path));
                return Ok(false);
            }
        };
        let whole = self.files.sections.borrow();
        let skeleton = self.units.seen_by(&whole, self.units.work).load(index)?;
        let mut split = sections.borrow();
        split.make_dwo(&whole);
        self.in_split(&split, &skeleton, hit, batch)
    }

    fn in_split<'b>(
        &self,
        split: &'b Dwarf<Slice<'b>>,
        skeleton: &Unit<Slice<'b>>,
        hit: &Hit<'_, '_>,
        batch: &mut Batch<'_>,
    ) -> Result<bool, Stop>
    where
        Self: 'b,
    {
        let units = Units::new(split, self.units.work);
        let Some(unit) = split::matching(&units, skeleton) else {
            return Ok(false);
        };
        let walked = walk::walk(&units, &unit, hit.addresses)?;
        hit.compose(&walked, &unit, &mut Names::new(&units, None), batch);
        Ok(true)
    }
}

/// Whether a unit was found in a file. A file that cannot be read is reported, and the unit is
/// looked up elsewhere.
fn found(result: Result<bool, Stop>, file: &Path, batch: &mut Batch<'_>) -> Result<bool, Stop> {
    match result {
        Err(Stop::Exhausted) => Err(Stop::Exhausted),
        Err(stop) => {
            batch.complain(file, stop);
            Ok(false)
        }
        found => found,
    }
}

/// The addresses in one unit.
struct Hit<'h, 'a> {
    /// The unit with the lines.
    unit: UnitRef<'h, Slice<'a>>,
    /// The indices of the addresses in the batch.
    wanted: &'h [usize],
    addresses: &'h [u64],
    lines: &'h [Option<LineRow>],
}

impl Hit<'_, '_> {
    /// Combines functions, inlined functions, files and lines. `of` is the unit with the functions.
    fn compose<'b>(
        &self,
        walked: &Walked<'b>,
        of: &Unit<Slice<'b>>,
        names: &mut Names<'_, 'b>,
        batch: &mut Batch<'_>,
    ) {
        let mut files = Files::default();
        let mut known: Vec<Option<Option<Name>>> = vec![None; walked.entries.len()];
        for ((at, line), enclosing) in self.wanted.iter().zip(self.lines).zip(&walked.enclosing) {
            let Some(located) = batch.found.get_mut(*at) else {
                continue;
            };
            let mut name = |index: usize, texts: &mut Texts| -> Option<Name> {
                let entry = walked.entries.get(index)?;
                *known
                    .get_mut(index)?
                    .get_or_insert_with(|| names.of(entry, of, texts))
            };
            let mut file = |file: u64, texts: &mut Texts| files.path(self.unit, file, texts);
            let mut frame = self.innermost(*line, &mut file, batch.texts);
            for index in enclosing.inlined.iter().rev() {
                frame.function = name(*index, batch.texts).map(|name| name.text);
                located.frames.push(frame);
                let call = walked.entries.get(*index);
                frame = RawFrame {
                    function: None,
                    file: call.and_then(|call| file(call.call_file?, batch.texts)),
                    line: call.map_or(0, |call| call.call_line),
                };
            }
            if let Some((index, code)) = enclosing.function {
                let name = name(index, batch.texts);
                located.is_short_name = name.is_some_and(|name| !name.of_linker);
                located.function = Some(code);
                frame.function = name.map(|name| name.text);
                located.frames.push(frame);
            } else if frame != RawFrame::default() {
                located.frames.push(frame);
            }
        }
    }

    /// Stores only files and lines.
    fn compose_lines(&self, batch: &mut Batch<'_>) {
        let mut files = Files::default();
        for (at, line) in self.wanted.iter().zip(self.lines) {
            let mut file = |file: u64, texts: &mut Texts| files.path(self.unit, file, texts);
            let frame = self.innermost(*line, &mut file, batch.texts);
            if let Some(located) = batch
                .found
                .get_mut(*at)
                .filter(|_| frame != RawFrame::default())
            {
                located.frames.push(frame);
            }
        }
    }

    fn innermost(
        &self,
        line: Option<LineRow>,
        file: &mut dyn FnMut(u64, &mut Texts) -> Option<TextId>,
        texts: &mut Texts,
    ) -> RawFrame {
        match line {
            Some(line) => RawFrame {
                function: None,
                file: file(line.file, texts),
                line: line.line,
            },
            None => RawFrame::default(),
        }
    }
}
