//! Fuzzes the check of a child's part of a profile: an independent parser must accept everything
//! that the check accepts.

#![no_main]

use libfuzzer_sys::fuzz_target;
use profiler_parent::internal::gather::json_check::check;

fuzz_target!(|data: &[u8]| {
    if check(data, 1 << 20).is_ok() {
        assert!(serde_json::from_slice::<serde_json::Value>(data).is_ok());
    }
});
