//! Showing a profile: a small server on loopback that the Firefox Profiler's page reads a file from.
//!
//! Called by `profiler view`. [`Server::start`] checks that the file is a profile, listens, and serves
//! three things below a random token: the file, the answers to the page's questions for symbols, and the
//! preflights that browsers send first. Invariants: it listens on 127.0.0.1 only; who does not know the
//! token (128 random bits) learns nothing, not even that there is one; a page of another site cannot
//! reach it under a name of its own (the `Host` header is checked); no request can make it use more
//! than a bounded amount of memory, threads or time; it serves the very file that was checked.
//!
//! ```text
//! accept thread ──▶ a thread per connection: head ─▶ request ─▶ site ─▶ response, then it closes
//! ```

mod admission;
mod check;
mod connection;
mod link;
mod named;
pub mod request;
mod response;
mod routes;
mod server;
mod symbols;

pub use crate::reading::text::text;
pub use crate::symbols::server_api::Library;
pub use check::{Kind, NotAProfile, check};
pub use link::{VIEWER, viewer_link};
pub use named::{libraries, symbols_of_this_machine};
pub use server::{Server, ViewError};
pub use symbols::{Symbolicate, no_symbols};
