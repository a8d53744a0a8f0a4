//! Whether a session runs: never.

/// False: no session can run.
#[inline(always)]
pub const fn is_active() -> bool {
    false
}
