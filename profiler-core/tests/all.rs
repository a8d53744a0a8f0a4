//! The tests of the crate's public interface, one module per subject.
//!
//! They are one program, because linking a program takes long. A test that starts a session, or
//! that counts the resources of its process, begins with `own_process!()` and runs in a separate
//! process. Tests that need another global allocator are separate programs.

#[cfg(feature = "enabled")]
use test_support::counting::CountingAllocator;

/// Counts allocations while a test requests it.
#[cfg(feature = "enabled")]
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[cfg(feature = "enabled")]
mod accounting;
#[cfg(feature = "enabled")]
mod after_fork;
#[cfg(feature = "enabled")]
mod attached_pool;
mod auto_traits;
#[cfg(feature = "enabled")]
mod closed_pool;
#[cfg(feature = "enabled")]
mod dead_pool;
#[cfg(all(feature = "engine", not(feature = "enabled")))]
mod disabled;
#[cfg(feature = "enabled")]
mod ends_and_restarts;
#[cfg(feature = "enabled")]
mod first_values;
mod flows;
#[cfg(feature = "enabled")]
mod follow;
#[cfg(feature = "enabled")]
mod follow_sessions;
#[cfg(feature = "enabled")]
mod fork_and_register;
#[cfg(feature = "enabled")]
mod full_table;
#[cfg(all(feature = "enabled", not(loom)))]
mod futures;
#[cfg(feature = "enabled")]
mod group_futures;
#[cfg(feature = "enabled")]
mod groups;
#[cfg(feature = "enabled")]
mod held_up_threads;
mod hygiene;
#[cfg(feature = "enabled")]
mod labels;
#[cfg(feature = "enabled")]
mod marker_fields;
#[cfg(all(feature = "enabled", target_os = "linux", not(profiler_portable)))]
mod observed_waits;
#[cfg(feature = "enabled")]
mod overtaken_reader;
#[cfg(feature = "enabled")]
mod pool_in_a_file;
#[cfg(feature = "enabled")]
mod pool_writer;
#[cfg(feature = "enabled")]
mod record_and_read;
mod recording_api;
#[cfg(feature = "enabled")]
mod safepoints;
#[cfg(feature = "enabled")]
mod samples;
#[cfg(feature = "enabled")]
mod sampling;
#[cfg(feature = "enabled")]
mod sampling_allocations;
#[cfg(feature = "enabled")]
mod schemas;
#[cfg(feature = "enabled")]
mod support;
#[cfg(feature = "enabled")]
mod too_many_groups;
#[cfg(all(feature = "enabled", not(loom)))]
mod traces;
#[cfg(feature = "enabled")]
mod unsealed_pool;
