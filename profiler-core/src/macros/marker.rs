//! The recording macros: one static per call site, nothing evaluated while no session runs.
//!
//! Without the cargo feature `enabled` they compile to nothing, see `enabled`.

/// Records a marker.
///
/// `marker!(name)`, `marker!(name, category)`, `marker!(name, category, options)`,
/// `marker!(name, category, options, payload)`. The name is a literal or constant; the payload is
/// a reference to a [`crate::marker::ProfilerMarker`]. Without a session nothing is evaluated.
/// A call site keeps the category of its first marker; where it varies, use
/// [`crate::marker::add_marker`] and the similar functions.
///
/// ```
/// use profiler_core::marker;
/// use profiler_core::marker::{MarkerOptions, category};
///
/// marker!("cache miss");
/// marker!("cache miss", &category::IO);
/// let start = profiler_core::time::Timestamp::now();
/// marker!("lookup", &category::IO, MarkerOptions::interval_until_now_from(start));
/// ```
#[macro_export]
macro_rules! marker {
    ($name:expr $(,)?) => {
        $crate::marker!($name, &$crate::category::OTHER)
    };
    ($name:expr, $category:expr $(,)?) => {
        $crate::marker!(
            $name,
            $category,
            <$crate::marker::MarkerOptions as ::core::default::Default>::default()
        )
    };
    ($name:expr, $category:expr, $options:expr $(,)?) => {
        $crate::__if_enabled!(
            if $crate::session::is_active() {
                static __PROFILER_SITE: $crate::marker::MarkerSite =
                    $crate::marker::MarkerSite::new($name);
                __PROFILER_SITE.add($category, $options);
            },
            ()
        )
    };
    ($name:expr, $category:expr, $options:expr, $payload:expr $(,)?) => {
        $crate::__if_enabled!(
            if $crate::session::is_active() {
                static __PROFILER_SITE: $crate::marker::MarkerSite =
                    $crate::marker::MarkerSite::new($name);
                __PROFILER_SITE.add_typed($category, $options, $payload);
            },
            ()
        )
    };
}

/// Records a marker with a text: `text_marker!(name, category, options, text)`.
///
/// ```
/// use profiler_core::text_marker;
/// use profiler_core::marker::{MarkerOptions, category};
///
/// text_marker!("open", &category::IO, MarkerOptions::default(), "Cargo.toml");
/// ```
#[macro_export]
macro_rules! text_marker {
    ($name:expr, $category:expr, $options:expr, $text:expr $(,)?) => {
        $crate::__if_enabled!(
            if $crate::session::is_active() {
                static __PROFILER_SITE: $crate::marker::MarkerSite =
                    $crate::marker::MarkerSite::new($name);
                __PROFILER_SITE.add_text($category, $options, $text);
            },
            ()
        )
    };
}

/// Opens a scope: an interval marker from here to the end of the guard's life.
///
/// `scope!(name)`, `scope!(name, category)`, `scope!(name, category, text)`.
///
/// ```
/// use profiler_core::scope;
/// use profiler_core::marker::category;
///
/// let _scope = scope!("parse", &category::OTHER);
/// ```
#[macro_export]
macro_rules! scope {
    ($name:expr $(,)?) => {
        $crate::scope!($name, &$crate::category::OTHER)
    };
    ($name:expr, $category:expr $(,)?) => {
        $crate::__if_enabled!(
            {
                static __PROFILER_SITE: $crate::marker::MarkerSite =
                    $crate::marker::MarkerSite::new($name);
                $crate::marker::MarkerScope::new(
                    &__PROFILER_SITE,
                    $category,
                    ::core::option::Option::None,
                )
            },
            $crate::marker::MarkerScope::disabled()
        )
    };
    ($name:expr, $category:expr, $text:expr $(,)?) => {
        $crate::__if_enabled!(
            {
                static __PROFILER_SITE: $crate::marker::MarkerSite =
                    $crate::marker::MarkerSite::new($name);
                $crate::marker::MarkerScope::new(
                    &__PROFILER_SITE,
                    $category,
                    ::core::option::Option::Some($text),
                )
            },
            $crate::marker::MarkerScope::disabled()
        )
    };
}

/// Opens a span: a start here, an end when the guard is dropped, both with the same number.
///
/// `span!(name)`, `span!(name, category)`, `span!(name, category, options)`; the options are a text
/// or [`SpanOptions`](crate::marker::SpanOptions). A scope costs half as much; a span is visible
/// while it is open.
///
/// ```
/// use profiler_core::span;
/// use profiler_core::marker::{SpanOptions, category};
///
/// let _load = span!("load", &category::IO, "index.html");
/// let request = span!("request", &category::OTHER, SpanOptions::default().group("tenant 42"));
/// request.detail("rows", "17");
/// ```
#[macro_export]
macro_rules! span {
    ($name:expr $(,)?) => {
        $crate::span!($name, &$crate::category::OTHER)
    };
    ($name:expr, $category:expr $(,)?) => {
        $crate::span!(
            $name,
            $category,
            <$crate::marker::SpanOptions<'_> as ::core::default::Default>::default()
        )
    };
    ($name:expr, $category:expr, $options:expr $(,)?) => {
        $crate::__if_enabled!(
            if $crate::session::is_active() {
                static __PROFILER_SITE: $crate::marker::MarkerSite =
                    $crate::marker::MarkerSite::new($name);
                $crate::marker::MarkerSpan::new(&__PROFILER_SITE, $category, $options)
            } else {
                $crate::marker::MarkerSpan::disabled()
            },
            $crate::marker::MarkerSpan::disabled()
        )
    };
}
