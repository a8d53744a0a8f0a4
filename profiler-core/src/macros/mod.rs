//! The recording macros: one static per call site, nothing evaluated while no session runs.
//!
//! Called by applications. Compiled with and without the feature `engine`: the paths in them lead
//! to the engine or to `inert`. Without the feature `enabled` the macros compile to nothing, see
//! `enabled`.
//!
//! Invariant: the statics have names that begin with `__PROFILER`. An item in a macro is not
//! hygienic, so a static with a usual name would hide an item of the caller that has the same name
//! and is used in an argument.

mod enabled;
mod flow;
mod group;
mod label;
mod marker;
