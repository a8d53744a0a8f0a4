//! The macro `label!`: one static per call site. Without the cargo feature `enabled` it compiles to
//! nothing.

/// Opens a label for the rest of the block: `label!(name)`, `label!(name, category)`. The name is a
/// literal or constant. See [`crate::label`](mod@crate::label) for its costs and where it appears.
///
/// ```
/// use profiler_core::label;
/// use profiler_core::marker::category;
///
/// let _label = label!("layout");
/// let _inner = label!("read styles", &category::IO);
/// ```
#[macro_export]
macro_rules! label {
    ($name:expr $(,)?) => {
        $crate::label!($name, &$crate::category::OTHER)
    };
    ($name:expr, $category:expr $(,)?) => {
        $crate::__if_enabled!(
            {
                static __PROFILER_LABEL: $crate::label::Label =
                    $crate::label::Label::new($name, ::core::file!(), ::core::line!());
                $crate::label::LabelScope::new(&__PROFILER_LABEL, $category)
            },
            $crate::label::LabelScope::disabled()
        )
    };
}
