//! What a server serves: a service answers the head of a request at once, or with work for a
//! worker.
//!
//! Implemented by the live page, the metrics and the server of `profiler view`.

use hyper::Response;

use super::answer::Answer;
use super::request::RequestHead;

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
