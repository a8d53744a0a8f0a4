//! What goes back: a status, headers, and a body that ends with the connection.
//!
//! Written by [`super::connection`]. Every answer closes the connection, so nothing of one request can be
//! taken for a part of the next.

use std::io::{self, Write};

/// The head of an answer.
#[derive(Debug)]
pub(super) struct Response {
    status: u16,
    headers: Vec<(&'static str, String)>,
}

impl Response {
    /// An answer with nothing but a status.
    pub(super) fn new(status: u16) -> Self {
        Self { status, headers: Vec::new() }
    }

    /// Adds a header.
    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Any page may read this answer: which pages know the token is what protects it.
    pub(super) fn for_any_origin(self) -> Self {
        self.with("Access-Control-Allow-Origin", "*").with("Cross-Origin-Resource-Policy", "cross-origin")
    }

    /// Writes the head, for a body of `length` bytes.
    pub(super) fn write_head(&self, out: &mut impl Write, length: u64) -> io::Result<()> {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if self.status != 204 {
            head.push_str(&format!("Content-Length: {length}\r\n"));
        }
        head.push_str(
            "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        );
        out.write_all(head.as_bytes())
    }

    /// Writes an answer without a body.
    pub(super) fn write_alone(&self, out: &mut impl Write) -> io::Result<()> {
        self.write_head(out, 0)
    }
}

const fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        411 => "Length Required",
        413 => "Content Too Large",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Error",
    }
}
