//! The HTTP server of this crate: hyper on one thread, for clients on this machine.
//!
//! Used by the live page, by the metrics for Prometheus and by the server of `profiler view`, which
//! are [`HttpService`]s. The
//! server itself defines no paths. Invariants:
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
mod server;
mod token;
mod workers;

use hyper::{Request, Response};

pub use answer::for_origin;
pub use answer::json;
pub use answer::{Answer, method_not_allowed, not_found, put, status, with_type};
pub use answer::{for_any_origin, of_file, preflight};
pub use hosts::Hosts;
pub use listen::{NoListener, listen_on_loopback};
pub use server::{HttpServer, ServerOptions};
pub use token::{bearer, is_same};

/// A request without its body.
pub type RequestHead = Request<()>;

/// A service: answers the requests to a server.
pub trait HttpService: Send + Sync + 'static {
    /// Answers a request. Must return quickly, because all clients wait meanwhile.
    fn answer(&self, request: &RequestHead) -> Answered;

    /// Drops data that no client has requested for a while. Called every few seconds.
    fn tidy(&self) {}
}

/// An answer.
#[allow(
    missing_debug_implementations,
    reason = "contains work that is to be done"
)]
pub struct Answered {
    /// What the client gets.
    pub reply: Reply,
    /// Whether the request had the token, or another secret of the service.
    pub has_token: bool,
}

/// The reply to a client.
#[allow(
    missing_debug_implementations,
    reason = "contains work that is to be done"
)]
pub enum Reply {
    /// The answer is there.
    Now(Response<Answer>),
    /// The answer takes long.
    Work(Work),
    /// The answer needs the body of the request.
    AfterBody(BodyWork),
}

/// Computes an answer. Runs on a worker thread, and may take long.
pub type Work = Box<dyn FnOnce() -> Response<Answer> + Send>;

/// Computes an answer from the body of a request. Runs on a worker thread, and may take long.
#[allow(
    missing_debug_implementations,
    reason = "contains work that is to be done"
)]
pub struct BodyWork {
    /// Limit on the bytes of the body. A larger body is refused.
    pub limit: usize,
    /// The work.
    pub work: Box<dyn FnOnce(Vec<u8>) -> Response<Answer> + Send>,
}
