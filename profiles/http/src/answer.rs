//! The bodies of answers, and the headers shared by several services. Used by the server and the
//! services.

use std::fs::File;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::ACCESS_CONTROL_ALLOW_ORIGIN;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use super::request::RequestHead;

/// Bytes of a file read at a time.
const BLOCK: u64 = 64 * 1024;

/// The body of an answer.
#[derive(Debug)]
pub enum Answer {
    /// Bytes in memory, until they are sent.
    Text(Option<Bytes>),
    /// A part of a file.
    File(FileBody),
}

/// The remaining part of a file. The file may have other readers at the same time.
#[derive(Debug)]
pub struct FileBody {
    file: Arc<File>,
    position: u64,
    end: u64,
}

impl From<Vec<u8>> for Answer {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Text(Some(bytes.into()))
    }
}

impl From<&'static str> for Answer {
    fn from(text: &'static str) -> Self {
        Self::Text(Some(Bytes::from_static(text.as_bytes())))
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let block = match self.get_mut() {
            Self::Text(text) => text.take().filter(|text| !text.is_empty()).map(Ok),
            Self::File(body) => body.next_block(),
        };
        Poll::Ready(block.map(|block| block.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Self::Text(text) => text.as_ref().map_or(0, |text| text.len() as u64),
            Self::File(body) => body.end.saturating_sub(body.position),
        })
    }
}

impl FileBody {
    fn next_block(&mut self) -> Option<io::Result<Bytes>> {
        let left = self.end.saturating_sub(self.position).min(BLOCK);
        if left == 0 {
            return None;
        }
        let block = read_block(&self.file, self.position, left);
        // Nothing follows after an error.
        self.position = block
            .as_ref()
            .map_or(self.end, |block| self.position + block.len() as u64);
        Some(block)
    }
}

/// Reads a block of a file. The file is usually in the system's cache.
fn read_block(file: &File, position: u64, length: u64) -> io::Result<Bytes> {
    let mut block = vec![0; usize::try_from(length).unwrap_or_default()];
    let read = profiler_sys::read_at(file, &mut block, position)?;
    if read == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into()); // the file has become shorter
    }
    block.truncate(read);
    Ok(block.into())
}

/// An answer that contains only its status.
pub fn status(status: StatusCode) -> Response<Answer> {
    let mut response = Response::new(Answer::from(Vec::new()));
    *response.status_mut() = status;
    response
}

/// The answer to a request for something that does not exist.
pub fn not_found() -> Response<Answer> {
    status(StatusCode::NOT_FOUND)
}

/// The answer to a method that the path does not have; `allowed` are those that it has.
pub fn method_not_allowed(allowed: &'static str) -> Response<Answer> {
    let mut response = status(StatusCode::METHOD_NOT_ALLOWED);
    put(&mut response, &[("allow", allowed)]);
    response
}

/// An answer with a body of this media type.
pub fn with_type(body: Answer, media_type: &'static str) -> Response<Answer> {
    let mut response = Response::new(body);
    put(&mut response, &[("content-type", media_type)]);
    response
}

/// A value as JSON.
pub fn json(value: &(impl serde::Serialize + ?Sized)) -> Response<Answer> {
    match serde_json::to_vec(value) {
        Ok(bytes) => with_type(Answer::from(bytes), "application/json"),
        Err(_) => status(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

/// A whole file; `None` if its length is unknown.
pub fn of_file(file: Arc<File>, media_type: &'static str) -> Option<Response<Answer>> {
    let end = file.metadata().ok()?.len();
    Some(with_type(
        Answer::File(FileBody {
            file,
            position: 0,
            end,
        }),
        media_type,
    ))
}

/// The answer to a CORS preflight request, which a browser sends before a request to another
/// origin.
pub fn preflight(request: &RequestHead, methods: &'static str) -> Response<Answer> {
    let mut response = status(StatusCode::NO_CONTENT);
    let headers = [
        ("access-control-allow-methods", methods),
        ("access-control-allow-headers", "content-type"),
        ("access-control-max-age", "600"),
    ];
    put(&mut response, &headers);
    if request
        .headers()
        .contains_key("access-control-request-private-network")
    {
        put(
            &mut response,
            &[("access-control-allow-private-network", "true")],
        );
    }
    response
}

/// Allows the pages of all origins to read the answer: the secret in its path protects it.
pub fn for_any_origin(mut response: Response<Answer>) -> Response<Answer> {
    let headers = [
        ("access-control-allow-origin", "*"),
        ("cross-origin-resource-policy", "cross-origin"),
    ];
    put(&mut response, &headers);
    response
}

/// Allows only the pages of this origin to read the answer.
pub fn for_origin(mut response: Response<Answer>, origin: HeaderValue) -> Response<Answer> {
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    // Pages of other origins cannot load it without reading it either.
    put(
        &mut response,
        &[("cross-origin-resource-policy", "same-origin")],
    );
    response
}

/// Sets headers.
pub fn put(response: &mut Response<Answer>, headers: &[(&'static str, &'static str)]) {
    for (name, value) in headers {
        let name = HeaderName::from_static(name);
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
}
