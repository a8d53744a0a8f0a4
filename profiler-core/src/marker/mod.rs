//! Markers: what they look like and what they carry.

pub mod payload;
pub mod schema;
