//! Tests of the global controller with simulated chunk managers.

mod child;
mod crowd;
mod first_allowances;
mod ledger;
mod properties;
mod rules;
mod simulation;
mod steady;
mod world;
