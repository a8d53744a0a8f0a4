//! Looks up some addresses of one module in its best available sources.
//!
//! Called by [`super::Symbols`] for addresses that are not in its cache. The sources, in order:
//! debug information in the file or in a separate file, the symbol tables of both, the symbol table
//! packed into a stripped file. Invariants: a file that is not the one that the process ran gives
//! no names; a defect of a file is only reported as a [`Problem`]; every opened file is closed
//! again, and its data is dropped.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::bytes::Source;
use super::demangle;
use super::dwarf::{self, DebugFiles, Located, RawFrame, Sections};
use super::image::{Image, SectionError};
use super::locate::{self, Found, Opened};
use super::minidebug;
use super::options::SymbolOptions;
use super::place::{CodeRange, Place, SourceFrame};
use super::problem::Problem;
use super::reading::Reading;
use super::report::NameSource;
use super::table::SymbolTable;
use super::texts::Texts;

/// The result of a look-up.
#[derive(Debug)]
pub(super) struct Outcome {
    /// One per address; empty if the file cannot be used at all.
    pub(super) places: Vec<Arc<Place>>,
    pub(super) source: NameSource,
    /// The file with the debug information, if it is not the module's own.
    pub(super) debug_file: Option<PathBuf>,
    pub(super) problems: Vec<Problem>,
    /// Approximate size of the places in bytes.
    pub(super) bytes: u64,
}

impl Outcome {
    pub(super) fn nothing(problems: Vec<Problem>) -> Self {
        Self {
            places: Vec::new(),
            source: NameSource::Nothing,
            debug_file: None,
            problems,
            bytes: 0,
        }
    }
}

/// Looks up the addresses, which are sorted and distinct.
pub(super) fn look_up(
    path: &str,
    build_id: &[u8],
    addresses: &[u64],
    reading: &Reading,
) -> Outcome {
    match locate::module(path, build_id, reading) {
        Ok(found) => in_file(&found, addresses, reading),
        // A file beyond the budget looks damaged.
        Err(_) if reading.budget.left() == 0 => {
            Outcome::nothing(vec![Problem::NotRead(path.into())])
        }
        Err(problem) => Outcome::nothing(vec![problem]),
    }
}

/// Looks up addresses in an image in memory only. Used by the fuzzer and by tests.
pub(super) fn in_image(image: Vec<u8>, addresses: &[u64], options: &SymbolOptions) -> Outcome {
    let options = SymbolOptions {
        debug_roots: Vec::new(),
        roots: Vec::new(),
        ..options.clone()
    };
    let reading = Reading::new(&options, options.sum_limit);
    let source = Source::memory(image, options.file_limit, &reading.budget);
    let path = PathBuf::from("/nowhere/image");
    in_file(
        &Found {
            file: Opened { path, source },
            unverified: false,
        },
        addresses,
        &reading,
    )
}

fn in_file(found: &Found, addresses: &[u64], reading: &Reading) -> Outcome {
    let own = &found.file;
    let mut problems = Vec::new();
    if found.unverified {
        problems.push(Problem::Unverified(own.path.clone()));
    }
    let Some(image) = parsed(own, &mut problems) else {
        return Outcome::nothing(problems);
    };
    let separate = if image.has_debug_info() {
        None
    } else {
        locate::debug_file(&image, &own.path, reading)
    };
    let separate_image = separate
        .as_ref()
        .and_then(|file| parsed(file, &mut problems));
    let debug = match (&separate, &separate_image) {
        (Some(file), Some(image)) => Debug {
            image,
            path: &file.path,
            program: &own.path,
        },
        _ => Debug {
            image: &image,
            path: &own.path,
            program: &own.path,
        },
    };
    let mut texts = Texts::default();
    // Tables are read first because they are small: debug information may use up the budget.
    let mut tables = tables(&image, separate_image.as_ref(), &own.path, &mut problems);
    let packed = if tables.is_full {
        None
    } else {
        minidebug::unpacked(&image, &own.path, reading, &mut problems)
    };
    let packed = packed
        .as_ref()
        .and_then(|source| parsed_bytes(source, &own.path, &mut problems));
    if let Some(packed) = &packed {
        // It contains only symbols that the dynamic table does not have.
        tables
            .all
            .insert(0, table(packed, SYMTAB, &own.path, &mut problems));
    }
    let tables = tables.all;
    let located = debug.locate(addresses, reading, &mut texts, &mut problems);
    let source = source_of(&located, &tables);
    let (places, bytes) = compose(addresses, located, &tables, &mut texts);
    if texts.left_out() > 0 {
        let path = own.path.clone();
        let what = "names";
        let count = texts.left_out();
        problems.push(Problem::LeftOut { path, what, count });
    }
    let debug_file = separate.as_ref().map(|file| file.path.clone());
    Outcome {
        places,
        source,
        debug_file,
        problems,
        bytes,
    }
}

fn parsed<'f>(file: &'f Opened, problems: &mut Vec<Problem>) -> Option<Image<'f>> {
    parsed_bytes(&file.source, &file.path, problems)
}

fn parsed_bytes<'f>(
    source: &'f Source,
    path: &Path,
    problems: &mut Vec<Problem>,
) -> Option<Image<'f>> {
    match Image::parse(source.bytes()) {
        Ok(image) => Some(image),
        Err(error) => {
            problems.push(Problem::NotElf {
                path: path.to_owned(),
                reason: error.to_string(),
            });
            None
        }
    }
}

/// The file with the debug information.
struct Debug<'d> {
    image: &'d Image<'d>,
    path: &'d Path,
    /// The program that the process ran.
    program: &'d Path,
}

