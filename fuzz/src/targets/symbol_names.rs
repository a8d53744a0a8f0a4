//! Fuzzes the demangling of function names: the result is bounded in length, and no name overflows
//! the stack for symbols.

use profiler_symbols::readable_name;

/// Checks one input.
pub(crate) fn check_input(raw: &[u8]) {
    assert!(readable_name(raw).len() <= 4096 + '…'.len_utf8());
}
