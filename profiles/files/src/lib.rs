//! Files of profiles that are being written, and the progress of long work with files.
//!
//! Used by the capture, the recovery, the merge and the exports. Not an interface for applications,
//! except for [`WorkEvent`] and [`WorkListener`].

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

pub mod output;
pub mod spill;
mod work;

pub use work::{WorkEvent, WorkListener};
