//! The test program of this crate: tests with several processes, one file per subject.
//!
//! All tests are one program, because linking a program takes long. A test that starts a session,
//! or that counts the resources of its process, runs in a separate process: `own_process!()`.

use integration_tests::counting::CountingAllocator;

/// Counts allocations where a test asks for it.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod agent_c;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod agent_crashes;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod agent_crowd;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod agent_ends;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod agent_filters;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod agent_forks;
mod agent_harms;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod agent_library;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod agent_luck;
mod agent_observed;
mod agent_observed_waits;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod agent_outside;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod agent_programs;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod agent_record;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod agent_rights;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod agent_runtimes;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod agent_stacks;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod agent_streams;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod agent_unprofiled;
mod alerts;
mod captures;
mod captures_on_signs;
mod clocks;
mod closed_descriptors;
mod closed_descriptors_parent;
mod command_capture;
mod command_ends;
mod command_info;
mod command_inheritance;
mod command_left;
mod command_progress;
mod command_record;
mod command_record_profile;
mod command_record_support;
mod command_signals;
mod command_view;
mod command_view_code;
mod control_liars;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod crashes;
mod deaths;
mod exact;
mod exits;
mod exports;
mod faults_crowd;
mod faults_ends;
mod faults_forks;
mod faults_json;
mod faults_limits;
mod faults_payloads;
mod faults_pools;
mod feature_table;
mod fleet;
mod flood;
mod flows;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod for_whom;
mod frozen;
mod gecko_format;
mod generated_code;
mod generated_runtimes;
mod groups;
mod host_locks;
mod hostile_symbols;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod joining;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod joining_bad;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod joining_bounds;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod joining_forks;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod joining_late;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod joining_spawners;
mod kills;
mod large_thread_locals;
mod layers;
mod lifetime;
mod limit;
mod limit_edges;
mod limit_idle;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod limited_address_space;
mod live_captures;
mod live_flame;
mod live_page;
mod live_support;
mod live_top;
mod merge;
mod metrics_access;
mod metrics_counters;
mod metrics_documents;
mod metrics_prometheus;
mod metrics_support;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod nested_sessions;
mod observe_delivery;
mod observe_processes;
mod observe_spans;
mod observe_support;
mod otlp;
mod own_signal;
mod panics;
mod parent_death;
mod perfetto;
mod privacy;
mod processed;
mod pushing;
mod pushing_command;
mod pushing_deaths;
mod pushing_leftovers;
mod pushing_support;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod python;
mod ranges;
mod recover;
mod sampling_storms;
mod sandboxed;
mod silence;
mod slow_clients;
mod small_stacks;
mod strangers;
mod time_namespace;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod traces;
mod tricks;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod unprofiled_children;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod waiting_time;
