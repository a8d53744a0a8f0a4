//! Tests of programs that no parent starts, and that their environment lets record themselves.
//!
//! Each test runs the application of this package with variables of its own, and reads the profile
//! that it has written.

mod from_env;
mod startup;
mod support;
mod verbose;
