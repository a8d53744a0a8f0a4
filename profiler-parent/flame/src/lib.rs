//! The live flame graph: where all processes together spend their time now.
//!
//! Made from the samples in the pools, which are read by position; no process is asked. The session
//! says which processes it has ([`sources`]). The first request starts a thread ([`store`]) that
//! follows all pools ([`sampled_pools`]) and adds up the time of each stack of each thread, in
//! periods ([`weights`], [`window`]). [`usage`] computes the time of a sample, and [`threads`]
//! finds its thread. The newest samples of each pool are read first ([`process`]), and [`catch_up`]
//! divides the reader's time among the processes.
//! The names of functions are looked up by a second thread ([`names`]), and addresses are shown
//! meanwhile. Both threads end, and all samples are dropped, some seconds after the last request
//! ([`flame_graph`]). Each request makes the tree that it wants to see ([`selection`], [`graph`],
//! [`answer`]), on a worker of the server.
//!
//! ```text
//! pools ──▶ Follower ──▶ process: stack_tree, threads ──▶ weights, recent ──▶ answer: graph
//! symbols ──▶ names ──▶ frames ─────────────────────────────────────────────────▲     ▲
//! request ──▶ selection, runs of groups ──────────────────────────────────────────────┘
//! ```
//!
//! Used by the live page of `profiler-parent`. The README lists the modules.
//!
//! Invariants: nothing is read and no thread runs unless a client requests the flame graph; memory
//! is bounded, and what does not fit is counted; pools are foreign data; a thread that has stopped
//! is reported, and outdated numbers are not shown. The bounds, which only forged pools reach,
//! follow from the limits on the numbers of elements and from their sizes, and are not measured:
//! about 500 MiB for the sums, stacks, frames and names of all processes together, 20 MiB for the
//! latest stacks and samples of each running process, and 150 MiB for the trees of a request while
//! it is answered. In addition, the follower of a pool keeps the definitions of the pool, which
//! take at most as much memory as the pool is long, and about 90 bytes for each chunk.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod answer;
mod catch_up;
mod flame_graph;
mod foreign;
mod frames;
mod graph;
mod hash;
mod names;
mod process;
mod recent;
mod runs;
#[cfg(test)]
mod sample_bytes;
mod sampled_pools;
mod selection;
mod sources;
mod stack_tree;
mod store;
mod threads;
mod usage;
mod weights;
mod window;

pub use answer::{FlameAnswer, WaitGraph};
pub use flame_graph::FlameGraph;
pub use foreign::ForeignSamples;
pub use sources::{FlameSources, ProcessToSample};
