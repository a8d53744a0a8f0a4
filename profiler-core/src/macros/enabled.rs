//! Which builds record: those with the cargo feature `enabled`, on systems that the engine supports.
//!
//! Used by the other macros. In other builds they compile to nothing: their arguments are
//! type-checked in a closure that is never called.

/// Expands to `$body` in builds that record, else to `$otherwise`.
#[cfg(all(feature = "enabled", unix))]
#[doc(hidden)]
#[macro_export]
macro_rules! __if_enabled {
    ($body:expr, $otherwise:expr) => {
        $body
    };
}

/// Expands to `$body` in builds that record, else to `$otherwise`.
#[cfg(not(all(feature = "enabled", unix)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __if_enabled {
    ($body:expr, $otherwise:expr) => {{
        let _ = || $body;
        $otherwise
    }};
}
