//! Answers the viewer's requests for symbols, from the debug information on this machine.
//!
//! Used by `profiler view`. Invariant: only libraries named in the served file are read, for any
//! content of a request.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};

use serde::Deserialize as _;
use serde::de::{Deserializer, IgnoredAny};

use super::symbols::{Symbolicate, no_symbols};
use crate::reading::{Lib, PartId, Visit, text, walk};
use crate::symbols::server_api::{Library, answer};
use crate::symbols::{SymbolOptions, Symbols};

/// Answers with names, files, lines and inlined functions. The libraries of the served file are
/// read at the first request, and looked-up names are kept. If the file cannot be read, the list of
/// libraries is empty.
pub fn symbols_of_this_machine(options: SymbolOptions) -> Box<Symbolicate> {
    let known: OnceLock<Vec<Library>> = OnceLock::new();
    let symbols = Mutex::new(Symbols::new(options));
    Box::new(move |file, question| {
        let known = known.get_or_init(|| libraries(file).unwrap_or_default());
        let mut symbols = symbols.lock().unwrap_or_else(PoisonError::into_inner);
        answer(question, known, &mut symbols)
            .ok()
            .or_else(|| no_symbols(file, question))
    })
}

/// All libraries of all processes of a profile, without duplicates. Only these rows are kept in
/// memory, also of a file of gigabytes.
///
/// # Errors
/// When the file cannot be read, or is not a profile.
pub fn libraries(file: &File) -> io::Result<Vec<Library>> {
    let mut all = Libraries::default();
    walk(text(file)?, &mut all).map_err(io::Error::from)?;
    Ok(all.0.into_iter().collect())
}

#[derive(Debug, Default)]
struct Libraries(BTreeSet<Library>);

impl Visit for Libraries {
    fn value<'de, D: Deserializer<'de>>(
        &mut self,
        _: PartId,
        key: &str,
        from: D,
    ) -> Result<(), D::Error> {
        if key != "libs" {
            return IgnoredAny::deserialize(from).map(drop);
        }
        let library = |lib: Lib| {
            let code_id = lib.code_id.unwrap_or_default();
            Library::new(&lib.debug_name, &lib.breakpad_id, &lib.path, &code_id)
        };
        self.0
            .extend(Vec::deserialize(from)?.into_iter().map(library));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

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
