//! Shows a profile: a small server on loopback, from which the Firefox Profiler's page reads a
//! file.
//!
//! Called by `profiler view`. [`Server::start`] checks that the file is a profile, listens, and
//! serves three things below a random token: the file, the answers to the page's requests for
//! symbols, source files and assembly code ([`SymbolicationApi`]), and the preflights that browsers
//! send first. Invariants: it listens on 127.0.0.1 only; a client without the token (128 random
//! bits) gets the same answer for every path; a page of another site cannot reach the server under
//! its own host name (the `Host` header is checked), and cannot read answers if the viewer's
//! address is known; memory, threads and time per request are bounded ([`profiler_http`]); the file
//! that is served is the file that was checked.
//!
//! ```text
//! browser ──▶ profiler_http: one thread ──▶ routes ─┬─▶ the file
//!                                                 └─▶ symbols, sources, assembly: on a worker
//! ```

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod api;
mod assembly;
mod check;
mod link;
mod named;
mod routes;
mod server;
mod source;
mod source_files;
mod source_name;
mod symbols;
#[cfg(test)]
mod tests;
mod toolchains;

pub use api::SymbolicationApi;
#[doc(hidden)]
pub use assembly::disassembled;
pub use check::{Kind, NotAProfile, check};
pub use link::{VIEWER, viewer_link};
pub use named::{libraries, symbols_of_this_machine};
pub use profiler_reader::text::text;
pub use profiler_symbols::server_api::Library;
pub use server::{Server, ViewError};
pub use symbols::NoSymbols;
