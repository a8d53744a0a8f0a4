//! A library that samples the program into which `LD_PRELOAD` loads it.
//!
//! Used by the figures to check the sampler in programs that do not contain the profiler. A figure
//! reads the samples from the pool, which is an open file of the process. The programs that the
//! program executes load the library, too.

#![allow(unsafe_code)]

use profiler_core::session::{self, Features, SessionParams, StartOptions};

/// Called by the loader, before the program's `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    let params = SessionParams {
        features: Features::STACK_WALK
            .with(Features::CPU)
            .with(Features::CPU_ALL_THREADS),
        ..SessionParams::default()
    };
    if let Err(error) = session::start(params, StartOptions::default()) {
        eprintln!("the program is not sampled: {error}");
    }
}
