//! The live page of a session, as a client: its address, and requests to it.
//!
//! Used by `top` and `capture`. Invariant: the address, which is a secret, does not have to be an
//! argument.

mod address;
mod fetch;

pub(crate) use address::{VARIABLE, address};
pub(crate) use fetch::LivePage;
