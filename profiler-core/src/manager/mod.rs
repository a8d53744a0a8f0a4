//! The chunk manager of one process.

pub mod update;
