//! Tests of `profiler view` over a socket, as a browser uses it from a page of another origin.
//!
//! The command serves the checked file and symbols below a secret path, refuses requests without
//! the token, opens a browser only if there is a display, and refuses files that are no profiles.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, ensure};
use integration_tests::http::{Answer, exchange};
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::tools;
use profiler_view::VIEWER;
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

const PROFILE: &str =
    r#"{"meta":{"version":31,"interval":1},"libs":[],"threads":[],"processes":[]}"#;

/// The running command. Killed when dropped.
pub(crate) struct View {
    command: Child,
    /// The first line that it printed.
    link: String,
    /// `127.0.0.1:PORT`.
    address: String,
    pub(crate) token: String,
}

impl View {
    /// Starts the command for `file`, after `change` has changed its options or environment.
    pub(crate) fn start(file: &Path, change: impl FnOnce(&mut Command)) -> anyhow::Result<Self> {
        Self::start_by(Command::new(tools::profiler()?), file, change)
    }

    fn start_by(
        mut command: Command,
        file: &Path,
        change: impl FnOnce(&mut Command),
    ) -> anyhow::Result<Self> {
        command
            .arg("view")
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        command
            .env_remove("PROFILER_URL")
            .env_remove("DISPLAY")
            .env_remove("WAYLAND_DISPLAY");
        change(&mut command);
        let mut command = tools::with_default_signals(&mut command).spawn()?;
        let mut link = String::new();
        BufReader::new(command.stdout.take().context("no pipe")?).read_line(&mut link)?;
        let link = link.trim_end().to_owned();
        let base = link
            .split_once("?symbolServer=")
            .context("no symbol server")?
            .1;
        let base = base.replace("%3A", ":").replace("%2F", "/");
        let (address, token) = base
            .strip_prefix("http://")
            .and_then(|base| base.split_once('/'))
            .context("no address")?;
        Ok(Self {
            command,
            address: address.to_owned(),
            token: token.to_owned(),
            link,
        })
    }

    /// Starts the command without a browser.
    fn quiet(file: &Path) -> anyhow::Result<Self> {
        Self::start(file, |command| _ = command.arg("--no-open"))
    }

    /// Sends a request unchanged, except that `TOKEN` and `HOST` are replaced.
    pub(crate) fn send(&self, request: &str) -> anyhow::Result<Answer> {
        let request = request
            .replace("TOKEN", &self.token)
            .replace("HOST", &self.address);
        Answer::parse(exchange(&self.address, request.as_bytes())?)
    }

    /// Sends a request with this first line, from a page of another origin.
    pub(crate) fn ask(&self, line: &str) -> anyhow::Result<Answer> {
        self.send(&format!(
            "{line} HTTP/1.1\r\nHost: HOST\r\nOrigin: https://profiler.example\r\n\r\n"
        ))
    }

    fn stop(mut self, signal: Signal) -> anyhow::Result<ExitStatus> {
        let pid = Pid::from_raw(self.command.id().cast_signed()).context("no process")?;
        rustix::process::kill_process(pid, signal)?;
        Ok(self.command.wait()?)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = (self.command.kill(), self.command.wait());
    }
}

/// A directory for the files of a test.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            directory: tempfile::tempdir()?,
        })
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> anyhow::Result<PathBuf> {
        let path = self.directory.path().join(name);
        fs::write(&path, content)?;
        Ok(path)
    }
}

/// A compressed profile, as a session writes it.
fn compressed(place: &Place) -> anyhow::Result<PathBuf> {
    let path = place.directory.path().join("profile.json.gz");
    let mut file = profiler_files::output::ProfileFile::create(&path)?;
    file.write_all(PROFILE.as_bytes())?;
    file.commit()?;
    Ok(path)
}

