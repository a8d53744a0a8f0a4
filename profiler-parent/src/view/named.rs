//! Answers to the viewer's questions for symbols, from the debug information that is on this machine.
//!
//! Used by `profiler view`. Only of libraries that the served file names may be asked: nobody can have us
//! read any other file.

use std::fs::File;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::libraries::libraries;
use super::symbols::{Symbolicate, no_symbols};
use crate::symbols::server_api::{Library, answer};
use crate::symbols::{SymbolOptions, Symbols};

/// Answers with names, files, lines and inlined functions. The served file is read for its libraries at the first
/// question; what was looked up stays for the next ones.
pub fn symbols_of_this_machine(options: SymbolOptions) -> Box<Symbolicate> {
    let known: OnceLock<Vec<Library>> = OnceLock::new();
    let symbols = Mutex::new(Symbols::new(options));
    Box::new(move |file, question| {
        let known = known.get_or_init(|| named_in(file));
        let mut symbols = symbols.lock().unwrap_or_else(PoisonError::into_inner);
        answer(question, known, &mut symbols).ok().or_else(|| no_symbols(file, question))
    })
}

/// A file that cannot be read names none.
fn named_in(file: &File) -> Vec<Library> {
    let all = libraries(file).unwrap_or_default().into_iter();
    let library = |found: super::libraries::Library| {
        let code_id = found.code_id.unwrap_or_default();
        Library::new(&found.debug_name, &found.breakpad_id, &found.path, &code_id)
    };
    all.map(library).collect()
}
