//! Example: a server of five processes. Each request is a span in the front end and one in a
//! worker, and a flow leads from the one to the other.
//!
//! ```text
//! cargo run --release -p profiler-tracing --example server -- [REQUESTS] [--out PROFILE]
//!     [--workers ADDRESS,…]
//! ```
//!
//! ```text
//! clients ──HTTP──▶ front end ──HTTP, header `x-flow`──▶ worker 1 … 4
//!                   └─ session ◀──────── join ───────────┘
//! ```
//!
//! The front end starts its workers with `tokio::process::Command`, and they join its session. With
//! `--workers` it uses workers of this machine that run already, each in its own session:
//! `server --worker NAME` prints its address and runs until its standard input is closed. Each
//! request belongs to a tenant. The requests of one tenant are much more expensive than the others:
//! the profiler reports it by an alert, and the profile shows which span its time was spent in.

mod front_end;
mod http;
mod load;
mod worker;

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Runtime};

/// The tenants. The requests of the last one are expensive.
const TENANTS: [&str; 4] = ["acme", "globex", "initech", "hooli"];
/// The header with the flow from the front end's span to the worker's.
const FLOW_HEADER: &str = "x-flow";
/// The first argument of a worker process.
const WORKER: &str = "--worker";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [WORKER, name] = arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return worker::main(name);
    }
    let out = option(&arguments, "--out").unwrap_or("server.json.gz");
    let requests = match arguments.first().filter(|first| !first.starts_with("--")) {
        Some(number) => number
            .parse()
            .context("usage: server [REQUESTS] [--out PROFILE]")?,
        None => 2000,
    };
    let workers = option(&arguments, "--workers").unwrap_or_default();
    let workers = workers.split(',').filter(|address| !address.is_empty());
    let workers: Vec<SocketAddr> = workers
        .map(str::parse)
        .collect::<Result<_, _>>()
        .context("--workers: expected addresses, such as 127.0.0.1:7001")?;
    front_end::main(requests, &workers, out.as_ref())
}

/// The argument after `name`.
fn option<'a>(arguments: &'a [String], name: &str) -> Option<&'a str> {
    let place = arguments.iter().position(|argument| argument == name)?;
    arguments.get(place + 1).map(String::as_str)
}

/// A runtime with two named threads.
fn runtime(name: &str) -> Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).thread_name(name).enable_all();
    Ok(builder.build()?)
}
