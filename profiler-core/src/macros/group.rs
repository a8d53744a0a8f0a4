//! The macros of [`groups`](crate::groups): one static per call site.

/// A group by a constant text, as a static of the call site: `group!("plugin:foo").enter()`, `group!(Tenant, "acme")`.
///
/// Gives a `&'static` [`Group`](crate::groups::Group). A known kind may stand before a colon; without one it is a component.
#[macro_export]
macro_rules! group {
    ($text:expr $(,)?) => {{
        static __PROFILER_GROUP: $crate::groups::Group = $crate::groups::Group::named($text);
        &__PROFILER_GROUP
    }};
    ($kind:ident, $name:expr $(,)?) => {{
        static __PROFILER_GROUP: $crate::groups::Group =
            $crate::groups::Group::new($crate::groups::GroupKind::$kind, $name);
        &__PROFILER_GROUP
    }};
}

/// Waits for something by a constant name until the guard is dropped, see [`crate::groups::blocking()`].
#[macro_export]
macro_rules! blocking {
    ($what:expr $(,)?) => {
        $crate::groups::blocking($crate::group!(Blocking, $what))
    };
}
