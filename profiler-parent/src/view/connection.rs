//! One connection: one request, one answer.
//!
//! Run by [`super::Server`] on a thread of its own. Invariants: a client gets so much memory and so many
//! reads, each with a timeout, and no more; what it sends beyond that is not looked at.

use std::io::{self, Read, Write};

use super::request::{MAX_HEAD, Method, Refusal, Request, end_of_head, parse};
use super::response::Response;
use super::routes::{ViewResource, ViewRoutes};
use crate::symbols::stack::on_symbol_stack;

/// Reads in which a head must be there: it comes in one, unless somebody wants to occupy us.
const HEAD_READS: usize = 32;
/// Bytes of a question for symbols: a large library's 100,000 addresses are two million.
const MAX_BODY: u64 = 16 << 20;
/// Reads in which a body must be there.
const BODY_READS: usize = 4096;

/// Reads the request and answers it; calls `has_token` as soon as it knows that the client has the
/// token.
pub(super) fn serve(
    stream: &mut (impl Read + Write),
    site: &ViewRoutes,
    has_token: impl FnOnce(),
) -> io::Result<()> {
    let Some((head, beginning)) = read_head(stream)? else {
        return Response::new(Refusal::HeadTooLarge.status()).write_alone(stream);
    };
    match parse(&head) {
        Ok(request) => answer(&request, beginning, stream, (site, has_token)),
        Err(refusal) => Response::new(refusal.status()).write_alone(stream),
    }
}

/// The head, and what came of the body with it; `None` if it does not end.
fn read_head(stream: &mut impl Read) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let mut bytes = Vec::new();
    for _ in 0..HEAD_READS {
        let mut block = [0; 4096];
        let read = stream.read(&mut block)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(block.get(..read).unwrap_or_default());
        if let Some(end) = end_of_head(&bytes) {
            let body = bytes.split_off(end);
            return Ok(Some((bytes, body)));
        }
        if bytes.len() > MAX_HEAD {
            break;
        }
    }
    Ok(None)
}

fn answer(
    request: &Request,
    beginning: Vec<u8>,
    stream: &mut (impl Read + Write),
    (site, has_token): (&ViewRoutes, impl FnOnce()),
) -> io::Result<()> {
    if !site.is_host(&request.host) {
        return Response::new(403).write_alone(stream);
    }
    let Some(place) = site.place(&request.path) else {
        return Response::new(404).write_alone(stream);
    };
    has_token();
    match (request.method, place) {
        (Method::Options, _) => preflight(request).write_alone(stream),
        (Method::Get, ViewResource::Profile) => send_profile(stream, site, true),
        (Method::Head, ViewResource::Profile) => send_profile(stream, site, false),
        (Method::Post, ViewResource::Symbolicate) => symbolicate(request, beginning, stream, site),
        (_, ViewResource::Profile) => not_allowed("GET, HEAD, OPTIONS").write_alone(stream),
        (_, ViewResource::Symbolicate) => not_allowed("POST, OPTIONS").write_alone(stream),
    }
}

fn preflight(request: &Request) -> Response {
    let response = Response::new(204)
        .for_any_origin()
        .with("Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS")
        .with("Access-Control-Allow-Headers", "Content-Type")
        .with("Access-Control-Max-Age", "600");
    match request.asks_private_network {
        true => response.with("Access-Control-Allow-Private-Network", "true"),
        false => response,
    }
}

fn not_allowed(allowed: &'static str) -> Response {
    Response::new(405).for_any_origin().with("Allow", allowed)
}

fn send_profile(out: &mut impl Write, site: &ViewRoutes, with_body: bool) -> io::Result<()> {
    let length = site.length()?;
    let response = Response::new(200).for_any_origin().with("Content-Type", "application/json");
    let response = if site.is_compressed { response.with("Content-Encoding", "gzip") } else { response };
    response.write_head(out, length)?;
    if with_body { site.write_file(length, out) } else { Ok(()) }
}

fn symbolicate(
    request: &Request,
    beginning: Vec<u8>,
    stream: &mut (impl Read + Write),
    site: &ViewRoutes,
) -> io::Result<()> {
    let refuse = |status| Response::new(status).for_any_origin();
    let Some(length) = request.content_length else { return refuse(411).write_alone(stream) };
    if length > MAX_BODY {
        return refuse(413).write_alone(stream);
    }
    let body = read_body(beginning, usize::try_from(length).unwrap_or(usize::MAX), stream)?;
    let Ok(question) = std::str::from_utf8(&body) else { return refuse(400).write_alone(stream) };
    let answer = match on_symbol_stack(|| (site.symbolicate)(&site.file, question)) {
        Ok(Some(answer)) => answer,
        Ok(None) => return refuse(400).write_alone(stream),
        Err(_) => return refuse(500).write_alone(stream),
    };
    let response = Response::new(200).for_any_origin().with("Content-Type", "application/json");
    response.write_head(stream, answer.len() as u64)?;
    stream.write_all(answer.as_bytes())
}

fn read_body(mut body: Vec<u8>, length: usize, stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut block = vec![0; 64 * 1024];
    for _ in 0..BODY_READS {
        if body.len() >= length {
            body.truncate(length);
            return Ok(body);
        }
        let wanted = (length - body.len()).min(block.len());
        let read = stream.read(block.get_mut(..wanted).unwrap_or_default())?;
        if read == 0 {
            break;
        }
        body.extend_from_slice(block.get(..read).unwrap_or_default());
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

#[cfg(test)]
mod tests;
