//! The head of one HTTP/1.1 request, from bytes.
//!
//! Called by the connections of [`super`]; fuzzed by `fuzz/fuzz_targets/view_request.rs`. Strict, because
//! whatever is accepted in two readings is a hole: lines end in CRLF, a header is on one line, `Host` and
//! `Content-Length` stand there once, nothing is chunked. Invariant: whatever the bytes, it gives a request
//! or says which answer they deserve.

use std::fmt;

/// Bytes that a head may have, with the empty line at its end.
pub const MAX_HEAD: usize = 16 * 1024;
/// Headers that a request may have.
const MAX_HEADERS: usize = 100;

/// What is asked for. Nothing else is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Method {
    Get,
    Head,
    Post,
    Options,
}

/// A request without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is asked for.
    pub method: Method,
    /// The path, as it was sent, without the query.
    pub path: String,
    /// The host that the client believes to speak to.
    pub host: String,
    /// Bytes of the body, if the request says that it has one.
    pub content_length: Option<u64>,
    /// The preflight asks whether a public page may reach a private address.
    pub asks_private_network: bool,
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Refusal {
    #[error("not an HTTP request")]
    Malformed,
    #[error("not a method that is served here")]
    Method,
    #[error("the head of the request is too large")]
    HeadTooLarge,
    #[error("not HTTP/1.1")]
    Version,
    #[error("a body in a form that is not read here")]
    Encoding,
}

impl Refusal {
    /// The status that says so.
    pub const fn status(self) -> u16 {
        match self {
            Self::Malformed => 400,
            Self::Method => 405,
            Self::HeadTooLarge => 431,
            Self::Version => 505,
            Self::Encoding => 501,
        }
    }
}

/// How many bytes of what came so far are the head, once all of it is there.
pub fn end_of_head(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|start| start + 4)
}

/// Reads a head, with the empty line that ends it.
///
/// # Errors
/// [`Refusal`].
pub fn parse(head: &[u8]) -> Result<Request, Refusal> {
    if head.len() > MAX_HEAD {
        return Err(Refusal::HeadTooLarge);
    }
    let head = std::str::from_utf8(head).ok().filter(|head| head.is_ascii()).ok_or(Refusal::Malformed)?;
    let head = head.strip_suffix("\r\n\r\n").ok_or(Refusal::Malformed)?;
    let mut lines = head.split("\r\n");
    let (method, path) = request_line(lines.next().unwrap_or_default())?;
    let headers = Headers::read(lines)?;
    Ok(Request {
        method,
        path,
        host: headers.host.ok_or(Refusal::Malformed)?,
        content_length: headers.content_length,
        asks_private_network: headers.asks_private_network,
    })
}

fn request_line(line: &str) -> Result<(Method, String), Refusal> {
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Refusal::Malformed);
    };
    if !is_token(method) || !target.starts_with('/') || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Refusal::Malformed);
    }
    match version {
        "HTTP/1.1" => {}
        _ if version.starts_with("HTTP/") => return Err(Refusal::Version),
        _ => return Err(Refusal::Malformed),
    }
    let method = match method {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "OPTIONS" => Method::Options,
        _ => return Err(Refusal::Method),
    };
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    Ok((method, path.to_owned()))
}

/// What matters of the headers.
#[derive(Debug, Default)]
struct Headers {
    host: Option<String>,
    content_length: Option<u64>,
    asks_private_network: bool,
}

impl Headers {
    fn read<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Self, Refusal> {
        let mut headers = Self::default();
        for (number, line) in lines.enumerate() {
            if number >= MAX_HEADERS {
                return Err(Refusal::HeadTooLarge);
            }
            let (name, value) = line.split_once(':').ok_or(Refusal::Malformed)?;
            let value = value.trim_matches([' ', '\t']);
            let is_text = |byte: u8| byte == b'\t' || byte == b' ' || byte.is_ascii_graphic();
            if !is_token(name) || !value.bytes().all(is_text) {
                return Err(Refusal::Malformed);
            }
            headers.take_in(&name.to_ascii_lowercase(), value)?;
        }
        Ok(headers)
    }

    fn take_in(&mut self, name: &str, value: &str) -> Result<(), Refusal> {
        match name {
            "host" => once(&mut self.host, value.to_owned()),
            "content-length" => {
                let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
                let length = value.parse().ok().filter(|_| digits).ok_or(Refusal::Malformed)?;
                once(&mut self.content_length, length)
            }
            "transfer-encoding" => Err(Refusal::Encoding),
            "access-control-request-private-network" => {
                self.asks_private_network = value == "true";
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn once<T>(place: &mut Option<T>, value: T) -> Result<(), Refusal> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Refusal::Malformed),
    }
}

/// Whether it can be a method or the name of a header.
fn is_token(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_part)
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Options => "OPTIONS",
        })
    }
}

#[cfg(test)]
mod tests;
