//! Files of profiles that are being written, and the progress of long work with files.
//!
//! Used by the capture, the recovery, the merge and the exports; also files with secrets, which
//! only their user can read. Not an interface for applications, except for [`WorkEvent`],
//! [`WorkListener`] and the types of secrets.

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
pub mod secret_file;
pub mod spill;
mod work;

pub use work::{WorkEvent, WorkListener};
