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
    let library = |found: super::libraries::Library| Library {
        debug_name: found.debug_name,
        breakpad_id: found.breakpad_id,
        path: found.path,
        build_id: found.code_id.as_deref().and_then(bytes_of_hex).unwrap_or_default(),
    };
    all.map(library).collect()
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks_exact(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    if pairs.remainder().is_empty() { pairs.map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_id_is_bytes_or_nothing() {
        assert_eq!(bytes_of_hex("00ffA1"), Some(vec![0, 255, 161]));
        assert_eq!(bytes_of_hex("abc"), None);
        assert_eq!(bytes_of_hex("zz"), None);
    }
}
