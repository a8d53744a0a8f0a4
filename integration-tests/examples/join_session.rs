//! A library that makes the program into which `LD_PRELOAD` loads it a child of the session that
//! started the program.
//!
//! Used by the tests of generated code with runtimes that do not contain the profiler. The programs
//! that the program executes load the library too, and join the session by themselves.

#![allow(unsafe_code)]

/// Called by the loader, before the program's `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static JOIN: extern "C" fn() = join;

extern "C" fn join() {
    if let profiler_child::Status::Off(error) = profiler_child::init() {
        eprintln!("the program is not profiled: {error}");
    }
}
