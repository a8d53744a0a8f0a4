//! Tests of the server, with complete requests and answers over a socket.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;

use super::{Server, SymbolicationApi};
use profiler_files::output::ProfileFile;

/// Sends `request` in pieces of `piece` bytes, with `TOKEN` and `HOST` replaced by the server's
/// token and address, and returns the answer.
fn ask_in_pieces(server: &Server, piece: usize, request: &str) -> String {
    let token = server.base().rsplit_once('/').unwrap().1.to_owned();
    let host = server.address().to_string();
    let request = request.replace("TOKEN", &token).replace("HOST", &host);
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_nodelay(true).unwrap();
    for part in request.as_bytes().chunks(piece) {
        if stream.write_all(part).is_err() {
            break; // the server has already answered
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer); // an early answer can end with a reset
    String::from_utf8(answer).unwrap()
}

fn ask(server: &Server, request: &str) -> String {
    ask_in_pieces(server, usize::MAX, request)
}

fn status(answer: &str) -> Option<&str> {
    answer
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3))
}

/// Repeats short requests.
struct Echo;

fn echo(path: &str, request: &str) -> Option<String> {
    assert_ne!(request, "a question that breaks everything");
    (request.len() < 100).then(|| format!("<{path}{request}>"))
}

impl SymbolicationApi for Echo {
    fn symbolicate(&self, _: &File, request: &str) -> Option<String> {
        echo("", request)
    }

    fn source(&self, _: &File, request: &str) -> Option<String> {
        echo("source: ", request)
    }

    fn assembly(&self, _: &File, request: &str) -> Option<String> {
        echo("assembly: ", request)
    }
}

fn serve(path: &Path) -> Server {
    Server::start(path, 0, Box::new(Echo)).unwrap()
}

/// A server for a profile with some padding, and the profile.
fn plain(padding: usize) -> (tempfile::TempDir, Server, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("profile.json");
    let padding = " ".repeat(padding);
    let content = format!(
        r#"{{"meta":{{"version":31,"interval":1}},{padding}"libs":[],"threads":[],"processes":[]}}"#
    );
    std::fs::write(&path, &content).unwrap();
    (directory, serve(&path), content)
}

#[test]
fn the_file_is_served_unchanged_to_clients_with_the_token() {
    let (_directory, server, content) = plain(300_000); // several blocks
    for piece in [30, usize::MAX] {
        let request = "GET /TOKEN/profile.json HTTP/1.1\r\nHost: HOST\r\n\r\n";
        let answer = ask_in_pieces(&server, piece, request);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        for header in [
            "access-control-allow-origin: *",
            "content-type: application/json",
            &format!("content-length: {}", content.len()),
        ] {
            assert!(head.lines().any(|line| line == header), "{header}: {head}");
        }
        assert!(!head.contains("content-encoding"), "{head}");
        assert_eq!(body, content);
        let port = server.address().port();
        let request =
            format!("HEAD /TOKEN/profile.json HTTP/1.1\r\nHost: LocalHost:{port}\r\n\r\n");
        assert_eq!(
            ask_in_pieces(&server, piece, &request),
            format!("{head}\r\n\r\n")
        );
    }
}

#[test]
fn a_compressed_file_is_announced_as_such() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("profile.json.gz");
    let mut file = ProfileFile::create(&path).unwrap();
    file.write_all(plain(0).2.as_bytes()).unwrap();
    file.commit().unwrap();
    let server = serve(&path);
    let answer = ask(
        &server,
        "HEAD /TOKEN/profile.json HTTP/1.1\r\nHost: HOST\r\n\r\n",
    );
    assert!(
        answer.lines().any(|line| line == "content-encoding: gzip"),
        "{answer}"
    );
}

