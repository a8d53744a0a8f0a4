//! The symbols of a session, shared by its captures.
//!
//! Invariant: the names looked up for one capture are kept for the next, within the limits of
//! [`super::SymbolOptions`].

use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::kept::KeptFiles;
use super::options::SymbolOptions;
use super::symbols::Symbols;

/// The symbol cache of a session.
#[derive(Clone, Debug)]
pub struct SymbolStore {
    symbols: Arc<Mutex<Symbols>>,
    kept: KeptFiles,
}

impl Default for SymbolStore {
    fn default() -> Self {
        let kept = KeptFiles::default();
        let symbols = Symbols::new(SymbolOptions::default()).with_kept(kept.clone());
        Self {
            symbols: Arc::new(Mutex::new(symbols)),
            kept,
        }
    }
}

impl SymbolStore {
    /// The store, for one look-up. Waits while another thread uses it.
    pub fn lock(&self) -> MutexGuard<'_, Symbols> {
        self.symbols.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the file of a module open until the session ends, because its path may not lead to it
    /// later. `path` is the module's path in the process. Does not wait for a look-up. A limited
    /// number of files is kept.
    pub fn keep(&self, path: &str, file: File) {
        self.kept.keep(path, file);
    }
}
