//! Tests of TLS with a server of Python and certificates of OpenSSL, which this machine must have.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use super::attempts::Answer;
use super::destination::PushDestination;
use super::http_client::{HttpClient, PushRequest};

/// The environment variable with the address that [`the_client`] sends to.
const ADDRESS: &str = "PROFILER_TLS_TEST_ADDRESS";
/// The environment variable with the certificates that a process trusts.
const TRUSTED: &str = "SSL_CERT_FILE";

/// Answers requests with whether their token is the right one, and prints its port. A client does
/// not show its token, even if an endpoint repeats it.
const SERVER: &str = r#"
import http.server, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        is_right = self.headers["authorization"] == "Bearer hunter2"
        text = b"the right token" if is_right else b"another token"
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
"#;

/// A server, which ends with the test.
struct TlsServer {
    process: Child,
    port: u16,
    _output: BufReader<ChildStdout>,
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Makes a certificate for this name, and its key.
fn certificate(directory: &Path, name: &str) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=test"])
        .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-addext", &format!("subjectAltName={name}")])
        .arg("-keyout")
        .arg(directory.join("key"))
        .arg("-out")
        .arg(directory.join("certificate"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{said}");
}

fn server(directory: &Path) -> TlsServer {
    let mut process = Command::new("python3")
        .args(["-c", SERVER])
        .arg(directory.join("certificate"))
        .arg(directory.join("key"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut port = String::new();
    output.read_line(&mut port).unwrap();
    TlsServer {
        process,
        port: port.trim().parse().unwrap(),
        _output: output,
    }
}

/// Sends a request in a process that trusts this certificate, as far as `trusts` says.
fn answer_in_a_process(server: &TlsServer, directory: &Path, trusts: bool) -> String {
    let trusted = if trusts { "certificate" } else { "key" };
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "tls_tests::the_client",
            "--ignored",
            "--nocapture",
        ])
        .env(ADDRESS, format!("otlp+https://127.0.0.1:{}", server.port))
        .env(TRUSTED, directory.join(trusted))
        .env_remove("SSL_CERT_DIR")
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The process of [`answer_in_a_process`].
#[test]
#[ignore = "a part of the other tests"]
fn the_client() {
    let Ok(address) = std::env::var(ADDRESS) else {
        return;
    };
    let destination = PushDestination::parse(&address).unwrap();
    let request = PushRequest {
        url: format!("{}/v1/traces", destination.base),
        content_type: "text/plain",
        headers: vec![("authorization", "Bearer hunter2".to_owned())],
        secrets: profiler_fleet::RequestSecrets::default(),
    };
    let client = HttpClient::new(Duration::from_secs(60));
    match client.send(&request, b"body", Duration::MAX).answer {
        Answer::Status { status, text, .. } => println!("status {status}: {text}"),
        Answer::Missing(why) | Answer::NoRequest(why) => println!("no answer: {why}"),
    }
}

#[test]
fn a_body_and_a_token_reach_a_server_whose_certificate_the_machine_trusts() {
    let directory = tempfile::tempdir().unwrap();
    certificate(directory.path(), "IP:127.0.0.1");
    let server = server(directory.path());
    let said = answer_in_a_process(&server, directory.path(), true);
    assert!(said.contains("status 200: the right token"), "{said}");
}

#[test]
fn nothing_is_sent_to_a_server_that_is_not_trusted_or_has_another_name() {
    for (name, trusts) in [("IP:127.0.0.1", false), ("DNS:example.org", true)] {
        let directory = tempfile::tempdir().unwrap();
        certificate(directory.path(), name);
        let server = server(directory.path());
        let said = answer_in_a_process(&server, directory.path(), trusts);
        assert!(said.contains("no answer: "), "{said}");
        assert!(!said.contains("status "), "{said}");
    }
}
