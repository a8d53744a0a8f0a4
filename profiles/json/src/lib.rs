//! What writers and readers of profiles share: the JSON writer, tables of texts and of other
//! values, the versions of the formats, and the names of span types and of waits.
//!
//! Used by all crates that write or read profiles. It depends on no other crate of the profiler.
//! Not an interface for applications.
//!
//! Invariant: nothing here panics, for any order of calls and any values.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

pub mod interner;
pub mod span_types;
pub mod strings;
pub mod versions;
pub mod wait_label;
pub mod writer;

pub use interner::{Interner, ItemIndex};
pub use strings::{StringId, StringTable};
pub use versions::{GECKO_VERSION, PROCESSED_VERSION};
pub use wait_label::{Awaited, Numbered, WaitLabel};
pub use writer::{JsonWriter, PreparedKey, position_of_escape};
