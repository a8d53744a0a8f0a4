//! Tests of the global controller: one binary, a simulated chunk manager, and what is held against it.

mod child;
mod crowd;
mod ledger;
mod properties;
mod rules;
mod simulation;
mod steady;
mod world;