#[test]
fn clients_without_the_token_get_the_same_answer_for_every_path() {
    let (_directory, server, _) = plain(0);
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
    let request = |method: &str, path| format!("{method} {path} HTTP/1.1\r\nHost: HOST\r\n\r\n");
    for method in ["GET", "POST", "OPTIONS"] {
        for path in paths {
            let answer = ask(&server, &request(method, path));
            assert_eq!(
                answer,
                ask(&server, &request("GET", "/")),
                "{method} {path}"
            );
            assert_eq!(status(&answer), Some("404"));
            assert!(!answer.contains("access-control"), "{answer}");
        }
    }
}

#[test]
fn a_request_under_another_name_for_this_machine_is_refused() {
    let (_directory, server, _) = plain(0);
    let port = server.address().port();
    for host in [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        "127.0.0.1".to_owned(),
        "127.0.0.1:8".to_owned(),
        format!("localhost:{port}.evil.example"),
        format!("HOST\r\nHost: 127.0.0.1:{port}"),
    ] {
        let request = format!("GET /TOKEN/profile.json HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(status(&ask(&server, &request)), Some("403"), "{host}");
    }
    let without = ask(&server, "GET /TOKEN/profile.json HTTP/1.1\r\n\r\n");
    assert_eq!(status(&without), Some("403"));
}

#[test]
fn a_preflight_allows_the_requests_of_the_viewer() {
    let (_directory, server, _) = plain(0);
    let private = "Access-Control-Request-Private-Network: true\r\n";
    let ask = |path: &str, headers: &str| {
        ask(
            &server,
            &format!("OPTIONS /TOKEN/{path} HTTP/1.1\r\nHost: HOST\r\n{headers}\r\n"),
        )
    };
    for path in ["symbolicate/v5", "source/v1", "asm/v1"] {
        let answer = ask(path, private);
        assert_eq!(status(&answer), Some("204"));
        for header in [
            "access-control-allow-origin: *",
            "access-control-allow-methods: GET, HEAD, POST, OPTIONS",
            "access-control-allow-headers: content-type",
            "access-control-allow-private-network: true",
        ] {
            assert!(
                answer.lines().any(|line| line == header),
                "{header}: {answer}"
            );
        }
    }
    let answer = ask("profile.json", "");
    assert!(!answer.contains("private-network"), "{answer}");
}

#[test]
fn only_pages_of_the_viewer_may_read_the_answers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("profile.json");
    std::fs::write(&path, plain(0).2).unwrap();
    let viewer = "https://viewer.example:8443/";
    let server = Server::start_for_viewer(viewer, &path, 0, Box::new(Echo)).unwrap();
    for (line, body) in [
        ("GET /TOKEN/profile.json", ""),
        ("OPTIONS /TOKEN/profile.json", ""),
        ("OPTIONS /TOKEN/asm/v1", ""),
        ("POST /TOKEN/symbolicate/v5", "a"),
        ("POST /TOKEN/source/v1", "a"),
        ("POST /TOKEN/asm/v1", "a"),
    ] {
        for origin in ["https://viewer.example:8443", "https://evil.example"] {
            let length = body.len();
            let head = format!("{line} HTTP/1.1\r\nHost: HOST\r\nOrigin: {origin}");
            let answer = ask(
                &server,
                &format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}"),
            );
            assert!(
                matches!(status(&answer), Some("200" | "204")),
                "{line}: {answer}"
            );
            let sent: Vec<&str> = answer
                .lines()
                .filter(|header| header.contains("origin"))
                .collect();
            let expected = [
                "access-control-allow-origin: https://viewer.example:8443",
                "cross-origin-resource-policy: same-origin",
            ];
            assert!(
                sent.len() == 2 && expected.iter().all(|header| sent.contains(header)),
                "{line}: {answer}"
            );
        }
    }
}

