//! Tests of who gets the metrics of a session, and in which format: from the server of the metrics,
//! from the live page and from the command.

use profiler_prometheus::MetricsServer;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::Context;
use integration_tests::assert_matches;
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::tools;
use profiler_prometheus::MetricsError;
use profiler_prometheus::MetricsToken;

use crate::live_support::{self, CHILD, LOOPBACK, start};
use crate::metrics_support::ask;

/// What Prometheus 2.42 accepts.
const ACCEPT: &str = "application/openmetrics-text;version=1.0.0,\
    application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[test]
fn only_a_client_with_the_token_gets_metrics() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let server = MetricsServer::start(&session, LOOPBACK.into())?;
    let token = server.token().reveal().to_owned();
    let bearer = format!("Bearer {token}");
    let with_token = [("Authorization", bearer.as_str())];
    let below = format!("/{token}/metrics");
    for (path, headers) in [("/metrics", &with_token[..]), (&below, &[])] {
        let answer = ask(&server, "GET", path, headers)?;
        assert_eq!(answer.status, 200, "{}", answer.head);
        for header in [PLAIN, "no-store", "nosniff"] {
            assert!(answer.head.contains(header), "{}", answer.head);
        }
        let text = String::from_utf8(answer.body)?;
        assert!(text.contains("\nprofiler_memory_limit_bytes "), "{text}");
        assert!(!text.contains(&token), "the text contains the token");
        assert_eq!(ask(&server, "HEAD", path, headers)?.body.len(), 0);
        assert_eq!(ask(&server, "POST", path, headers)?.status, 405);
    }
    let wrong = format!("Bearer {}", "0".repeat(32));
    for (path, headers) in [
        ("/metrics", &[][..]),
        ("/metrics", &[("Authorization", wrong.as_str())]),
        ("/metrics", &[("Authorization", token.as_str())]),
        ("/", &with_token),
        ("/live.json", &with_token),
        ("/metrics?token=1", &[]),
    ] {
        let answer = ask(&server, "GET", path, headers)?;
        assert_eq!(
            (answer.status, answer.body.len()),
            (404, 0),
            "{path} {headers:?}"
        );
    }
    let foreign = [("Host", "evil.example"), with_token[0]];
    let answer = live_support::ask_with(server.address(), "GET", "/metrics", &foreign)?;
    assert_eq!((answer.status, answer.body.len()), (403, 0));
    assert!(!format!("{server:?}").contains(&token));
    Ok(())
}

#[test]
fn a_scraper_gets_the_format_that_it_accepts() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let server = MetricsServer::start(&session, LOOPBACK.into())?;
    let path = format!("/{}/metrics", server.token().reveal());
    for (accept, content_type) in [(ACCEPT, OPEN), ("text/plain", PLAIN), ("*/*", PLAIN)] {
        let answer = ask(&server, "GET", &path, &[("Accept", accept)])?;
        assert!(
            answer.head.contains(content_type),
            "{accept}: {}",
            answer.head
        );
        let text = String::from_utf8(answer.body)?;
        assert_eq!(text.ends_with("\n# EOF\n"), content_type == OPEN, "{text}");
    }
    Ok(())
}

#[test]
fn the_server_listens_on_loopback_alone_and_ends_with_the_session() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let refused = MetricsServer::start(&session, ([0, 0, 0, 0], 0).into());
    assert_matches!(refused, Err(MetricsError::NotLoopback(_)));
    let server = MetricsServer::start(&session, LOOPBACK.into())?;
    let address = server.address();
    let taken = MetricsServer::start(&session, address);
    assert_matches!(taken, Err(MetricsError::Listen { .. }));
    drop(session);
    assert!(
        until(|| TcpStream::connect(address).is_err()),
        "it outlives its session"
    );
    drop(server);
    Ok(())
}

#[test]
fn l1_the_live_page_has_the_metrics_for_clients_with_its_token() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let (live, page) = live_support::serve(&session)?;
    let host = live.address().to_string();
    let token = page.path.trim_matches('/').to_owned();
    let bearer = format!("Bearer {token}");
    let get = |path: &str, headers: &[(&str, &str)]| {
        let headers = [&[("Host", host.as_str())][..], headers].concat();
        live_support::ask_with(live.address(), "GET", path, &headers)
    };
    let with_token = [("Authorization", bearer.as_str())];
    for answer in [page.ask("GET", "metrics")?, get("/metrics", &with_token)?] {
        assert_eq!(answer.status, 200, "{}", answer.head);
        assert!(answer.head.contains(PLAIN) && answer.head.contains("default-src 'none'"));
        let text = String::from_utf8(answer.body)?;
        assert!(text.contains(r#"profiler_processes{process="parent",state="recording"} 1"#));
    }
    for (path, headers) in [("/metrics", &[][..]), ("/live.json", &with_token)] {
        let answer = get(path, headers)?;
        assert_eq!((answer.status, answer.body.len()), (404, 0), "{path}");
    }
    Ok(())
}

#[test]
fn the_command_serves_metrics_with_the_token_of_a_file_and_does_not_print_it() -> anyhow::Result<()>
{
    own_process!();
    let directory = tempfile::tempdir()?;
    let mut command = Command::new(tools::profiler()?);
    command.args(["record", "-o", "out.json.gz", "--metrics", "0"]);
    command.args(["--metrics-token", "token", "--", CHILD, "init"]);
    command.current_dir(directory.path()).process_group(0);
    command.env("XDG_CACHE_HOME", tools::cache()?);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut command = command.spawn()?;
    let mut errors = BufReader::new(command.stderr.take().context("no pipe")?);
    let mut said = String::new();
    errors.read_line(&mut said)?;
    let rest = said
        .strip_prefix("profiler: metrics at http://")
        .with_context(|| said.clone())?;
    let address: SocketAddr = rest.split('/').next().context("no address")?.parse()?;
    let token = MetricsToken::of_file(directory.path().join("token"))?;
    let bearer = format!("Bearer {}", token.reveal());
    let host = format!("{address}");
    let headers = [("Host", host.as_str()), ("Authorization", bearer.as_str())];
    let answer = live_support::ask_with(address, "GET", "/metrics", &headers)?;
    assert_eq!(answer.status, 200, "{}", answer.head);
    let mut input = command.stdin.take().context("no pipe")?;
    writeln!(input, "mark 5")?;
    drop(input); // the helper ends
    errors.read_to_string(&mut said)?;
    assert!(command.wait()?.success(), "{said}");
    assert!(
        !said.contains(token.reveal()),
        "the token is printed: {said}"
    );
    assert!(fs::exists(directory.path().join("out.json.gz"))?);
    Ok(())
}
