//! The tests of the crate's public surface, one file per subject.
//!
//! They are one program, because each would take long to link. A test that starts a session, or
//! limits what its process may have, runs in a process of its own: `own_process!()`.

mod auto_traits;
mod controller;
mod foreign_files;
mod foreign_pools;
mod foreign_requests;
mod index_tree;
mod processed;
mod symbols;
