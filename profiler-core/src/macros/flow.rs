//! The macro `flow!`: records the markers of flows.

/// Records that a [`Flow`](crate::flow::Flow) begins, passes or ends here:
/// `flow!(begin flow)`, `flow!(step flow)`, `flow!(end flow)`.
///
/// A name for the marker may follow, then `category = …`, `options = …` and fields, as in
/// [`marker!`](crate::marker!): `flow!(begin flow, "request sent", url = url)`. Without a name it
/// is "flow". Viewers draw an arrow from each marker of a flow to the next one, in the order of
/// their times, also between processes. A flow ends once: if a request has several receivers, each
/// records a step. Costs as much as a marker with a payload; without a session nothing is
/// evaluated.
///
/// ```
/// use profiler_core::flow;
/// use profiler_core::flow::Flow;
/// use profiler_core::marker::category;
///
/// let request = Flow::new();
/// flow!(begin request, "request sent", category = &category::IPC, url = "index.html");
/// flow!(step request);
/// flow!(end request, "request answered");
/// ```
#[macro_export]
macro_rules! flow {
    (begin $($flow:tt)+) => {
        $crate::__flow!(FlowBegin, $($flow)+)
    };
    (step $($flow:tt)+) => {
        $crate::__flow!(FlowStep, $($flow)+)
    };
    (end $($flow:tt)+) => {
        $crate::__flow!(FlowEnd, $($flow)+)
    };
}

/// Records one marker of a flow. Used by [`crate::flow!`].
#[doc(hidden)]
#[macro_export]
macro_rules! __flow {
    ($mark:ident, $flow:expr $(,)?) => {
        $crate::__flow!($mark, $flow, "flow")
    };
    ($mark:ident, $flow:expr, $name:expr, category = $category:expr, options = $options:expr $(,)?) => {
        $crate::marker!($name, $category, $options, &$crate::flow::$mark::new($flow))
    };
    ($mark:ident, $flow:expr, $name:expr, category = $category:expr, options = $options:expr, $($key:ident = $value:expr),+ $(,)?) => {
        $crate::__marker_fields!(
            $name,
            $category,
            $options,
            flow = $crate::flow::$mark::new($flow),
            $($key = $value),+
        )
    };
    ($mark:ident, $flow:expr, $name:expr, category = $category:expr $(, $key:ident = $value:expr)* $(,)?) => {
        $crate::__flow!(
            $mark,
            $flow,
            $name,
            category = $category,
            options = <$crate::marker::MarkerOptions as ::core::default::Default>::default()
            $(, $key = $value)*
        )
    };
    ($mark:ident, $flow:expr, $name:expr, options = $options:expr $(, $key:ident = $value:expr)* $(,)?) => {
        $crate::__flow!(
            $mark,
            $flow,
            $name,
            category = &$crate::category::OTHER,
            options = $options
            $(, $key = $value)*
        )
    };
    ($mark:ident, $flow:expr, $name:expr $(, $key:ident = $value:expr)* $(,)?) => {
        $crate::__flow!($mark, $flow, $name, category = &$crate::category::OTHER $(, $key = $value)*)
    };
}
