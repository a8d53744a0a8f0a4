//! Assertions about patterns.

/// Asserts that a value matches a pattern. The message contains the value, and the context if there
/// is one.
///
/// ```
/// test_support::assert_matches!(Some(3), Some(1..=4), "in row {}", 7);
/// ```
#[macro_export]
macro_rules! assert_matches {
    ($value:expr, $pattern:pat $(if $guard:expr)? $(,)?) => {
        $crate::assert_matches!($value, $pattern $(if $guard)?, "no match")
    };
    ($value:expr, $pattern:pat $(if $guard:expr)?, $($context:tt)+) => {
        match $value {
            $pattern $(if $guard)? => {}
            ref other => panic!(
                "{}: {other:?} is not {}",
                format_args!($($context)+),
                stringify!($pattern $(if $guard)?),
            ),
        }
    };
}
