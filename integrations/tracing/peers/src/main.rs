//! Figures: the cost of spans and events with this project's subscribers and with other profilers,
//! side by side in one run.
//!
//! ```text
//! cargo run --release --manifest-path integrations/tracing/peers/Cargo.toml
//! name<TAB>value<TAB>unit<TAB>promise
//! ```
//!
//! The method and the other subjects are those of `benches/tracing_cost.rs`. Needs a compiler for
//! C++, because Tracy's client is in C++.

#[path = "../../benches/cost/figures.rs"]
mod figures;
#[path = "../../benches/cost/operations.rs"]
mod operations;
mod peers;
#[path = "../../benches/cost/subjects.rs"]
mod subjects;

use std::process::ExitCode;

fn main() -> ExitCode {
    let subjects: Vec<_> = subjects::SUBJECTS
        .iter()
        .chain(peers::PEERS)
        .copied()
        .collect();
    figures::run(&subjects)
}
