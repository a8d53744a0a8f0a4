//! The head of a request, which all parts of a server read.

use hyper::Request;

/// A request without its body.
pub type RequestHead = Request<()>;
