//! Tests of symbols: names, files, lines and inlined functions of real programs from every source,
//! and hostile files.

#![cfg(target_os = "linux")]

mod build;
mod hostile;
mod oracle;
mod server;
mod sources;
mod trust;
