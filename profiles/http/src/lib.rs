//! An HTTP server: hyper on one thread, for clients on this machine.
//!
//! Used by the live page, by the metrics for Prometheus and by the server of `profiler view`, which
//! are [`HttpService`]s. The server itself defines no paths. Invariants:
//!
//! - A client without the token of the service never takes the place of a client with the token
//!   ([`connections`]). A request with the token that has arrived is answered.
//! - The number of connections, the memory of each and its time are bounded. A body is read only if
//!   the service asks for it, up to the limit that the service names.
//! - There is one thread. Work that takes long runs on at most [`workers::WORKERS`] more threads,
//!   which end when they are idle; a bounded number of requests waits for them. At most
//!   [`workers::WORKERS`] bodies are in memory, also if clients disconnect during the work. The
//!   server does not use a runtime of the application.
//!
//! ```text
//! accept ─▶ admission ─▶ hyper ─▶ HttpService::answer ─┬─▶ Reply::Now ───────────────┬─▶ client
//!                                                      ├─▶ Reply::Work ──────▶ worker ┤
//!                                                      └─▶ Reply::AfterBody ─▶ worker ┘
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

mod admission;
mod answer;
mod connections;
mod hosts;
mod listen;
mod query;
mod request;
mod server;
mod service;
mod token;
mod workers;

pub use answer::for_origin;
pub use answer::json;
pub use answer::{Answer, method_not_allowed, not_found, put, status, with_type};
pub use answer::{for_any_origin, of_file, preflight};
pub use hosts::Hosts;
pub use listen::{NoListener, listen_on_loopback};
pub use query::Query;
pub use request::RequestHead;
pub use server::{HttpServer, ServerOptions};
pub use service::{Answered, BodyWork, HttpService, Reply, Work};
pub use token::{bearer, is_same};