impl Debug<'_> {
    fn locate(
        &self,
        addresses: &[u64],
        options: &Reading,
        texts: &mut Texts,
        problems: &mut Vec<Problem>,
    ) -> Vec<Located> {
        let nothing = || vec![Located::default(); addresses.len()];
        if !self.image.has_debug_info() {
            return nothing();
        }
        let sections = match Sections::load(self.image) {
            Ok(sections) => sections,
            Err(error) => {
                problems.push(error.problem(self.path));
                return nothing();
            }
        };
        let shared_file = locate::shared_file(self.image, self.path, options);
        let shared_image = shared_file.as_ref().and_then(|file| parsed(file, problems));
        let shared = shared_image
            .as_ref()
            .and_then(|image| Sections::load(image).ok());
        let package_file = dwarf::open_package(self.program, options);
        let package = package_file.as_ref().and_then(|file| {
            let sections = dwarf::package_sections(file);
            let complain = |error: SectionError| problems.push(error.problem(&file.path));
            sections.map_err(complain).ok()
        });
        let files = DebugFiles {
            sections: &sections,
            shared: shared.as_ref(),
            package: package.as_ref(),
            path: self.path,
            program: self.program,
            options,
        };
        dwarf::locate(&files, addresses, texts, problems)
    }
}

/// The symbol tables, the most complete first.
struct Tables<'d> {
    all: Vec<SymbolTable<'d>>,
    /// Whether one of them has all functions.
    is_full: bool,
}

/// The names of the two sections of a symbol table.
#[derive(Clone, Copy)]
struct SymbolSections {
    rows: &'static str,
    texts: &'static str,
}

/// The full table, which linkers can strip.
const SYMTAB: SymbolSections = SymbolSections {
    rows: ".symtab",
    texts: ".strtab",
};
/// The table of the dynamic linker: exported symbols only.
const DYNSYM: SymbolSections = SymbolSections {
    rows: ".dynsym",
    texts: ".dynstr",
};

fn tables<'d>(
    image: &Image<'d>,
    separate: Option<&Image<'d>>,
    path: &Path,
    problems: &mut Vec<Problem>,
) -> Tables<'d> {
    let mut of = |image: Option<&Image<'d>>, names| {
        image.map_or_else(SymbolTable::default, |image| {
            table(image, names, path, problems)
        })
    };
    let full = of(Some(image), SYMTAB);
    let full = if full.is_empty() {
        of(separate, SYMTAB)
    } else {
        full
    };
    let is_full = !full.is_empty();
    let dynamic = if is_full {
        SymbolTable::default()
    } else {
        of(Some(image), DYNSYM)
    };
    Tables {
        all: [full, dynamic]
            .into_iter()
            .filter(|table| !table.is_empty())
            .collect(),
        is_full,
    }
}

/// Reads the table in two sections: its rows and its strings.
fn table<'d>(
    image: &Image<'d>,
    names: SymbolSections,
    path: &Path,
    problems: &mut Vec<Problem>,
) -> SymbolTable<'d> {
    match image.symbols(names.rows, names.texts) {
        Ok(raw) => {
            if raw.left_out > 0 {
                let path = path.to_owned();
                let what = "symbols";
                let count = raw.left_out;
                problems.push(Problem::LeftOut { path, what, count });
            }
            SymbolTable::new(raw)
        }
        Err(error) => {
            problems.push(error.problem(path));
            SymbolTable::default()
        }
    }
}

fn source_of(located: &[Located], tables: &[SymbolTable<'_>]) -> NameSource {
    if located.iter().any(|located| !located.frames.is_empty()) {
        NameSource::DebugInformation
    } else if tables.is_empty() {
        NameSource::Nothing
    } else {
        NameSource::SymbolTable
    }
}

/// Combines debug information and symbol tables. Equal places share one allocation.
fn compose(
    addresses: &[u64],
    located: Vec<Located>,
    tables: &[SymbolTable<'_>],
    texts: &mut Texts,
) -> (Vec<Arc<Place>>, u64) {
    let mut unique: HashMap<Located, Arc<Place>> = HashMap::new();
    let mut bytes = 0;
    let places = addresses.iter().zip(located).map(|(address, mut located)| {
        let symbol = tables.iter().find_map(|table| table.find(*address));
        if let Some((name, code)) = symbol {
            complete(&mut located, name, code, texts);
        }
        let place = unique.entry(located).or_insert_with_key(|located| {
            let place = place(located, texts);
            bytes += place.weight();
            Arc::new(place)
        });
        Arc::clone(place)
    });
    let places: Vec<_> = places.collect();
    (places, bytes + texts.bytes())
}

/// Adds the name and the code range from the symbol table if they are missing or more complete
/// there.
fn complete(located: &mut Located, name: &[u8], code: CodeRange, texts: &mut Texts) {
    let is_same = located
        .function
        .is_none_or(|function| function.start == code.start);
    match located.frames.last_mut() {
        None => {
            located.frames.push(RawFrame {
                function: Some(texts.name(name)),
                file: None,
                line: 0,
            });
        }
        Some(outer) if outer.function.is_none() => outer.function = Some(texts.name(name)),
        Some(outer) if located.is_short_name && is_same && demangle::is_mangled(name) => {
            outer.function = Some(texts.name(name));
        }
        Some(_) => {}
    }
    located.function.get_or_insert(code);
}

fn place(located: &Located, texts: &Texts) -> Place {
    let frame = |raw: &RawFrame| SourceFrame {
        function: raw.function.and_then(|name| texts.get(name)),
        file: raw.file.and_then(|file| texts.get(file)),
        line: raw.line,
    };
    Place {
        frames: located.frames.iter().map(frame).collect(),
        function: located.function,
    }
}
