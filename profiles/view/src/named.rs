//! Answers the viewer's requests from the files on this machine: names and lines from debug
//! information, source files, and assembly code.
//!
//! Used by `profiler view`. Invariant: only libraries and source files named in the served file, or
//! in the debug information of such a library, are read, for any content of a request.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde::Deserialize as _;
use serde::de::{DeserializeSeed as _, Deserializer, IgnoredAny, SeqAccess};

use super::api::{SymbolicationApi, answer};
use super::assembly::{AssemblyError, AssemblyRequest, CodeOfModule, assembly};
use super::source::{SourceError, SourceRequest, source};
use super::source_files::SourceFiles;
use super::symbols::no_symbols;
use profiler_reader::{Items, Lib, List, PartId, Visit, source_names, text, walk};
use profiler_symbols::server_api;
use profiler_symbols::server_api::Library;
use profiler_symbols::{
    CodeRange, MachineCode, MachineCodeError, ModuleKey, Place, SymbolOptions, Symbols, Wanted,
    machine_code,
};

/// Limit on the libraries of a profile that are kept. Their names are not looked up beyond it.
const MAX_LIBRARIES: usize = 1 << 16;
/// Limit on the sum of their texts.
const MAX_LIBRARY_BYTES: usize = 64 << 20;

/// Answers from the files on this machine. The libraries and the source files of the served file
/// are read at the first request that needs them, and looked-up names are kept. If the file cannot
/// be read, it names nothing. Published source files are searched for in the Cargo and rustup
/// directories of this user.
pub fn symbols_of_this_machine(options: SymbolOptions) -> Box<dyn SymbolicationApi> {
    Box::new(ThisMachine {
        symbols: Mutex::new(Symbols::new(options.clone())),
        options,
        source_files: SourceFiles::of_this_user(),
        libraries: OnceLock::new(),
        source_names: OnceLock::new(),
    })
}

struct ThisMachine {
    options: SymbolOptions,
    symbols: Mutex<Symbols>,
    source_files: SourceFiles,
    libraries: OnceLock<Vec<Library>>,
    source_names: OnceLock<BTreeSet<String>>,
}

impl SymbolicationApi for ThisMachine {
    fn symbolicate(&self, profile: &File, request: &str) -> Option<String> {
        // The symbols are unlocked before the answer is written.
        let resolve = |wanted: &[Wanted<'_>]| self.symbols().resolve_all(wanted, &mut |_| {});
        server_api::answer(request, self.libraries(profile), resolve)
            .ok()
            .or_else(|| no_symbols(request))
    }

    fn source(&self, profile: &File, request: &str) -> Option<String> {
        let request: SourceRequest = serde_json::from_str(request).ok()?;
        let Some(module) = self.module(profile, &request.debug_name, &request.debug_id) else {
            let (name, id) = (request.debug_name, request.debug_id);
            return answer::<(), _>(Err(SourceError::NoSuchLibrary { name, id }));
        };
        let places = self.symbols().resolve(module, &[request.module_offset]);
        let place: Arc<Place> = places.into_iter().next().unwrap_or_default();
        let is_named = |file: &str| {
            let names = once(&self.source_names, || source_names(profile))?;
            Ok(names.contains(file))
        };
        answer(source(request, &place, is_named, &self.source_files))
    }

    fn assembly(&self, profile: &File, request: &str) -> Option<String> {
        let request: AssemblyRequest = serde_json::from_str(request).ok()?;
        let Some(module) = self.module(profile, &request.debug_name, &request.debug_id) else {
            let (name, id) = (request.debug_name, request.debug_id);
            return answer::<(), _>(Err(AssemblyError::NoSuchLibrary { name, id }));
        };
        let code = NamedModule {
            machine: self,
            module,
        };
        answer(assembly(&request, &code))
    }
}

/// A library of the profile. The symbols are locked only while addresses are looked up.
struct NamedModule<'m> {
    machine: &'m ThisMachine,
    module: ModuleKey<'m>,
}

impl CodeOfModule for NamedModule<'_> {
    fn machine_code(&self, range: CodeRange) -> Result<MachineCode, MachineCodeError> {
        machine_code(self.module, range, &self.machine.options)
    }

    fn resolve(&self, addresses: &[u64]) -> Vec<Arc<Place>> {
        self.machine.symbols().resolve(self.module, addresses)
    }
}

impl ThisMachine {
    fn symbols(&self) -> MutexGuard<'_, Symbols> {
        self.symbols.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn libraries(&self, profile: &File) -> &[Library] {
        let found = once(&self.libraries, || libraries(profile));
        found.map_or(&[], Vec::as_slice)
    }