#[test]
fn the_link_leads_a_viewer_to_the_file_and_the_symbols() -> anyhow::Result<()> {
    own_process!();
    let place = Place::new()?;
    let file = place.file("profile.json", PROFILE)?;
    let view = View::quiet(&file)?;
    let base = format!(
        "http%3A%2F%2F{}%2F{}",
        view.address.replace(':', "%3A"),
        view.token
    );
    let profile = format!("https://profiler.firefox.com/from-url/{base}%2Fprofile.json/");
    assert_eq!(view.link, format!("{profile}?symbolServer={base}"));
    assert!(view.address.starts_with("127.0.0.1:"), "loopback only");
    assert!(view.token.len() >= 32 && view.token.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let other = View::quiet(&file)?;
    assert_ne!(view.token, other.token);
    let answer = view.ask("GET /TOKEN/profile.json")?;
    assert_eq!(
        (answer.status, answer.body.as_slice()),
        (200, PROFILE.as_bytes())
    );
    assert_eq!(answer.header("access-control-allow-origin"), Some(VIEWER));
    assert_eq!(answer.header("content-encoding"), None);
    let question =
        json!({"jobs": [{"memoryMap": [["liba.so", "AB0"]], "stacks": [[[0, 4660]]]}]}).to_string();
    let answer = view.send(&format!(
        "POST /TOKEN/symbolicate/v5 HTTP/1.1\r\nHost: HOST\r\nContent-Length: {}\r\n\r\n{question}",
        question.len()
    ))?;
    assert_eq!(
        (answer.status, answer.header("access-control-allow-origin")),
        (200, Some(VIEWER))
    );
    let result = &serde_json::from_slice::<Value>(&answer.body)?["results"][0];
    assert_eq!(result["stacks"][0][0]["module_offset"], "0x1234");
    assert!(
        result["found_modules"]["liba.so/AB0"].is_boolean(),
        "{result}"
    );
    Ok(())
}

#[test]
fn a_compressed_file_is_served_with_its_encoding_under_any_name() -> anyhow::Result<()> {
    own_process!();
    let place = Place::new()?;
    let bytes = fs::read(compressed(&place)?)?;
    let disguised = place.file("profile.json", &bytes)?;
    let misnamed = place.file("plain.json.gz", PROFILE)?;
    for (path, encoding, content) in [
        (disguised, Some("gzip"), bytes.as_slice()),
        (misnamed, None, PROFILE.as_bytes()),
    ] {
        let view = View::quiet(&path)?;
        let answer = view.ask("GET /TOKEN/profile.json")?;
        assert_eq!(
            (answer.header("content-encoding"), answer.body.as_slice()),
            (encoding, content)
        );
        let head = view.ask("HEAD /TOKEN/profile.json")?;
        assert_eq!((&head.head, head.body.len()), (&answer.head, 0));
        assert_eq!(
            head.header("content-length"),
            Some(content.len().to_string().as_str())
        );
    }
    Ok(())
}

#[test]
fn a_page_with_the_token_may_ask_and_other_clients_learn_nothing() -> anyhow::Result<()> {
    own_process!();
    let place = Place::new()?;
    let view = View::quiet(&place.file("profile.json", PROFILE)?)?;
    let preflight = view.send(
        "OPTIONS /TOKEN/symbolicate/v5 HTTP/1.1\r\nHost: HOST\r\nOrigin: https://profiler.example\r\n\
         Access-Control-Request-Method: POST\r\nAccess-Control-Request-Private-Network: true\r\n\r\n",
    )?;
    assert_eq!(preflight.status, 204);
    assert_eq!(
        preflight.header("access-control-allow-private-network"),
        Some("true")
    );
    assert!(
        preflight
            .header("access-control-allow-methods")
            .is_some_and(|methods| methods.contains("POST"))
    );
    let wrong = "0".repeat(view.token.len());
    for path in [
        "/",
        "/profile.json",
        &format!("/{wrong}/profile.json"),
        "/TOKEN/",
        "/TOKEN/other",
    ] {
        let answer = view.ask(&format!("GET {path}"))?;
        assert_eq!((answer.status, answer.body.len()), (404, 0), "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), None, "{path}");
    }
    let rebound = view.send("GET /TOKEN/profile.json HTTP/1.1\r\nHost: evil.example\r\n\r\n")?;
    assert_eq!((rebound.status, rebound.body.len()), (403, 0));
    assert_eq!(view.ask("DELETE /TOKEN/profile.json")?.status, 405);
    assert_eq!(view.send("nonsense\r\n\r\n")?.status, 400);
    let long = format!(
        "GET /{} HTTP/1.1\r\nHost: HOST\r\n\r\n",
        "x".repeat(100_000)
    );
    assert!(view.send(&long).map_or(431, |answer| answer.status) == 431);
    let large =
        "POST /TOKEN/symbolicate/v5 HTTP/1.1\r\nHost: HOST\r\nContent-Length: 999999999999\r\n\r\n";
    assert_eq!(view.send(large)?.status, 413);
    Ok(())
}

#[test]
fn silent_clients_do_not_block_other_clients() -> anyhow::Result<()> {
    own_process!();
    let place = Place::new()?;
    let view = View::quiet(&place.file("profile.json", PROFILE)?)?;
    let mut silent: Vec<TcpStream> = (0..20)
        .map(|_| TcpStream::connect(&view.address))
        .collect::<std::io::Result<_>>()?;
    for stream in &mut silent {
        stream.write_all(b"GET /")?;
    }
    assert_eq!(view.ask("GET /TOKEN/profile.json")?.status, 200);
    // More connections without the token than the server holds. Clients with the token are still
    // served.
    let more: Vec<TcpStream> = (0..60)
        .map(|_| TcpStream::connect(&view.address))
        .collect::<std::io::Result<_>>()?;
    assert!(until(|| view
        .ask("GET /TOKEN/profile.json")
        .is_ok_and(|answer| answer.status == 200)));
    drop((silent, more));
    Ok(())
}

#[test]
fn the_checked_file_is_served_although_its_path_was_replaced() -> anyhow::Result<()> {
    own_process!();
    let place = Place::new()?;
    let file = place.file("profile.json", PROFILE)?;
    let view = View::quiet(&file)?;
    fs::rename(place.file("other.json", "something else")?, &file)?;
    assert_eq!(
        view.ask("GET /TOKEN/profile.json")?.body,
        PROFILE.as_bytes()
    );
    Ok(())
}

#[test]
fn the_browser_is_opened_only_if_there_is_a_display() -> anyhow::Result<()> {
    own_process!();
    let place = Place::new()?;
    let file = place.file("profile.json", PROFILE)?;
    let opener = place.file(
        "xdg-open",
        "#!/bin/sh\nprintf %s \"$1\" > \"$OPENED.part\"\nmv \"$OPENED.part\" \"$OPENED\"\n",
    )?;
    fs::set_permissions(&opener, PermissionsExt::from_mode(0o755))?;
    let path = format!("{}:/usr/bin:/bin", place.directory.path().display());
    let cases = [
        (Some(":9"), None, true),
        (None, None, false),
        (Some(":9"), Some("--no-open"), false),
    ];
    for (number, (screen, option, opens)) in cases.into_iter().enumerate() {
        let opened = place.directory.path().join(format!("opened-{number}"));
        let mut held = Held::new(place.directory.path().join(format!("held-{number}")))?;
        let view = View::start_by(held.command()?, &file, |command| {
            command
                .env("PATH", &path)
                .env("OPENED", &opened)
                .args(option);
            if let Some(screen) = screen {
                command.env("DISPLAY", screen);
            }
        })?;
        assert_eq!(view.ask("GET /TOKEN/profile.json")?.status, 200);
        let page = if opens {
            ensure!(until(|| opened.exists()), "no browser was opened");
            Some(redirect_page(&view, &fs::read_to_string(&opened)?)?)
        } else {
            None
        };
        view.stop(Signal::INT)?;
        // The command has ended, so no further browser can start. A browser that it started may
        // still run.
        ensure!(held.is_released(), "the browser does not end");
        assert_eq!(opened.exists(), opens, "{screen:?} {option:?}");
        if let Some(page) = page {
            assert!(!page.exists() && !page.parent().context("no directory")?.exists());
        }
    }
    Ok(())
}

/// Checks the argument with which the browser was opened: only this user can read the link in it.
fn redirect_page(view: &View, argument: &str) -> anyhow::Result<PathBuf> {
    assert!(!argument.contains(&view.token), "{argument}");
    let page = PathBuf::from(argument);
    let text = fs::read_to_string(&page)?;
    let refresh = format!(
        r#"<meta http-equiv="refresh" content="0; url={}">"#,
        view.link
    );
    assert!(text.contains(&refresh), "{text}");
    let mode = |path: &Path| anyhow::Ok(fs::metadata(path)?.permissions().mode() & 0o777);
    let directory = page.parent().context("no directory")?;
    assert_eq!((mode(&page)?, mode(directory)?), (0o600, 0o700));
    Ok(page)
}

/// A pipe that a command and all processes started by it hold open.
struct Held {
    path: PathBuf,
    reader: fs::File,
}

impl Held {
    fn new(path: PathBuf) -> anyhow::Result<Self> {
        integration_tests::pairs::make_pipe(&path)?;
        let mut options = fs::File::options();
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
        Ok(Self {
            reader: options.read(true).open(&path)?,
            path,
        })
    }

    /// The command `profiler`, with the pipe as descriptor 3.
    fn command(&self) -> anyhow::Result<Command> {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", "exec 3>\"$0\"; exec \"$@\""])
            .arg(&self.path)
            .arg(tools::profiler()?);
        Ok(command)
    }

    /// Waits until no process holds the pipe.
    fn is_released(&mut self) -> bool {
        until(|| self.reader.read(&mut [0]).is_ok_and(|read| read == 0))
    }
}

