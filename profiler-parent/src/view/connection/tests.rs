//! Whole conversations, without a network.

use std::fs::File;
use std::io::{Cursor, Seek, Write as _};

use super::*;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A client that sends its request in pieces, and keeps what it gets.
struct Client {
    request: Cursor<Vec<u8>>,
    piece: usize,
    got: Vec<u8>,
}

impl Read for Client {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let most = room.len().min(self.piece);
        self.request.read(&mut room[..most])
    }
}

impl Write for Client {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.got.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn site(content: &[u8], is_compressed: bool) -> ViewRoutes {
    let mut file: File = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    file.rewind().unwrap();
    ViewRoutes {
        token: TOKEN.to_owned(),
        file,
        is_compressed,
        hosts: ["127.0.0.1:7".to_owned(), "localhost:7".to_owned()],
        symbolicate: Box::new(|_, question| {
            assert_ne!(question, "a question that breaks everything");
            (question.len() < 100).then(|| format!("<{question}>"))
        }),
    }
}

fn ask(site: &ViewRoutes, piece: usize, request: &str) -> String {
    let mut client = Client { request: Cursor::new(request.as_bytes().to_vec()), piece, got: Vec::new() };
    let _ = serve(&mut client, site, || ());
    String::from_utf8(client.got).unwrap()
}

fn request(line: &str, host: &str, rest: &str) -> String {
    format!("{} HTTP/1.1\r\nHost: {host}\r\n{rest}\r\n", line.replace("TOKEN", TOKEN))
}

#[test]
fn the_file_is_served_as_it_is_to_whoever_knows_the_token() {
    let content = "{\"meta\":1}".repeat(30_000); // several blocks
    let site = site(content.as_bytes(), true);
    for piece in [1000, 1 << 20] {
        let got = ask(&site, piece, &request("GET /TOKEN/profile.json", "127.0.0.1:7", ""));
        let (head, body) = got.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        for header in [
            "Content-Encoding: gzip",
            "Access-Control-Allow-Origin: *",
            "Content-Type: application/json",
            &format!("Content-Length: {}", content.len()),
        ] {
            assert!(head.lines().any(|line| line == header), "{header}: {head}");
        }
        assert_eq!(body, content);
        let without = ask(&site, piece, &request("HEAD /TOKEN/profile.json", "LOCALHOST:7", ""));
        assert_eq!(without, format!("{head}\r\n\r\n"));
    }
}

#[test]
fn who_does_not_know_the_token_learns_nothing() {
    let site = site(b"{}", false);
    let paths = [
        "/",
        "//",
        "/profile.json",
        "/TOKEN",
        "/TOKEN/",
        "/TOKEN/other",
        "/0/profile.json",
        "/TOKENx/profile.json",
        "/TOKEN/../TOKEN/profile.json",
        "/x123456789abcdef0123456789abcdef/profile.json",
    ];
    let answers = ["GET", "HEAD", "POST", "OPTIONS"].into_iter().flat_map(|method| {
        let ask = |path: &&str| ask(&site, 9999, &request(&format!("{method} {path}"), "localhost:7", ""));
        paths.iter().map(ask).collect::<Vec<_>>()
    });
    let answers: std::collections::BTreeSet<String> = answers.collect();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert!(answers.iter().all(|answer| answer.starts_with("HTTP/1.1 404 ") && !answer.contains("Access")));
}

#[test]
fn a_page_that_gave_this_machine_a_name_of_its_own_is_refused() {
    let site = site(b"{}", false);
    for host in ["evil.example", "evil.example:7", "127.0.0.1", "127.0.0.1:8", "localhost:7.evil.example"] {
        let got = ask(&site, 9999, &request("GET /TOKEN/profile.json", host, ""));
        assert!(got.starts_with("HTTP/1.1 403 "), "{host}: {got}");
    }
}

#[test]
fn a_preflight_allows_what_the_viewer_does() {
    let site = site(b"{}", false);
    let private = "Access-Control-Request-Private-Network: true\r\n";
    let got = ask(&site, 9999, &request("OPTIONS /TOKEN/symbolicate/v5", "127.0.0.1:7", private));
    assert!(got.starts_with("HTTP/1.1 204 "), "{got}");
    for header in [
        "Access-Control-Allow-Origin: *",
        "Access-Control-Allow-Methods: GET, HEAD, POST, OPTIONS",
        "Access-Control-Allow-Headers: Content-Type",
        "Access-Control-Allow-Private-Network: true",
    ] {
        assert!(got.lines().any(|line| line == header), "{header}: {got}");
    }
    let got = ask(&site, 9999, &request("OPTIONS /TOKEN/profile.json", "127.0.0.1:7", ""));
    assert!(!got.contains("Private-Network"), "{got}");
}

#[test]
fn symbols_are_answered_in_however_many_pieces_the_question_comes() {
    let site = site(b"{}", false);
    let question = "a question";
    let post = |length: &str, body: &str| request("POST /TOKEN/symbolicate/v5", "127.0.0.1:7", length) + body;
    for piece in [30, 31, 9999] {
        let got = ask(&site, piece, &post("Content-Length: 10\r\n", &format!("{question} and more")));
        assert!(got.starts_with("HTTP/1.1 200 OK\r\n") && got.ends_with("\r\n\r\n<a question>"), "{got}");
    }
    let status =
        |length: &str, body: &str| ask(&site, 9999, &post(length, body)).get(9..12).map(str::to_owned);
    assert_eq!(status("", question).as_deref(), Some("411"));
    assert_eq!(status("Content-Length: 33\r\n", "a question that breaks everything").as_deref(), Some("500"));
    assert_eq!(status("Content-Length: 99999999999\r\n", "").as_deref(), Some("413"));
    assert_eq!(status("Content-Length: 200\r\n", &"x".repeat(200)).as_deref(), Some("400"));
    assert_eq!(status("Content-Length: 200\r\n", "too short"), None, "no answer to half a question");
}

#[test]
fn other_methods_and_endless_heads_are_refused() {
    let site = site(b"{}", false);
    let status = |request: &str, piece| ask(&site, piece, request).get(9..12).map(str::to_owned);
    assert_eq!(
        status(&request("DELETE /TOKEN/profile.json", "localhost:7", ""), 9999).as_deref(),
        Some("405")
    );
    assert_eq!(status(&request("POST /TOKEN/profile.json", "localhost:7", ""), 9999).as_deref(), Some("405"));
    assert_eq!(
        status(&request("GET /TOKEN/symbolicate/v5", "localhost:7", ""), 9999).as_deref(),
        Some("405")
    );
    assert_eq!(status(&"x".repeat(MAX_HEAD * 2), 4096).as_deref(), Some("431"));
    assert_eq!(
        status(&request("GET /TOKEN/profile.json", "localhost:7", ""), 1).as_deref(),
        Some("431"),
        "drop by drop"
    );
    assert_eq!(status("nonsense\r\n\r\n", 9999).as_deref(), Some("400"));
    assert_eq!(status("GET / HTTP/1.1\r\nHost: a\r\n", 9999), None, "it never ended");
}
