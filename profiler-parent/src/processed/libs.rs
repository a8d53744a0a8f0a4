//! Files whose code ran, each once for all processes.
//!
//! Two processes that map the same file share one row, and with it all names. Viewers and symbol
//! servers know a file by two numbers that follow from its build id.

use std::collections::HashMap;
use std::io::Write;

use profiler_core::profile::JsonWriter;
use profiler_core::reader::ModuleDefinition;

/// Number of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LibId(pub(super) u32);

/// All files, each once.
#[derive(Debug, Default)]
pub(super) struct Libs {
    known: HashMap<(String, Vec<u8>), LibId>,
    all: Vec<ModuleDefinition>,
}

impl Libs {
    /// The row of a module: the same for all processes that have the same file with the same contents.
    pub(super) fn intern(&mut self, module: &ModuleDefinition) -> LibId {
        let next = LibId(u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        let all = &mut self.all;
        *self.known.entry((module.path.clone(), module.build_id.clone())).or_insert_with(|| {
            all.push(module.clone());
            next
        })
    }

    /// All files with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (LibId, &ModuleDefinition)> {
        (0..).map(LibId).zip(&self.all)
    }

    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        self.all.len()
    }

    /// Shown name of a file.
    pub(super) fn name(&self, id: LibId) -> &str {
        self.all.get(id.0 as usize).map_or("", |module| base_name(&module.path))
    }

    /// Writes the key `libs`.
    pub(super) fn write<W: Write>(&self, out: &mut JsonWriter<W>) {
        out.key("libs");
        out.begin_array();
        for module in &self.all {
            let name = base_name(&module.path);
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
                false => out.string(&hex(&module.build_id)),
            }
            out.end_object();
        }
        out.end_array();
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or("(unknown module)")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The first 16 bytes as a GUID, whose first three fields are little-endian in the file, and an age of 0.
fn breakpad_id(build_id: &[u8]) -> String {
    let byte = |at: usize| build_id.get(at).copied().unwrap_or(0);
    const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let guid: String = ORDER.into_iter().map(|at| format!("{:02X}", byte(at))).collect();
    if build_id.is_empty() { String::new() } else { format!("{guid}0") }
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
    fn the_same_file_in_two_processes_is_one_row_and_other_contents_are_another() {
        let mut libs = Libs::default();
        let first = libs.intern(&module("/bin/a", &[1], 0x1000));
        assert_eq!(libs.intern(&module("/bin/a", &[1], 0x9000)), first);
        assert_ne!(libs.intern(&module("/bin/a", &[2], 0x1000)), first);
        assert_eq!((libs.name(first), libs.len()), ("a", 2));
    }

    #[test]
    fn a_breakpad_id_is_the_build_id_as_a_guid() {
        let build_id: Vec<u8> = (1..=20).collect();
        assert_eq!(breakpad_id(&build_id), "0403020106050807090A0B0C0D0E0F100");
        assert_eq!(breakpad_id(&[]), "");
    }
}
