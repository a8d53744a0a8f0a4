//! The tests of the crate's public interface, one module per subject.
//!
//! They are one program, because linking a program takes long. A test that starts a session, or
//! that limits the resources of its process, begins with `own_process!()` and runs in a separate
//! process.

mod auto_traits;
mod awaited_captures;
mod awaited_children;
mod awaiting;
mod controller;
mod foreign_pools;
mod foreign_requests;
mod index_tree;
mod processed;
