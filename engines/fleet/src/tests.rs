//! Tests with servers that answer what they are told to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use profiler_sys::{QuietThread, spawn_quiet};
use test_support::assert_matches;

use super::*;

/// A server on this machine that sends these answers, one per connection. Returns its address, and
/// the requests that it got.
fn server(answers: Vec<String>) -> (FleetAddress, QuietThread<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!(
        "clickhouse://reader@{}/fleet",
        listener.local_addr().unwrap()
    );
    let serve = move || {
        answers
            .iter()
            .map(|answer| serve(&listener, answer))
            .collect()
    };
    (
        address.parse().unwrap(),
        spawn_quiet("test", serve).unwrap(),
    )
}

/// Reads a request and sends an answer.
fn serve(listener: &TcpListener, answer: &str) -> String {
    let (mut stream, _) = listener.accept().unwrap();
    let mut from = BufReader::new(stream.try_clone().unwrap());
    let mut request = String::new();
    while from.read_line(&mut request).unwrap() > 2 {}
    let headers = request.to_ascii_lowercase();
    let length = headers.split("content-length: ").nth(1).unwrap();
    let length: usize = length.lines().next().unwrap().trim().parse().unwrap();
    let mut body = vec![0; length];
    from.read_exact(&mut body).unwrap();
    request.push_str(std::str::from_utf8(&body).unwrap());
    stream.write_all(answer.as_bytes()).unwrap();
    request
}

/// A complete answer in one chunk.
fn answer(status: &str, body: &str) -> String {
    format!("{}0\r\n\r\n", cut(status, body))
}

/// An answer without its end.
fn cut(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n",
        body.len()
    )
}

fn version(version: &str) -> String {
    answer("200 OK", &format!("{{\"version\":\"{version}\"}}\n"))
}

fn filter() -> FleetFilter {
    FleetFilter::within(TimeRange {
        from: UnixMicros(1_000_000),
        to: UnixMicros(2_000_000),
    })
}

const ROW: &str =
    "{\"path\":[\"main\"],\"samples\":\"3\",\"wall_us\":\"9007199254740993\",\"cpu_us\":7}\n";

/// The flame graph of a server that answers so.
fn flame(answers: Vec<String>) -> Result<FleetFlame, FleetError> {
    let (address, served) = server(answers);
    let store = FleetStore::connect(address, &PasswordSource::None);
    let flame = store.and_then(|store| FleetFlame::ask(&store, &filter(), 2));
    served.join().unwrap();
    flame
}

#[test]
fn the_rows_of_a_complete_answer_are_read_with_numbers_in_both_forms() {
    let flame = flame(vec![version("18.16.1"), answer("200 OK", ROW)]).unwrap();
    let expected = FleetStack {
        path: vec!["main".to_owned()],
        samples: 3,
        wall_us: 9_007_199_254_740_993,
        cpu_us: 7,
    };
    assert_eq!((flame.stacks, flame.is_cut), (vec![expected], false));
}

#[test]
fn more_stacks_than_asked_for_are_noticed() {
    let flame = flame(vec![version("26.9.2.1"), answer("200 OK", &ROW.repeat(3))]).unwrap();
    assert_eq!((flame.stacks.len(), flame.is_cut), (2, true));
}

#[test]
fn an_exception_in_the_middle_of_a_success_is_an_error() {
    let old = "Code: 395, e.displayText() = DB::Exception: too much, e.what() = DB::Exception\n";
    let new = "\r\n__exception__\r\nabcdefgh\r\nCode: 395. DB::Exception: too much\r\n";
    let object = "{\"exception\": \"Code: 395. DB::Exception: too much\"}\n";
    let in_a_row = "{\"path\":[\"ma";
    for rest in [
        old.to_owned(),
        new.to_owned(),
        object.to_owned(),
        format!("{in_a_row}{old}"),
    ] {
        let body = format!("{ROW}{rest}");
        let error = flame(vec![version("18.16.1"), answer("200 OK", &body)]).unwrap_err();
        let is_midway = matches!(&error, FleetError::FailedMidway { code: 395, rows: 1, message, .. }
            if message.starts_with("too much"));
        assert!(is_midway, "{rest:?}: {error:?}");
    }
}

#[test]
fn an_answer_without_an_end_is_an_error() {
    for body in [
        ROW.to_owned(),
        ROW.trim().to_owned(),
        format!("{ROW}{{\"path\":"),
    ] {
        let error = flame(vec![version("18.16.1"), cut("200 OK", &body)]).unwrap_err();
        assert_matches!(error, FleetError::CutOff { .. }, "{body:?}");
    }
}

