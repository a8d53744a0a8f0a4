//! Fuzzes the demangling of function names: the result is bounded in length, and no name overflows
//! the stack for symbols.

#![no_main]

use libfuzzer_sys::fuzz_target;
use profiler_parent::internal::symbols::readable_name;

fuzz_target!(|raw: &[u8]| {
    assert!(readable_name(raw).len() <= 4096 + '…'.len_utf8());
});
