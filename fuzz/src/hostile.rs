//! The checks that the targets share with the tests of the crates.

#[path = "../../profiler-parent/tests/hostile/answered.rs"]
pub(crate) mod answered;
#[path = "../../profiler-parent/tests/hostile/asked.rs"]
pub(crate) mod asked;
#[path = "../../profiler-core/tests/hostile/changing.rs"]
pub(crate) mod changing;
#[path = "../../profiler-parent/tests/hostile/edits.rs"]
pub(crate) mod edits;
#[path = "../../profiler-parent/tests/hostile/exported.rs"]
pub(crate) mod exported;
#[path = "../../profiler-parent/tests/hostile/imported.rs"]
pub(crate) mod imported;
#[path = "../../profiler-parent/tests/hostile/parsed.rs"]
pub(crate) mod parsed;
#[path = "../../profiler-parent/tests/hostile/pprof.rs"]
pub(crate) mod pprof;
#[path = "../../profiler-core/tests/hostile/recorded.rs"]
pub(crate) mod recorded;
#[path = "../../profiler-parent/tests/hostile/room.rs"]
pub(crate) mod room;
#[path = "../../profiler-parent/tests/hostile/sampled.rs"]
pub(crate) mod sampled;
#[path = "../../profiler-parent/tests/hostile/told.rs"]
pub(crate) mod told;
