//! Example: a shop's server with four faults, to be found with the profiler. `docs/find-it.md` says
//! how to find each of them.
//!
//! ```text
//! cargo build --release -p profiler-parent --example find_it
//! profiler record -- target/release/examples/find_it
//! target/release/examples/find_it --shops 3 --out shops.json.gz
//! ```
//!
//! The second command serves requests in one process, which `profiler record` profiles. The third
//! command has a session of its own and starts several such processes. The faults are a function
//! that uses most of the processor time (`catalogue`), a lock for which all threads wait
//! (`audit_log`), memory that is never freed (`pages`), and a plugin that is slow from time to time
//! (`plugins`).

mod audit_log;
mod catalogue;
mod chain;
mod pages;
mod plugins;
mod shop;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use profiler_child::core::alloc::ProfilingAllocator;

#[global_allocator]
static ALLOCATOR: ProfilingAllocator = ProfilingAllocator::new();

/// Serves the requests of a shop's visitors, with four faults to find.
#[derive(Debug, Parser)]
#[command(name = "find_it")]
struct ShopOptions {
    /// How many requests a process serves; 100 take about one second
    #[arg(long, value_name = "N", default_value_t = 1200, value_parser = clap::value_parser!(u64).range(1..=20_000))]
    requests: u64,
    /// Starts N processes that serve requests, in a session of its own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=16))]
    shops: Option<u16>,
    /// File for the profile of these processes; compressed if the name ends in .gz
    #[arg(
        long,
        value_name = "FILE",
        requires = "shops",
        default_value = "profile.json.gz"
    )]
    out: PathBuf,
}

fn main() -> ExitCode {
    let options = ShopOptions::parse();
    let ended = match options.shops {
        Some(how_many) => chain::run(how_many, options.requests, &options.out),
        None => shop::run(options.requests),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("find_it: {error:#}");
            ExitCode::FAILURE
        }
    }
}
