//! A session from start to stop.

mod params;

pub use params::{Features, SessionParams};