    /// The library that the profile identifies by this debug name and breakpad id.
    fn module(&self, profile: &File, debug_name: &str, debug_id: &str) -> Option<ModuleKey<'_>> {
        let is_requested = |library: &&Library| {
            library.debug_name == debug_name && library.breakpad_id == debug_id
        };
        let library = self.libraries(profile).iter().find(is_requested)?;
        Some(ModuleKey {
            path: &library.path,
            build_id: &library.build_id,
        })
    }
}

/// The value, computed by the first call that succeeds. An error is not kept, because a later
/// attempt to read the file may succeed.
fn once<T>(cell: &OnceLock<T>, compute: impl FnOnce() -> io::Result<T>) -> io::Result<&T> {
    if let Some(value) = cell.get() {
        return Ok(value);
    }
    let value = compute()?;
    Ok(cell.get_or_init(|| value))
}

/// The libraries of all processes of a profile, without duplicates. Only these rows are kept in
/// memory, also of a file of gigabytes, and only up to a limit.
///
/// # Errors
/// When the file cannot be read, or is not a profile.
pub fn libraries(file: &File) -> io::Result<Vec<Library>> {
    let mut libraries = Libraries::new();
    walk(text(file)?, &mut libraries).map_err(io::Error::from)?;
    Ok(libraries.all.into_iter().collect())
}

#[derive(Debug)]
struct Libraries {
    all: BTreeSet<Library>,
    bytes_left: usize,
}

impl Libraries {
    const fn new() -> Self {
        Self {
            all: BTreeSet::new(),
            bytes_left: MAX_LIBRARY_BYTES,
        }
    }

    /// Keeps a library, if it is new and within the limits.
    fn add(&mut self, library: Library) {
        let texts = [&library.debug_name, &library.breakpad_id, &library.path];
        let bytes: usize = texts.iter().map(|text| text.len()).sum();
        let left = self
            .bytes_left
            .checked_sub(bytes.saturating_add(library.build_id.len()));
        if let Some(left) = left
            && self.all.len() < MAX_LIBRARIES
            && self.all.insert(library)
        {
            self.bytes_left = left;
        }
    }
}

impl Visit for Libraries {
    fn value<'de, D: Deserializer<'de>>(
        &mut self,
        _: PartId,
        key: &str,
        from: D,
    ) -> Result<(), D::Error> {
        match key {
            "libs" => List(self).deserialize(from),
            _ => IgnoredAny::deserialize(from).map(drop),
        }
    }
}

impl Items for Libraries {
    const NAME: &'static str = "a list of libraries";

    fn item<'de, A: SeqAccess<'de>>(&mut self, libs: &mut A) -> Result<bool, A::Error> {
        let Some(lib) = libs.next_element::<Lib>()? else {
            return Ok(false);
        };
        let code_id = lib.code_id.unwrap_or_default();
        let library = Library::new(&lib.debug_name, &lib.breakpad_id, &lib.path, &code_id);
        self.add(library);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn an_error_is_not_kept() {
        let cell = OnceLock::new();
        assert!(once(&cell, || Err::<u8, _>(io::ErrorKind::Interrupted.into())).is_err());
        assert_eq!(once(&cell, || Ok(1)).unwrap(), &1);
        assert_eq!(once(&cell, || Ok(2)).unwrap(), &1);
    }

    #[test]
    fn libraries_beyond_the_limits_are_left_out() {
        let library = |path: &str| Library::new("name", "id", path, "");
        let mut libraries = Libraries::new();
        libraries.add(library(&"x".repeat(MAX_LIBRARY_BYTES)));
        assert!(libraries.all.is_empty());
        for number in 0..MAX_LIBRARIES + 5 {
            libraries.add(library(&number.to_string()));
            libraries.add(library("0"));
        }
        assert_eq!(libraries.all.len(), MAX_LIBRARIES);
        let kept = MAX_LIBRARY_BYTES - libraries.bytes_left;
        let texts = libraries
            .all
            .iter()
            .map(|one| one.path.len() + "nameid".len());
        assert_eq!(kept, texts.sum::<usize>(), "a library counts once");
    }

    #[test]
    fn libraries_of_all_processes_are_listed_once() {
        let lib = r#"{"name":"a","path":"/a","debugName":"a","debugPath":"/a","breakpadId":"AB0","codeId":null,"start":1}"#;
        let text = format!(
            r#"{{"processes":[{{"libs":[{lib}],"threads":[{{"x":1}}]}},{{"meta":{{}}}}],"libs":[{lib},{{"debugName":"b"}}],"meta":{{}}}}"#
        );
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let found = libraries(&file).unwrap();
        assert_eq!(
            found
                .iter()
                .map(|lib| lib.debug_name.as_str())
                .collect::<Vec<_>>(),
            ["a", "b"]
        );
        assert_eq!(
            (found[0].breakpad_id.as_str(), found[0].build_id.as_slice()),
            ("AB0", &[][..])
        );
    }
}
