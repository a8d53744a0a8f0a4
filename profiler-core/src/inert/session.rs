//! The switches of a session that never runs. Sessions are started with the feature `enabled` only.

/// False: no session can run.
#[inline(always)]
pub const fn is_active() -> bool {
    false
}

/// Does nothing.
pub fn pause() {}

/// Does nothing.
pub fn resume() {}

/// Always false.
pub fn is_paused() -> bool {
    false
}

/// Does nothing.
pub fn pause_sampling() {}

/// Does nothing.
pub fn resume_sampling() {}

/// Always false.
pub fn is_sampling_paused() -> bool {
    false
}

/// False: the function is never called, because no session starts or ends.
#[doc(hidden)]
pub fn on_switch(_hook: fn()) -> bool {
    false
}

/// False: there is no sampling.
pub fn wait_one_periodic_sampling() -> bool {
    false
}