#[test]
fn an_answer_with_more_rows_than_asked_for_is_an_error() {
    let error = flame(vec![version("18.16.1"), answer("200 OK", &ROW.repeat(4))]).unwrap_err();
    assert_matches!(error, FleetError::TooLong { rows: 3, .. });
}

#[test]
fn a_server_that_stops_in_its_answer_holds_no_question_for_ever() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("clickhouse://{}", listener.local_addr().unwrap());
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let stuck = spawn_quiet("test", move || {
        let (mut stream, _) = listener.accept().unwrap();
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        // The connection stays open until the question has ended.
        ended.recv().unwrap_err();
    })
    .unwrap();
    let time = std::time::Duration::from_millis(10);
    let store = FleetStore::connect_for(address.parse().unwrap(), &PasswordSource::None, time);
    assert_matches!(store, Err(FleetError::CutOff { rows: 0, .. }));
    drop(end);
    stuck.join().unwrap();
}

#[test]
fn each_reason_for_no_answer_has_an_error() {
    let code = |code: u32| format!("Code: {code}. DB::Exception: x. (Y) (version 26)\n");
    let failed = |status: &str, code_: u32| answer(status, &code(code_));
    let after_version = |answer: String| flame(vec![version("18.16.1"), answer]).unwrap_err();
    let missing = after_version(failed("404 Not Found", 60));
    assert_matches!(missing, FleetError::NoTables { .. });
    let other = after_version(failed("500 Internal Server Error", 241));
    assert_matches!(other, FleetError::Failed { code: 241, .. });
    let unexpected = after_version(answer("200 OK", "{\"other\":1}\n"));
    assert_matches!(unexpected, FleetError::UnexpectedRow { .. });
    let at_once = |answer: String| flame(vec![answer]).unwrap_err();
    let denied = at_once(failed("401 Unauthorized", 516));
    assert!(matches!(denied, FleetError::Denied { .. }), "{denied:?}");
    let old = at_once(version("18.12.17"));
    assert!(matches!(old, FleetError::TooOld { .. }), "{old:?}");
    let page = at_once(answer("404 Not Found", "<html>"));
    assert!(matches!(page, FleetError::NotClickHouse { .. }), "{page:?}");
    let closed = "clickhouse://127.0.0.1:1".parse().unwrap();
    let error = FleetStore::connect(closed, &PasswordSource::None);
    assert_matches!(error, Err(FleetError::Unreachable { .. }));
}

#[test]
fn a_server_that_repeats_the_password_does_not_reveal_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("password");
    std::fs::write(&path, "ses/ame\n").unwrap();
    let exception = "Code: 241. DB::Exception: key ses/ame (Y) (version 26)\n";
    let json = "{\"key\":\"ses\\/ame\"}\n";
    let version = "{\"version\":\"key ses/ame\"}\n";
    for (status, text) in [
        ("500 Internal Server Error", json),
        ("500 Internal Server Error", "key ses/ame"),
        ("500 Internal Server Error", exception),
        ("200 OK", json),
        ("200 OK", version),
        ("200 OK", exception),
    ] {
        let (address, _) = server(vec![answer(status, text)]);
        let error = FleetStore::connect(address, &PasswordSource::File(path.clone())).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("key") && !said.contains("ame"), "{said}");
    }
}

#[test]
fn the_password_is_in_a_header_and_nowhere_else() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("password");
    std::fs::write(&path, "sesame\n").unwrap();
    let (address, served) = server(vec![version("18.16.1")]);
    let store = FleetStore::connect(address, &PasswordSource::File(path)).unwrap();
    assert!(!format!("{store:?}").contains("sesame"));
    let request = served.join().unwrap().concat();
    let with_password: Vec<&str> = request
        .lines()
        .filter(|line| line.contains("sesame"))
        .collect();
    assert_eq!(with_password.len(), 1, "{request}");
    assert!(
        with_password[0].eq_ignore_ascii_case("x-clickhouse-key: sesame"),
        "{request}"
    );
    assert!(
        request
            .to_ascii_lowercase()
            .contains("x-clickhouse-user: reader"),
        "{request}"
    );
}

#[test]
fn all_questions_have_only_known_parameters() {
    let parameters = filter()
        .parameters(5)
        .text("before", "1")
        .text("after", "2");
    for question in FleetQuery::ALL {
        let filled = parameters.fill(question.text()).unwrap();
        assert!(
            !filled.contains(['{', '}']),
            "{}: {filled}",
            question.name()
        );
        assert!(
            filled.contains("1970-01-01") && filled.contains('5'),
            "{}",
            question.name()
        );
    }
}
