//! Fuzzes the check of a child's part of a profile: an independent parser must accept everything
//! that the check accepts.

use profiler_parent::internal::gather::json_check::check;

/// Checks one input.
pub(crate) fn check_input(data: &[u8]) {
    if check(data, 1 << 20).is_ok() {
        assert!(serde_json::from_slice::<serde_json::Value>(data).is_ok());
    }
}
