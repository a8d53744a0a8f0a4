//! Names, files, lines and inlined functions of real programs, exactly, from every source; and files that lie.

#![cfg(target_os = "linux")]

mod build;
mod hostile;
mod oracle;
mod server;
mod sources;
mod trust;