#[test]
fn a_request_for_symbols_may_arrive_in_pieces() {
    let (_directory, server, _) = plain(0);
    let post = |length: &str, body: &str| {
        format!("POST /TOKEN/symbolicate/v5 HTTP/1.1\r\nHost: HOST\r\n{length}\r\n{body}")
    };
    let question = post("Content-Length: 10\r\n", "a question");
    for piece in [7, 30, 9999] {
        let answer = ask_in_pieces(&server, piece, &question);
        assert_eq!(status(&answer), Some("200"));
        assert!(answer.ends_with("\r\n\r\n<a question>"), "{answer}");
    }
    let refused = |length: &str, body: &str| {
        status(&ask(&server, &post(length, body)))
            .unwrap_or("none")
            .to_owned()
    };
    assert_eq!(refused("", ""), "411");
    assert_eq!(
        refused(
            "Content-Length: 33\r\n",
            "a question that breaks everything"
        ),
        "500"
    );
    assert_eq!(refused("Content-Length: 99999999999\r\n", ""), "413");
    assert_eq!(refused("Content-Length: 200\r\n", &"x".repeat(200)), "400");
    let incomplete = ask(&server, &post("Content-Length: 200\r\n", "too short"));
    assert_ne!(status(&incomplete), Some("200"), "{incomplete}");
}

#[test]
fn requests_for_sources_and_assembly_have_their_own_paths_and_a_small_limit() {
    let (_directory, server, _) = plain(0);
    let post = |path: &str, body: &str| {
        let length = body.len();
        let head = format!("POST /TOKEN/{path} HTTP/1.1\r\nHost: HOST\r\nContent-Length: {length}");
        ask(&server, &format!("{head}\r\n\r\n{body}"))
    };
    for (path, said) in [("source/v1", "<source: a>"), ("asm/v1", "<assembly: a>")] {
        let answer = post(path, "a");
        assert_eq!(status(&answer), Some("200"), "{answer}");
        assert!(answer.ends_with(said), "{answer}");
        assert!(
            answer.contains("access-control-allow-origin: *"),
            "{answer}"
        );
        assert_eq!(status(&post(path, &"x".repeat(200))), Some("400"));
        assert_eq!(
            status(&post(path, "a question that breaks everything")),
            Some("500")
        );
        let large = (64 << 10) + 1;
        let request =
            format!("POST /TOKEN/{path} HTTP/1.1\r\nHost: HOST\r\nContent-Length: {large}\r\n\r\n");
        assert_eq!(status(&ask(&server, &request)), Some("413"));
        for line in ["GET", "PUT", "DELETE"] {
            let request = format!("{line} /TOKEN/{path} HTTP/1.1\r\nHost: HOST\r\n\r\n");
            assert_eq!(
                status(&ask(&server, &request)),
                Some("405"),
                "{line} {path}"
            );
        }
        let wrong = format!("POST /{path} HTTP/1.1\r\nHost: HOST\r\nContent-Length: 1\r\n\r\na");
        assert_eq!(status(&ask(&server, &wrong)), Some("404"));
    }
}

#[test]
fn other_methods_and_endless_heads_are_refused() {
    let (_directory, server, _) = plain(0);
    let request = |line: &str| {
        let answer = ask(&server, &format!("{line} HTTP/1.1\r\nHost: HOST\r\n\r\n"));
        status(&answer).unwrap_or("none").to_owned()
    };
    assert_eq!(request("DELETE /TOKEN/profile.json"), "405");
    assert_eq!(request("POST /TOKEN/profile.json"), "405");
    assert_eq!(request("GET /TOKEN/symbolicate/v5"), "405");
    let endless = format!(
        "GET / HTTP/1.1\r\nHost: HOST\r\nX-Endless: {}",
        "x".repeat(1 << 20)
    );
    assert!(!ask(&server, &endless).starts_with("HTTP/1.1 2"));
    assert_eq!(status(&ask(&server, "nonsense\r\n\r\n")), Some("400"));
    assert_eq!(
        ask(&server, "GET / HTTP/1.1\r\nHost: a\r\n"),
        "",
        "the head is incomplete"
    );
}
