//! Markers: something that happened, with a name, a time, and perhaps a payload.
//!
//! Called by applications. The macros ([`crate::marker!`], [`crate::scope!`]) keep a static per
//! call site and are the cheapest way; the functions here take names made at run time. All check
//! first whether a session runs: if none does, they evaluate nothing and cost one relaxed load.

pub mod payload;
pub mod schema {
    //! Marker schemas: how a viewer shows the markers of one type.
    //!
    //! A marker type builds its [`MarkerSchema`] once, in
    //! [`ProfilerMarker::schema`](super::ProfilerMarker::schema). Field keys are those of the
    //! payload's struct. A schema that passes [`MarkerSchema::check`] has a free name and each key
    //! once.

    pub use crate::schema::*;
}

mod builtin;
mod macros;
mod options;
mod record;
mod scope;
mod site;
mod span;
mod stack;

pub use builtin::Text;
pub use options::{MarkerOptions, MarkerStack, MarkerTiming};
pub use record::{add_marker, add_text_marker, add_untyped_marker};
pub use scope::MarkerScope;
pub use site::MarkerSite;
pub use span::{MarkerSpan, SpanDetail, SpanMark, SpanOptions};

#[doc(inline)]
pub use crate::category::{self, Category, CategoryPair};

use schema::MarkerSchema;

/// A type of marker payload: a struct of plain fields with a schema.
///
/// The struct derives [`serde::Serialize`]; fields may borrow. See [`payload`] for what a field
/// may be. The type is registered in the pool when it is first recorded.
///
/// ```
/// use profiler_core::marker::{ProfilerMarker, schema::{Format, MarkerSchema}};
///
/// #[derive(serde::Serialize)]
/// struct FileMarker<'a> {
///     path: &'a str,
///     bytes: u64,
/// }
///
/// impl ProfilerMarker for FileMarker<'_> {
///     const TYPE_NAME: &'static str = "File";
///
///     fn schema() -> MarkerSchema {
///         MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
///             .all_labels("{marker.data.path}")
///             .key_label_format("path", "Path", Format::FilePath)
///             .key_label_format("bytes", "Size", Format::Bytes)
///     }
/// }
/// ```
pub trait ProfilerMarker: serde::Serialize {
    /// Name of the type, unique in the application; by it types of all processes are merged.
    const TYPE_NAME: &'static str;

    /// How the viewer shows markers of this type. Called once per process and pool.
    fn schema() -> MarkerSchema;
}
