//! The recording macros: one static per call site, nothing evaluated while no session runs.
//!
//! Without the cargo feature `enabled` they compile to nothing, see `enabled`.

/// Records a marker.
///
/// `marker!(name)`, `marker!(name, field = value, …)`, or with `category = …` and `options = …`
/// before the fields. The name is a literal or constant. The fields are numbers, booleans, texts
/// and other [values](crate::marker::MarkerValue); viewers show them under their names. Without a
/// session nothing is evaluated.
///
/// Category, options and a payload may also be given by their places: `marker!(name, category)`,
/// `marker!(name, category, options)`, `marker!(name, category, options, payload)`. The payload is
/// a reference to a [`crate::marker::ProfilerMarker`], a type of your own, for which you say how
/// its fields are shown.
///
/// A call site keeps the category of its first marker; where it varies, use
/// [`crate::marker::add_marker`] and the similar functions.
///
/// ```
/// use profiler_core::marker;
/// use profiler_core::marker::{MarkerOptions, category};
///
/// let (url, bytes) = (String::from("index.html"), 17);
/// marker!("cache miss");
/// marker!("load", url = url, bytes = bytes);
/// marker!("load", category = &category::IO, url = url);
/// let start = profiler_core::time::Timestamp::now();
/// marker!("lookup", &category::IO, MarkerOptions::interval_until_now_from(start));
/// ```
#[macro_export]
macro_rules! marker {
    ($name:expr $(,)?) => {
        $crate::marker!($name, &$crate::category::OTHER)
    };
    ($name:expr, category = $category:expr, options = $options:expr $(,)?) => {
        $crate::marker!($name, $category, $options)
    };
    ($name:expr, category = $category:expr, options = $options:expr, $($key:ident = $value:expr),+ $(,)?) => {
        $crate::__marker_fields!($name, $category, $options, $($key = $value),+)
    };
    ($name:expr, category = $category:expr $(, $key:ident = $value:expr)* $(,)?) => {
        $crate::marker!(
            $name,
            category = $category,
            options = <$crate::marker::MarkerOptions as ::core::default::Default>::default()
            $(, $key = $value)*
        )
    };
    ($name:expr, options = $options:expr $(, $key:ident = $value:expr)* $(,)?) => {
        $crate::marker!(
            $name,
            category = &$crate::category::OTHER,
            options = $options
            $(, $key = $value)*
        )
    };
    ($name:expr, $($key:ident = $value:expr),+ $(,)?) => {
        $crate::marker!($name, category = &$crate::category::OTHER, $($key = $value),+)
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

/// Records a marker whose fields are given. Used by [`crate::marker!`].
#[doc(hidden)]
#[macro_export]
macro_rules! __marker_fields {
    ($name:expr, $category:expr, $options:expr, $($key:ident = $value:expr),+) => {
        $crate::__if_enabled!(
            if $crate::session::is_active() {
                $crate::__field_names!(new: $($key),+);
                static __PROFILER_SITE: $crate::marker::MarkerSite =
                    $crate::marker::MarkerSite::new($name);
                __PROFILER_SITE.add_fields(
                    $category,
                    $options,
                    __PROFILER_NAMES,
                    &($(&$value,)+),
                );
            },
            ()
        )
    };
}

/// Declares the names of the fields of a call site. A name that is used twice is an error.
#[doc(hidden)]
#[macro_export]
macro_rules! __field_names {
    ($kind:ident: $($key:ident),+) => {
        #[allow(dead_code)]
        struct __ProfilerFieldNamesAreUnique {
            $($key: (),)+
        }
        const __PROFILER_NAMES: $crate::marker::FieldNames =
            $crate::marker::FieldNames::$kind(&[$(::core::stringify!($key)),+]);
    };
}

/// Records a marker with a text: `text_marker!(name, text)`, `text_marker!(name, category, text)`,
/// `text_marker!(name, category, options, text)`.
///
/// ```
/// use profiler_core::text_marker;
/// use profiler_core::marker::{MarkerOptions, category};
///
/// text_marker!("open", "Cargo.toml");
/// text_marker!("open", &category::IO, "Cargo.toml");
/// text_marker!("open", &category::IO, MarkerOptions::default(), "Cargo.toml");
/// ```
#[macro_export]
macro_rules! text_marker {
    ($name:expr, $text:expr $(,)?) => {
        $crate::text_marker!($name, &$crate::category::OTHER, $text)
    };
    ($name:expr, $category:expr, $text:expr $(,)?) => {
        $crate::text_marker!(
            $name,
            $category,
            <$crate::marker::MarkerOptions as ::core::default::Default>::default(),
            $text
        )
    };
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
/// `scope!(name)`, `scope!(name, field = value, …)`,
/// `scope!(name, category = …, field = value, …)`, `scope!(name, category)`,
/// `scope!(name, category, text)`. The scope keeps the values of the fields until it ends: pass a
/// reference to a text that is needed afterwards.
///
/// ```
/// use profiler_core::scope;
/// use profiler_core::marker::category;
///
/// let tenant = String::from("example.org");
/// let _scope = scope!("request", tenant = &tenant, user = 42);
/// let _parse = scope!("parse", &category::OTHER);
/// ```
#[macro_export]
macro_rules! scope {
    ($name:expr $(,)?) => {
        $crate::scope!($name, &$crate::category::OTHER)
    };
    ($name:expr, category = $category:expr $(,)?) => {
        $crate::scope!($name, $category)
    };
    ($name:expr, category = $category:expr, $($key:ident = $value:expr),+ $(,)?) => {
        $crate::__if_enabled!(
            {
                $crate::__field_names!(new: $($key),+);
                static __PROFILER_SITE: $crate::marker::MarkerSite =
                    $crate::marker::MarkerSite::new($name);
                $crate::marker::FieldScope::new(
                    &__PROFILER_SITE,
                    $category,
                    __PROFILER_NAMES,
                    || ($($value,)+),
                )
            },
            $crate::marker::MarkerScope::disabled()
        )
    };
    ($name:expr, $($key:ident = $value:expr),+ $(,)?) => {
        $crate::scope!($name, category = &$crate::category::OTHER, $($key = $value),+)
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
/// `span!(name)`, `span!(name, field = value, …)`, `span!(name, category = …, field = value, …)`,
/// `span!(name, category)`, `span!(name, category, options)`; the options are a text or
/// [`SpanOptions`](crate::marker::SpanOptions). A scope costs half as much; a span is visible while
/// it is open.
///
/// ```
/// use profiler_core::span;
/// use profiler_core::marker::{SpanOptions, category};
///
/// let _load = span!("load", url = "index.html");
/// let request = span!("request", &category::OTHER, SpanOptions::default().group("tenant 42"));
/// request.detail("rows", "17");
/// ```
#[macro_export]
macro_rules! span {
    ($name:expr $(,)?) => {
        $crate::span!($name, &$crate::category::OTHER)
    };
    ($name:expr, category = $category:expr $(,)?) => {
        $crate::span!($name, $category)
    };
    ($name:expr, category = $category:expr, $($key:ident = $value:expr),+ $(,)?) => {
        $crate::__if_enabled!(
            if $crate::session::is_active() {
                $crate::__field_names!(of_span: span, $($key),+);
                static __PROFILER_SITE: $crate::marker::MarkerSite =
                    $crate::marker::MarkerSite::new($name);
                let draft = $crate::marker::SpanDraft::draw();
                let number = draft.id();
                draft.open(&__PROFILER_SITE, $category, __PROFILER_NAMES, &(number, $(&$value,)+))
            } else {
                $crate::marker::MarkerSpan::disabled()
            },
            $crate::marker::MarkerSpan::disabled()
        )
    };
    ($name:expr, $($key:ident = $value:expr),+ $(,)?) => {
        $crate::span!($name, category = &$crate::category::OTHER, $($key = $value),+)
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
