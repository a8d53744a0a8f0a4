//! The sections with debug information, in memory.
//!
//! Used by [`super`] for a file itself, for the file that it shares with others, and for split
//! files. Only the sections needed for names and lines are read.

use std::borrow::Cow;

use gimli::{
    Dwarf, DwarfPackage, DwarfPackageSections, DwarfSections, EndianSlice, RunTimeEndian, SectionId,
};

use crate::image::{Image, SectionError};

/// The type of the data that `gimli` reads.
pub(super) type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

/// The sections of one file.
#[derive(Debug)]
pub(crate) struct Sections<'d> {
    sections: DwarfSections<Cow<'d, [u8]>>,
    endian: RunTimeEndian,
    bytes: u64,
}

/// The sections of a package of split files.
#[derive(Debug)]
pub(crate) struct PackageSections<'d> {
    sections: DwarfPackageSections<Cow<'d, [u8]>>,
    endian: RunTimeEndian,
    bytes: u64,
}

fn is_needed(id: SectionId) -> bool {
    use SectionId as Id;
    matches!(
        id,
        Id::DebugAbbrev
            | Id::DebugAddr
            | Id::DebugInfo
            | Id::DebugLine
            | Id::DebugLineStr
            | Id::DebugRanges
            | Id::DebugRngLists
            | Id::DebugStr
            | Id::DebugStrOffsets
            | Id::DebugCuIndex
            | Id::DebugTuIndex
    )
}

/// Whether the index of a package may name parts of the section. The reader needs all of them to
/// find a unit, also those that it does not read.
fn is_in_index(id: SectionId) -> bool {
    use SectionId as Id;
    matches!(
        id,
        Id::DebugLoc | Id::DebugLocLists | Id::DebugMacinfo | Id::DebugMacro | Id::DebugTypes
    )
}

fn endian(image: &Image<'_>) -> RunTimeEndian {
    if image.is_little_endian() {
        RunTimeEndian::Little
    } else {
        RunTimeEndian::Big
    }
}

fn section<'d>(
    image: &Image<'d>,
    name: Option<&str>,
    bytes: &mut u64,
) -> Result<Cow<'d, [u8]>, SectionError> {
    let contents = name.map_or(Ok(Cow::Borrowed(&[][..])), |name| image.section(name))?;
    *bytes += contents.len() as u64;
    Ok(contents)
}

impl<'d> Sections<'d> {
    /// Loads the sections of a file with complete debug information.
    pub(crate) fn load(image: &Image<'d>) -> Result<Self, SectionError> {
        Self::load_as(image, |id| Some(id.name()))
    }

    /// Loads the sections of a split file.
    pub(super) fn load_split(image: &Image<'d>) -> Result<Self, SectionError> {
        Self::load_as(image, SectionId::dwo_name)
    }

    fn load_as(
        image: &Image<'d>,
        name: impl Fn(SectionId) -> Option<&'static str>,
    ) -> Result<Self, SectionError> {
        let mut bytes = 0;
        let load = |id: SectionId| section(image, name(id).filter(|_| is_needed(id)), &mut bytes);
        let sections = DwarfSections::load(load)?;
        Ok(Self {
            sections,
            endian: endian(image),
            bytes,
        })
    }

    pub(super) fn borrow(&self) -> Dwarf<Slice<'_>> {
        self.sections
            .borrow(|section| EndianSlice::new(section, self.endian))
    }

    /// The total size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl<'d> PackageSections<'d> {
    /// Loads the sections of a package.
    pub(crate) fn load(image: &Image<'d>) -> Result<Self, SectionError> {
        let mut bytes = 0;
        let mut further = 0;
        let load = |id: SectionId| {
            let bytes = if is_in_index(id) {
                &mut further
            } else {
                &mut bytes
            };
            let name = id.dwo_name().filter(|_| is_needed(id) || is_in_index(id));
            section(image, name, bytes)
        };
        let sections = DwarfPackageSections::load(load)?;
        Ok(Self {
            sections,
            endian: endian(image),
            bytes,
        })
    }

    pub(super) fn borrow(&self) -> gimli::Result<DwarfPackage<Slice<'_>>> {
        let empty = EndianSlice::new(&[], self.endian);
        self.sections
            .borrow(|section| EndianSlice::new(section, self.endian), empty)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}
