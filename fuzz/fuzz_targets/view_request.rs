//! The head of an HTTP request: what is accepted has one meaning, and says the same again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use profiler_parent::view::request::{end_of_head, parse};

fuzz_target!(|data: &[u8]| {
    let Some(end) = end_of_head(data) else { return };
    let head = &data[..end];
    let Ok(request) = parse(head) else { return };
    assert!(request.path.starts_with('/') && !request.path.contains(['?', ' ', '\r', '\n']));
    assert!(!request.host.contains(['\r', '\n']));
    let length = request.content_length.map_or(String::new(), |length| format!("Content-Length: {length}\r\n"));
    let asks = if request.asks_private_network { "Access-Control-Request-Private-Network: true\r\n" } else { "" };
    let (method, path, host) = (request.method, &request.path, &request.host);
    let again = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{length}{asks}\r\n");
    assert_eq!(parse(again.as_bytes()).as_ref(), Ok(&request));
});
