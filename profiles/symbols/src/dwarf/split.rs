//! Debug information that the compiler put into separate files (`.dwo`, or many of them in a
//! `.dwp`).
//!
//! Used by [`super`]. Invariant: such a file is found by the path in the unit, and used only if it
//! has the unit's number.

use std::path::{Path, PathBuf};

use gimli::{Unit, UnitRef};

use super::sections::{PackageSections, Sections, Slice};
use super::units::Units;
use crate::image::{Image, SectionError};
use crate::locate;
use crate::locate::Opened;
use crate::reading::Reading;

/// Opens `FILE.dwp`.
pub(crate) fn open_package(of: &Path, options: &Reading) -> Option<Opened> {
    locate::open(&package_path(of), options).ok()
}

/// The path of the package of a program.
pub(super) fn package_path(of: &Path) -> PathBuf {
    let mut name = of.as_os_str().to_owned();
    name.push(".dwp");
    name.into()
}

/// The sections of a package.
pub(crate) fn package_sections(package: &Opened) -> Result<PackageSections<'_>, SectionError> {
    PackageSections::load(&Image::parse(package.source.bytes())?)
}

/// The path of a unit's split file, as recorded by the compiler; `None` if the unit has none.
pub(super) fn path(units: &Units<'_>, unit: &Unit<Slice<'_>>) -> Option<PathBuf> {
    unit.dwo_id?;
    let unit_ref = UnitRef::new(units.dwarf, unit);
    let name = unit_ref.attr_string(unit.dwo_name().ok()??).ok()?;
    let folder = unit
        .comp_dir
        .map(|folder| locate::as_path(folder.slice()))
        .unwrap_or_default();
    Some(folder.join(locate::as_path(name.slice())))
}

/// Opens a unit's split file: at the recorded path, or beside the program.
pub(super) fn open(path: &Path, program: &Path, options: &Reading) -> Option<Opened> {
    let beside = || Some(program.parent()?.join(path.file_name()?));
    locate::open(path, options)
        .ok()
        .or_else(|| locate::open(&beside()?, options).ok())
}

/// The sections of a split file.
pub(super) fn sections(file: &Opened) -> Result<Sections<'_>, SectionError> {
    Sections::load_split(&Image::parse(file.source.bytes())?)
}

/// The unit of a split file that belongs to `skeleton`.
pub(super) fn matching<'b>(
    split: &Units<'b>,
    skeleton: &Unit<Slice<'b>>,
) -> Option<Unit<Slice<'b>>> {
    let mut candidates = (0..split.len()).filter(|index| !split.is_of_types(*index));
    let mut unit = candidates.find_map(|index| {
        let unit = split.load(index).ok()?;
        (unit.dwo_id == skeleton.dwo_id).then_some(unit)
    })?;
    unit.copy_relocated_attributes(skeleton);
    Some(unit)
}
