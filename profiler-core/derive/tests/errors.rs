//! Tests of the compiler errors for wrong uses of `#[derive(ProfilerMarker)]`: one plain error at
//! the place of the mistake.
//!
//! `TRYBUILD=overwrite cargo test -p profiler-core-derive` writes the expected errors.

#[test]
fn a_wrong_use_is_one_plain_error() {
    trybuild::TestCases::new().compile_fail("tests/errors/*.rs");
}
