//! Markers that are not recorded. Options, payload types and schemas are the real ones.

pub mod schema {
    //! Marker schemas: how a viewer shows the markers of one type. The same as with the engine.

    pub use crate::schema::*;
}

pub use crate::category::{self, Category, CategoryPair};
pub use crate::marker_options::{MarkerOptions, MarkerStack, MarkerTiming, SpanOptions};
pub use crate::marker_type::{ProfilerMarker, Text};
#[doc(hidden)]
pub use crate::marker_value::MarkerFields;
pub use crate::marker_value::MarkerValue;
#[cfg(feature = "derive")]
pub use profiler_core_derive::ProfilerMarker;
#[cfg(feature = "derive")]
#[doc(hidden)]
pub use profiler_core_derive::{ProfilerMarkerOfChild, ProfilerMarkerOfParent};

use std::marker::PhantomData;

/// Does nothing.
#[inline(always)]
pub fn add_untyped_marker(
    _name: &str,
    _category: impl Into<CategoryPair>,
    _options: MarkerOptions,
) {
}

/// Does nothing.
#[inline(always)]
pub fn add_text_marker(
    _name: &str,
    _category: impl Into<CategoryPair>,
    _options: MarkerOptions,
    _text: &str,
) {
}

/// Does nothing.
#[inline(always)]
pub fn add_marker<M: ProfilerMarker>(
    _name: &str,
    _category: impl Into<CategoryPair>,
    _options: MarkerOptions,
    _payload: &M,
) {
}

/// The static behind a macro call. Not for direct use.
#[derive(Debug)]
pub struct MarkerSite;

impl MarkerSite {
    /// Makes a site that records nothing.
    pub const fn new(_name: &'static str) -> Self {
        Self
    }

    /// Does nothing.
    #[inline(always)]
    pub fn add(&'static self, _category: impl Into<CategoryPair>, _options: MarkerOptions) {}

    /// Does nothing.
    #[inline(always)]
    pub fn add_typed<M: ProfilerMarker>(
        &'static self,
        _category: impl Into<CategoryPair>,
        _options: MarkerOptions,
        _payload: &M,
    ) {
    }

    /// Does nothing.
    #[inline(always)]
    pub fn add_text(
        &'static self,
        _category: impl Into<CategoryPair>,
        _options: MarkerOptions,
        _text: &str,
    ) {
    }
}

/// The names of the fields of a call site.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct FieldNames;

impl FieldNames {
    /// Keeps nothing.
    pub const fn new(_keys: &'static [&'static str]) -> Self {
        Self
    }

    /// Keeps nothing.
    pub const fn of_span(_keys: &'static [&'static str]) -> Self {
        Self
    }
}

/// The number of a span that is about to open.
#[doc(hidden)]
#[derive(Debug)]
pub struct SpanDraft;

impl SpanDraft {
    /// Draws nothing.
    pub fn draw() -> Self {
        Self
    }

    /// Always 0.
    pub const fn id(&self) -> u64 {
        0
    }

    /// Opens nothing.
    pub fn open<F: MarkerFields>(
        self,
        _site: &'static MarkerSite,
        _category: impl Into<CategoryPair>,
        _names: FieldNames,
        _fields: &F,
    ) -> MarkerSpan {
        MarkerSpan::disabled()
    }
}

impl MarkerSite {
    /// Does nothing.
    #[inline(always)]
    pub fn add_fields<F: MarkerFields>(
        &'static self,
        _category: impl Into<CategoryPair>,
        _options: MarkerOptions,
        _names: FieldNames,
        _fields: &F,
    ) {
    }
}

/// The guard of a scope with fields. Not `Send`, like the engine's guard.
#[derive(Debug)]
#[must_use = "a scope ends when its guard is dropped; bind it: let _scope = scope!(…)"]
pub struct FieldScope<F: MarkerFields>(PhantomData<(*const (), F)>);

impl<F: MarkerFields> FieldScope<F> {
    /// Opens nothing.
    #[inline(always)]
    pub fn new(
        _site: &'static MarkerSite,
        _category: impl Into<CategoryPair>,
        _names: FieldNames,
        _fields: impl FnOnce() -> F,
    ) -> Self {
        Self(PhantomData)
    }
}

impl<F: MarkerFields> Drop for FieldScope<F> {
    #[inline(always)]
    fn drop(&mut self) {}
}

/// The guard of a scope. Not `Send`, like the engine's guard.
#[derive(Debug)]
#[must_use = "a scope ends when its guard is dropped; bind it: let _scope = scope!(…)"]
pub struct MarkerScope<'a>(PhantomData<(*const (), &'a str)>);

impl<'a> MarkerScope<'a> {
    /// Opens nothing.
    #[inline(always)]
    pub fn new(
        _site: &'static MarkerSite,
        _category: impl Into<CategoryPair>,
        _text: Option<&'a str>,
    ) -> Self {
        Self::disabled()
    }

    /// A scope that records nothing.
    pub const fn disabled() -> Self {
        Self(PhantomData)
    }
}

impl Drop for MarkerScope<'_> {
    #[inline(always)]
    fn drop(&mut self) {}
}

/// The guard of a span.
#[derive(Debug)]
#[must_use = "a span ends when its guard is dropped; bind it: let _span = span!(…)"]
pub struct MarkerSpan(());

impl MarkerSpan {
    /// Opens nothing.
    #[inline(always)]
    pub fn new<'a>(
        _site: &'static MarkerSite,
        _category: impl Into<CategoryPair>,
        _options: impl Into<SpanOptions<'a>>,
    ) -> Self {
        Self::disabled()
    }

    /// A span that records nothing.
    pub const fn disabled() -> Self {
        Self(())
    }

    /// Does nothing.
    pub fn detail(&self, _name: &str, _value: &str) {}

    /// Always `None`.
    pub fn id(&self) -> Option<u64> {
        None
    }
}

impl Drop for MarkerSpan {
    #[inline(always)]
    fn drop(&mut self) {}
}

/// The names of the types of numbered spans.
#[doc(hidden)]
#[derive(Debug)]
pub struct SpanMark<'a>(PhantomData<&'a str>);

impl SpanMark<'_> {
    /// The beginning of the names of types whose markers are numbered.
    pub const TYPE_PREFIX: &'static str = "Span ";

    /// Whether the name of a type is one of them.
    pub fn is_type(type_name: &str) -> bool {
        type_name == "Span" || type_name.starts_with(Self::TYPE_PREFIX)
    }
}
