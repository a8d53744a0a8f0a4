//! The processed format: what viewers turn every other format into, written straight from all pools.
//!
//! Called by the capture and by recovery, for all processes at once, whoever lives. It opens fast and shows
//! more than the Gecko format can: names, files and lines, inlined functions, counters as they are
//! meant, which threads are shown first. [`PROCESSED_VERSION`] throughout: the oldest that has one set of tables for
//! all threads; viewers upgrade it and refuse what is newer than they are. How a counter is drawn is said in
//! the words of later versions, which older viewers pass over.
//!
//! ```text
//! every pool:  look through it (sift)   samples sorted by thread, stacks collected
//! all frames:  names, once              addresses of all processes, module by module
//! every pool:  write its threads        {"threads":[…],"counters":[…], …
//! at the end:  what the rows refer to    "libs":[…],"shared":{…},"profilingLog":{…}, … ,"meta":{…}}
//! ```
//!
//! Invariants: memory never grows with entries, and with what is different in them only up to 64 MiB: what
//! does not fit is shown as one, or left out, and the profile says how much that is; no byte of a pool is read more than
//! twice; both looks see the same entries, but for those that are evicted in between, which are counted as such; pools
//! are believed in nothing, so any bytes give a profile that can be opened.

mod copies;
mod counters;
mod frames;
#[cfg(test)]
mod hostile;
mod interned;
mod libs;
mod markers;
mod meta;
mod named;
pub mod names;
mod overhead;
mod owners;
mod process;
mod profile;
mod quota;
mod roll;
mod rows;
mod samples;
mod sift;
mod sort;
mod spill;
mod stacks;
mod store;
mod tables;
mod texts;
mod thread;
mod visible;
mod window;

pub(crate) use profile::ProcessedProfile;
pub(crate) use sift::Role;

/// About how many bytes all tables of a profile take at most, whatever stands in the pools. What it takes to read
/// debug information is not in it, nor what each process has in names of its own.
#[cfg(test)]
const MOST_MEMORY: usize = 64 << 20;

/// Version of the format: the first whose tables are shared by all threads.
pub const PROCESSED_VERSION: u32 = 60;