#[test]
fn ctrl_c_and_sigterm_end_the_command_with_exit_code_0() -> anyhow::Result<()> {
    own_process!();
    let place = Place::new()?;
    let file = place.file("profile.json", PROFILE)?;
    for signal in [Signal::INT, Signal::TERM] {
        let view = View::quiet(&file)?;
        let address = view.address.clone();
        assert_eq!(view.stop(signal)?.code(), Some(0));
        assert!(
            TcpStream::connect(address).is_err(),
            "the port still accepts connections"
        );
    }
    Ok(())
}

#[test]
fn the_environment_can_name_another_viewer() -> anyhow::Result<()> {
    own_process!();
    let place = Place::new()?;
    let file = place.file("profile.json", PROFILE)?;
    let view = View::start(&file, |command| {
        command
            .arg("--no-open")
            .env("PROFILER_URL", "http://localhost:4242/");
    })?;
    assert!(
        view.link
            .starts_with("http://localhost:4242/from-url/http%3A%2F%2F127.0.0.1"),
        "{}",
        view.link
    );
    let answer = view.ask("GET /TOKEN/profile.json")?;
    assert_eq!(
        answer.header("access-control-allow-origin"),
        Some("http://localhost:4242")
    );
    let wrong = Command::new(tools::profiler()?)
        .arg("view")
        .arg(&file)
        .env("PROFILER_URL", "nowhere")
        .output()?;
    assert_eq!(
        (
            wrong.status.code(),
            String::from_utf8(wrong.stderr)?.lines().count()
        ),
        (Some(2), 1)
    );
    Ok(())
}

