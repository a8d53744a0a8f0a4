//! The messages between a profiled parent and its children, and the transport that carries them.
//!
//! Used by `profiler-child` and `profiler-parent`, which do not depend on each other.
//!
//! - [`message`]: the messages, one enum per direction;
//! - [`limits`]: the largest sizes on the wire;
//! - [`codec`]: converts messages to frames and back;
//! - [`environment`]: the resources that a parent hands to a child at spawn;
//! - [`transport`]: frames across the process border, over ipc-channel or inherited sockets, or,
//!   for tests, in process.
//!
//! Invariants: no message is larger than [`limits::MAX_FRAME_BYTES`]; bytes of the other side are
//! checked before use, and wrong ones are a typed error, never a panic; after the first message no
//! channel and no file descriptor travels from child to parent.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

pub mod codec;
pub mod environment;
pub mod limits;
pub mod message;
mod sys;
pub mod transport;
mod version;
