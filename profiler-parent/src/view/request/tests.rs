//! Requests as browsers send them, as attackers send them, and any bytes at all.

use proptest::prelude::*;

use super::*;

fn get(rest: &str) -> Result<Request, Refusal> {
    parse(format!("GET /a HTTP/1.1\r\n{rest}\r\n").as_bytes())
}

#[test]
fn a_browsers_request_is_read() {
    let request = parse(
        b"OPTIONS /t/symbolicate/v5?x=1 HTTP/1.1\r\nHost: 127.0.0.1:3000\r\nOrigin: https://p.example\r\n\
          Access-Control-Request-Private-Network: true\r\ncontent-length:  12\t\r\n\r\n",
    );
    let expected = Request {
        method: Method::Options,
        path: "/t/symbolicate/v5".to_owned(),
        host: "127.0.0.1:3000".to_owned(),
        content_length: Some(12),
        asks_private_network: true,
    };
    assert_eq!(request, Ok(expected));
}

#[test]
fn what_can_be_read_in_two_ways_is_refused() {
    const HOST: &str = "Host: a\r\n";
    let cases = [
        ("", Refusal::Malformed),                          // no host
        ("Host: a\r\nhost: b\r\n", Refusal::Malformed),    // two hosts
        ("Host: a\r\nX : y\r\n", Refusal::Malformed),      // a space before the colon
        ("Host: a\r\n folded\r\n", Refusal::Malformed),    // a folded line
        ("Host: a\r\nX: a\nY: b\r\n", Refusal::Malformed), // a bare line feed
        ("Host: a\r\nContent-Length: +1\r\n", Refusal::Malformed),
        ("Host: a\r\nContent-Length: 99999999999999999999\r\n", Refusal::Malformed),
        ("Host: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n", Refusal::Malformed),
        ("Host: a\r\nTransfer-Encoding: chunked\r\n", Refusal::Encoding),
    ];
    for (headers, refusal) in cases {
        assert_eq!(get(headers), Err(refusal), "{headers:?}");
    }
    assert!(get(HOST).is_ok());
    assert_eq!(get(&"X: y\r\n".repeat(MAX_HEADERS + 1)), Err(Refusal::HeadTooLarge));
    assert_eq!(get(&format!("X: {}\r\n", "y".repeat(MAX_HEAD))), Err(Refusal::HeadTooLarge));
}

#[test]
fn only_plain_paths_of_http_1_1_are_served() {
    let line = |line: &str| parse(format!("{line}\r\nHost: a\r\n\r\n").as_bytes());
    assert_eq!(line("DELETE / HTTP/1.1"), Err(Refusal::Method));
    assert_eq!(line("GET / HTTP/1.0"), Err(Refusal::Version));
    for wrong in [
        "GET http://a/ HTTP/1.1",
        "GET * HTTP/1.1",
        "GET  / HTTP/1.1",
        "GET /",
        "GET / FTP",
        "",
        "G=T / HTTP/1.1",
    ] {
        assert_eq!(line(wrong), Err(Refusal::Malformed), "{wrong:?}");
    }
    assert_eq!(Refusal::Method.status(), 405);
}

proptest! {
    #[test]
    fn any_bytes_give_a_request_or_a_refusal(bytes: Vec<u8>) {
        let _ = (end_of_head(&bytes), parse(&bytes));
    }

    #[test]
    fn almost_requests_give_a_request_or_a_refusal(
        text in "(GET|POST|HEAD|PUT) ?/[a-z?/ ]{0,9} ?HTTP/1\\.[01]\r?\n([Hh]ost ?:[ a-z:0-9]{0,9}\r\n){0,2}(content-length:[ 0-9]{0,4}\r\n){0,2}\r\n"
    ) {
        if let Ok(request) = parse(text.as_bytes()) {
            prop_assert!(request.path.starts_with('/') && !request.path.contains(['?', ' ']));
            prop_assert!(!request.host.contains(['\r', '\n']));
            prop_assert_eq!(end_of_head(text.as_bytes()), Some(text.len()));
        }
    }

    #[test]
    fn what_is_written_is_what_is_read(
        method in prop::sample::select(vec![Method::Get, Method::Head, Method::Post, Method::Options]),
        path in "/[!->@-~]{0,40}",
        host in "[!-~]{1,20}",
        content_length in proptest::option::of(any::<u64>()),
        asks_private_network: bool,
    ) {
        let length = content_length.map_or(String::new(), |length| format!("Content-Length: {length}\r\n"));
        let asks = if asks_private_network { "Access-Control-Request-Private-Network: true\r\n" } else { "" };
        let text = format!("{method} {path}?query HTTP/1.1\r\nX-Other: any thing\r\nHost: {host}\r\n{length}{asks}\r\n");
        let request = Request { method, path, host, content_length, asks_private_network };
        prop_assert_eq!(parse(text.as_bytes()), Ok(request));
    }
}
