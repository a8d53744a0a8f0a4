//! The table of the files whose code ran, without duplicates, for all processes.
//!
//! Two processes that map the same file share one row and all names. Viewers and symbol servers
//! identify a file by two ids that are derived from its build id.

use std::collections::HashMap;
use std::io::Write;

use profiler_core::internal::reader::ModuleDefinition;
use profiler_gecko::debug_id::{breakpad_id, code_id};
use profiler_gecko::frame_names::module_name;
use profiler_json::JsonWriter;

use super::quota::Quota;

/// Number of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LibId(pub(super) u32);

/// All files, without duplicates.
#[derive(Debug)]
pub(super) struct Libs {
    known: HashMap<(String, Vec<u8>), LibId>,
    all: Vec<ModuleDefinition>,
    bytes: usize,
    /// The quota of files, and the quota of bytes.
    quotas: (Quota, Quota),
    left_out: u64,
}

/// Limit on the files of a profile. A normal process has hundreds at most.
const MAX: usize = 1 << 14;
/// Limit on the bytes of all paths and build ids.
const MAX_BYTES: usize = 2 << 20;
/// Limit on the length of a path, which is also the limit of the system.
const LONGEST_PATH: usize = 4096;

impl Libs {
    /// Creates an empty table for this number of processes.
    pub(super) fn new(processes: usize) -> Self {
        let quotas = (
            Quota::new(0, MAX, processes),
            Quota::new(0, MAX_BYTES, processes),
        );
        Self {
            known: HashMap::new(),
            all: Vec::new(),
            bytes: 0,
            quotas,
            left_out: 0,
        }
    }

    /// Begins the next process.
    pub(super) fn begin_process(&mut self, is_root: bool) {
        self.quotas.0.begin(self.all.len(), is_root);
        self.quotas.1.begin(self.bytes, is_root);
    }

    /// The row of a module: the same for all processes that have the same file with the same
    /// contents. `None` if there is no room for it.
    pub(super) fn intern(&mut self, module: &ModuleDefinition) -> Option<LibId> {
        let key = (module.path.clone(), module.build_id.clone());
        if let Some(known) = self.known.get(&key) {
            return Some(*known);
        }
        let bytes = self
            .bytes
            .saturating_add(module.path.len())
            .saturating_add(module.build_id.len());
        let fits = self.all.len() < self.quotas.0.limit()
            && bytes <= self.quotas.1.limit()
            && module.path.len() <= LONGEST_PATH;
        let next = u32::try_from(self.all.len())
            .ok()
            .filter(|_| fits)
            .map(LibId);
        let Some(next) = next else {
            self.left_out += 1;
            return None;
        };
        self.bytes = bytes;
        self.all.push(module.clone());
        self.known.insert(key, next);
        Some(next)
    }

    /// Number of times that a module did not fit.
    pub(super) const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// All files with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (LibId, &ModuleDefinition)> {
        (0..).map(LibId).zip(&self.all)
    }

    /// Number of files.
    pub(super) const fn len(&self) -> usize {
        self.all.len()
    }

    /// Display name of a file.
    pub(super) fn name(&self, id: LibId) -> &str {
        self.all
            .get(id.0 as usize)
            .map_or("", |module| module_name(&module.path))
    }

    /// Writes the key `libs`.
    pub(super) fn write<W: Write>(&self, out: &mut JsonWriter<W>) {
        out.entry_list("libs", &self.all, write_file);
    }
}

fn write_file<W: Write>(module: &ModuleDefinition, out: &mut JsonWriter<W>) {
    let name = module_name(&module.path);
    out.begin_object();
    out.entry_str("arch", std::env::consts::ARCH);
    for key in ["name", "debugName"] {
        out.entry_str(key, name);
    }
    for key in ["path", "debugPath"] {
        out.entry_str(key, &module.path);
    }
    out.entry_str("breakpadId", &breakpad_id(&module.build_id));
    out.key("codeId");
    match module.build_id.is_empty() {
        true => out.null(),
        false => out.string(&code_id(&module.build_id)),
    }
    out.end_object();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(path: &str, build_id: &[u8], base: u64) -> ModuleDefinition {
        ModuleDefinition {
            path: path.to_owned(),
            build_id: build_id.to_vec(),
            base,
            start: base,
            end: base + 10,
        }
    }

    #[test]
    fn one_file_in_two_processes_is_one_row_and_another_build_id_is_another_row() {
        let mut libs = Libs::new(1);
        let first = libs.intern(&module("/bin/a", &[1], 0x1000)).unwrap();
        assert_eq!(libs.intern(&module("/bin/a", &[1], 0x9000)), Some(first));
        assert_ne!(libs.intern(&module("/bin/a", &[2], 0x1000)), Some(first));
        assert_eq!((libs.name(first), libs.len()), ("a", 2));
    }

    #[test]
    fn the_table_is_bounded_and_counts_files_that_do_not_fit() {
        let mut libs = Libs::new(1);
        for number in 0..20_000_u32 {
            libs.intern(&module("/bin/a", &number.to_ne_bytes(), 0));
        }
        assert_eq!((libs.len(), libs.left_out()), (MAX, 20_000 - MAX as u64));
        let mut libs = Libs::new(1);
        for number in 0..1000 {
            libs.intern(&module(&format!("/{number:04000}"), &[], 0));
        }
        libs.intern(&module(&"x".repeat(LONGEST_PATH + 1), &[], 0));
        assert!(libs.bytes <= MAX_BYTES && libs.left_out() == 1001 - libs.len() as u64);
    }
}
