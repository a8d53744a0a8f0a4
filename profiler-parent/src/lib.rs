//! In the making.

pub mod controller;
