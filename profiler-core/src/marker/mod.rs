//! Markers: named events with a time and an optional payload.
//!
//! Called by applications. The macros ([`crate::marker!`], [`crate::scope!`]) keep a static per
//! call site and are cheapest; the functions here take names made at run time. While no session
//! runs, they evaluate nothing and cost one relaxed load.

pub(crate) mod payload;
pub mod schema {
    //! Marker schemas: how a viewer shows the markers of one type.
    //!
    //! A marker type builds its [`MarkerSchema`] once, in
    //! [`ProfilerMarker::schema`](super::ProfilerMarker::schema). Field keys are those of the
    //! payload's struct. A schema that passes [`MarkerSchema::check`] has a valid name and unique
    //! keys.

    pub use crate::schema::*;
}

#[cfg(all(
    target_os = "linux",
    not(profiler_portable),
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub(crate) mod crash;
#[cfg(all(
    target_os = "linux",
    not(profiler_portable),
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub(crate) mod crash_marker;
mod fields;
mod record;
pub(crate) mod runtime_site;
mod scope;
mod site;
mod span;
mod span_mark;
pub(crate) mod span_number;
mod stack;
mod timing;

#[doc(hidden)]
pub use fields::FieldNames;
pub use fields::FieldScope;
pub use record::{add_marker, add_text_marker, add_untyped_marker};
pub use scope::MarkerScope;
#[doc(hidden)]
pub use site::MarkerSite;
pub use span::MarkerSpan;
#[doc(hidden)]
pub use span::{SpanDetail, SpanDraft};
#[doc(hidden)]
pub use span_mark::SpanMark;

#[doc(inline)]
pub use crate::category::{self, Category, CategoryPair};
#[doc(inline)]
pub use crate::marker_options::{MarkerOptions, MarkerStack, MarkerTiming, SpanOptions};
#[doc(inline)]
pub use crate::marker_type::{ProfilerMarker, Text};
#[doc(hidden)]
pub use crate::marker_value::MarkerFields;
#[doc(inline)]
pub use crate::marker_value::MarkerValue;
#[cfg(feature = "derive")]
#[doc(inline)]
pub use profiler_core_derive::ProfilerMarker;
#[cfg(feature = "derive")]
#[doc(hidden)]
pub use profiler_core_derive::{ProfilerMarkerOfChild, ProfilerMarkerOfParent};
