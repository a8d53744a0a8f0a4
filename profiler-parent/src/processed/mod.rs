//! The processed format: the one to which viewers convert every other format, written straight from
//! all pools.
//!
//! Called by the capture and by recovery, for all processes at once, alive or dead. It is a sink of
//! the [profile model](profiler_gecko::model), as the Gecko format is. It opens fast and shows more
//! than the Gecko format can: names, files and lines, inlined functions, counters with their
//! meaning, which threads are shown first. The version is always
//! [`PROCESSED_VERSION`](profiler_json::PROCESSED_VERSION): the oldest that has one set of tables
//! for all threads. Viewers upgrade it, and refuse versions that are newer than they are. Fields of
//! later versions describe how a counter is drawn; older viewers ignore them.
//!
//! ```text
//! every pool:  first pass               samples sorted by thread, stacks collected
//! all frames:  names, once              addresses of all processes, module by module; those of
//!                                       generated code process by process
//! every pool:  write its threads        {"threads":[…],"counters":[…], …
//! at the end:  what the rows refer to    "libs":[…],"shared":{…},"profilingLog":{…},…,"meta":{…}}
//! ```
//!
//! Invariants: memory does not grow with the number of entries, and grows with the number of
//! different values only up to 64 MiB; values that do not fit are shown as one value or left out,
//! and the profile states their number; no byte of a pool is read more than twice; both passes see
//! the same entries, except those that are evicted in between, which are counted as evicted;
//! nothing in a pool is trusted, so any bytes give a profile that can be opened.

mod borders;
mod counter_rows;
mod counters;
mod earlier;
mod first_pass;
mod first_pass_terms;
mod frames;
mod generated;
mod late;
mod libs;
mod markers;
mod meta;
pub(crate) mod names;
mod overhead;
mod process;
mod profile;
mod quota;
mod reassigned_markers;
mod rows;
mod samples;
mod slow_runs;
mod sort;
mod sorted_thread;
mod stacks;
mod store;
mod strings;
mod symbolicated;
mod tables;
#[cfg(test)]
mod tests;
mod thread;
mod thread_cap;
mod tick_detail;
mod visible;
mod window;

pub(crate) use earlier::EarlierEntries;
pub(crate) use late::LateProcess;
pub(crate) use profile::ProcessedProfile;
pub(crate) use tick_detail::TickDetail;

/// Approximate limit on the bytes of all tables of a profile, for any content of the pools. Not
/// included: the memory for reading debug information and perf maps, for the definitions of each
/// process, and for the stacks of threads that wait and the ends of earlier profiles of a series
/// (up to 5 MB).
#[cfg(test)]
const MAX_MEMORY: usize = 64 << 20;