/// The output of the command for a file that it refuses.
fn refused(file: &Path, options: &[&str]) -> anyhow::Result<tools::Said> {
    let mut command = Command::new(tools::profiler()?);
    command.arg("view").arg("--no-open").args(options).arg(file);
    let mut command = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let ended = until(|| command.try_wait().is_ok_and(|status| status.is_some()));
    if !ended {
        command.kill()?;
    }
    let output = command.wait_with_output()?;
    ensure!(ended, "{} is served", file.display());
    let out = String::from_utf8(output.stdout)?;
    let error = String::from_utf8(output.stderr)?;
    Ok(tools::Said {
        code: output.status.code(),
        out,
        error,
    })
}

#[test]
fn a_file_that_is_no_profile_is_refused_with_one_line() -> anyhow::Result<()> {
    own_process!();
    let place = Place::new()?;
    let mut cut = fs::read(compressed(&place)?)?;
    cut.truncate(cut.len() - 10);
    let files = [
        place.directory.path().to_owned(),
        place.directory.path().join("missing.json"),
        place.file("empty.json", "")?,
        place.file("text.json", "hello")?,
        place.file("page.json", "<!doctype html>")?,
        place.file("other.json", r#"{"traceEvents":[]}"#)?,
        place.file("list.json", "[1,2]")?,
        place.file("cut.json", &PROFILE[..PROFILE.len() - 5])?,
        place.file("cut.json.gz", &cut)?,
        place.file("bytes.json.gz", [0x1f, 0x8b, 0xff, 0xff, 0xff])?,
        PathBuf::from("/dev/null"),
        {
            let pipe = place.directory.path().join("pipe");
            integration_tests::pairs::make_pipe(&pipe)?;
            pipe
        },
    ];
    for file in &files {
        let said = refused(file, &[])?;
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{said:?}");
        assert_eq!(said.error.lines().count(), 1, "{said:?}");
        ensure!(said.error.contains(&*file.to_string_lossy()), "{said:?}");
    }
    let file = place.file("profile.json", PROFILE)?;
    let taken = View::quiet(&file)?;
    let port = taken.address.split_once(':').context("no port")?.1;
    let said = refused(&file, &["--port", port])?;
    assert_eq!(
        (said.code, said.error.lines().count()),
        (Some(2), 1),
        "{said:?}"
    );
    Ok(())
}
