//! The stack for symbol work.
//!
//! A host may call the profiler on any thread, also on one with a stack of 64 KiB. The depth of
//! recursion when names are demangled and debug information is read depends on the content of
//! symbol files. So this work never runs on the caller's stack: all code that reads a symbol file
//! goes through [`on_symbol_stack`]. Called by [`super::Symbols`], by captures and by the server of
//! `profiler view`. Invariants: symbol work has [`STACK`] bytes of stack; no accepted name needs
//! more than an eighth of them, which a test of [`super::demangle`] checks; a panic is returned as
//! an error and does not end the caller's thread.

use std::any::Any;
use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use profiler_sys::run_quiet;

/// Size of the stack in bytes. Only the used pages take memory.
pub(crate) const STACK: usize = 8 << 20;

thread_local! {
    static IS_SYMBOL_STACK: Cell<bool> = const { Cell::new(false) };
}

/// The reason why symbol work has no result.
#[derive(Debug, thiserror::Error)]
pub enum SymbolStackError {
    /// The work was not started.
    #[error("cannot start a thread to look up names: {0}")]
    NoThread(#[from] io::Error),
    /// The work panicked with this payload.
    #[error("the look-up of names panicked")]
    Panicked(Box<dyn Any + Send>),
}

/// Runs `body` with [`STACK`] bytes of stack and waits for it: on a new thread, or directly if this
/// is such a thread.
pub fn on_symbol_stack<T: Send>(body: impl FnOnce() -> T + Send) -> Result<T, SymbolStackError> {
    if IS_SYMBOL_STACK.get() {
        return catch_unwind(AssertUnwindSafe(body)).map_err(SymbolStackError::Panicked);
    }
    let marked = || {
        IS_SYMBOL_STACK.set(true);
        body()
    };
    run_quiet("profiler-symbols", STACK, marked)?.map_err(SymbolStackError::Panicked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_within_symbol_work_stays_on_the_same_thread() {
        let id = || std::thread::current().id();
        let (outer, inner) = on_symbol_stack(|| (id(), on_symbol_stack(id).unwrap())).unwrap();
        assert_eq!(outer, inner);
        assert_ne!(outer, id());
    }

    #[test]
    fn a_panic_of_symbol_work_is_an_error_of_its_caller() {
        let panics = || -> u32 { panic!("this is a test") };
        assert!(matches!(
            on_symbol_stack(panics),
            Err(SymbolStackError::Panicked(_))
        ));
        let nested = on_symbol_stack(|| on_symbol_stack(panics).is_err());
        assert!(nested.unwrap());
    }
}
