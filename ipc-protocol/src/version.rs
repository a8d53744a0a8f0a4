//! The version of the protocol.
//!
//! The environment variables, the frames and `Hello` carry it. It is a separate module so that the
//! variables and the messages can both use it.

/// The version of the protocol. Both sides must have the same.
pub const PROTOCOL_VERSION: u32 = 10;
