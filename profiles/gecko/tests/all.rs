//! The tests of the crate's public interface, one module per subject.
//!
//! They are one program, because linking a program takes long. A test that starts a session, or
//! that counts the resources of its process, begins with `own_process!()` and runs in a separate
//! process.

use test_support::counting::CountingAllocator;

/// Counts allocations while a test requests it.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

mod gecko;
mod hostile_pools;
#[path = "../../../profiler-core/tests/support/own_session.rs"]
mod support;
