//! The symbols of a session, shared by its captures.
//!
//! Invariant: the names looked up for one capture are kept for the next, within the limits of
//! [`super::SymbolOptions`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::symbols::Symbols;

/// The symbol cache of a session.
#[derive(Clone, Debug, Default)]
pub struct SymbolStore(Arc<Mutex<Symbols>>);

impl SymbolStore {
    /// The store, for one look-up. Waits while another thread uses it.
    pub fn lock(&self) -> MutexGuard<'_, Symbols> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
