//! The macros of [`groups`](crate::groups): one static per call site.

/// A group by a constant text, as a static of the call site: `group!("plugin:foo").enter()`,
/// `group!(Tenant, "acme")`.
///
/// Returns a `&'static` [`Group`](crate::groups::Group). The text may begin with a known kind and a
/// colon; otherwise the group is a component.
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

/// Marks the calling thread as waiting for a resource of this constant name until the guard is
/// dropped, see [`crate::groups::blocking()`].
#[macro_export]
macro_rules! blocking {
    ($what:expr $(,)?) => {
        $crate::groups::blocking($crate::group!(Blocking, $what))
    };
}
