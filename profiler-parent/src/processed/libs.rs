//! Files whose code ran, each once for all processes.
//!
//! Two processes that map the same file share one row, and with it all names. Viewers and symbol
//! servers know a file by two numbers that follow from its build id.

use std::collections::HashMap;
use std::io::Write;

use profiler_core::profile::JsonWriter;
use profiler_core::profile::debug_id::{breakpad_id, code_id};
use profiler_core::profile::frame_names::module_name;
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
        self.all.get(id.0 as usize).map_or("", |module| module_name(&module.path))
    }

    /// Writes the key `libs`.
    pub(super) fn write<W: Write>(&self, out: &mut JsonWriter<W>) {
        out.key("libs");
        out.begin_array();
        for module in &self.all {
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
        out.end_array();
    }
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
}
