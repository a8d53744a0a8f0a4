//! `#[derive(ProfilerMarker)]`: a type of markers whose schema is given at its fields. Use it
//! through `profiler-core`, `profiler-child` or `profiler-parent`.
//!
//! It is a separate crate because it needs a parser of Rust, which a library that only records does
//! not build. Invariant: what the derived schema says about a field is checked when the program is
//! compiled: its name, its format, and the fields that the labels mention.

mod attributes;
mod expand;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// See `profiler_core::marker::ProfilerMarker`.
#[proc_macro_derive(ProfilerMarker, attributes(marker_type, field))]
pub fn marker(input: TokenStream) -> TokenStream {
    derive(input, "::profiler_core")
}

/// The same for a crate that depends on `profiler-child`.
#[proc_macro_derive(ProfilerMarkerOfChild, attributes(marker_type, field))]
pub fn marker_of_child(input: TokenStream) -> TokenStream {
    derive(input, "::profiler_child::core")
}

/// The same for a crate that depends on `profiler-parent`.
#[proc_macro_derive(ProfilerMarkerOfParent, attributes(marker_type, field))]
pub fn marker_of_parent(input: TokenStream) -> TokenStream {
    derive(input, "::profiler_parent::core")
}

fn derive(input: TokenStream, core: &str) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let expanded = expand::expand(&input, core);
    expanded
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}
