//! The ways in which the helper begins: with a profiler in order, with none, or with one that gets
//! wrong data.

use std::os::unix::fs::FileExt;

use anyhow::{Context, bail};
use integration_tests::patience::LONG;
use ipc_protocol::environment::{
    ChildEnvironment, InheritedHandle, SESSION_VARIABLE, Token, VARIABLE,
};
use ipc_protocol::message::{Hello, PROTOCOL_VERSION};
use ipc_protocol::transport::listener::Endpoint;
use profiler_core::ids::{ProcessId, ProcessStart};

/// Begins in some way, and returns the first line of output.
type Beginning = fn() -> anyhow::Result<String>;

/// All ways to begin, by name.
pub(crate) const BEGINNINGS: &[(&str, Beginning)] = &[
    ("init", init),
    ("init-briefly", || Ok(line_of(profiler_child::init()))),
    ("no-init", || Ok("not asked".to_owned())),
    ("init-and-scribble", init_and_scribble),
    ("die-first", || crate::end::kill()),
    ("die-in-init", die_in_init),
    ("wrong-token", wrong_token),
    ("wrong-version", wrong_version),
    ("malformed", malformed),
    ("wrong-hello", wrong_hello),
    ("variable-gone", variable_gone),
    ("liar", crate::malicious_channel::liar),
];

pub(crate) fn begin(name: &str) -> anyhow::Result<String> {
    let found = BEGINNINGS.iter().find(|(known, _)| *known == name);
    found
        .with_context(|| format!("unknown beginning {name}"))?
        .1()
}

/// Like `profiler_child::init()`, but waits for the session for as long as a slow machine needs.
/// `init-briefly` waits no longer than `init()`.
pub(crate) fn init() -> anyhow::Result<String> {
    Ok(line_of(profiler_child::init_within(LONG)))
}

/// The first line of output for this status.
pub(crate) fn line_of(status: profiler_child::Status) -> String {
    match status {
        profiler_child::Status::Off(error) => format!("off: {error}"),
        status => format!("{status:?}"),
    }
}

/// Dies while the control thread connects.
fn die_in_init() -> anyhow::Result<String> {
    profiler_child::init();
    integration_tests::marks::record(0, 0);
    crate::end::kill()
}

/// Records, and then overwrites the header of its own pool.
fn init_and_scribble() -> anyhow::Result<String> {
    let InheritedHandle::Descriptor { number, .. } = given()?.pool else {
        bail!("no descriptor")
    };
    let pool = std::fs::File::options()
        .write(true)
        .open(format!("/proc/self/fd/{number}"))?;
    let status = init()?;
    integration_tests::marks::record(0, 0);
    pool.write_all_at(&[0xff; 4096], 0)?;
    Ok(status)
}

fn wrong_token() -> anyhow::Result<String> {
    let mut given = given()?;
    given.token = Token::generate()?;
    set_variable(&given.to_value());
    init()
}

fn wrong_version() -> anyhow::Result<String> {
    let value = given()?.to_value();
    let (_, rest) = value.split_once(';').context("no version")?;
    set_variable(&format!("{};{rest}", PROTOCOL_VERSION + 1));
    init()
}

fn malformed() -> anyhow::Result<String> {
    set_variable(&format!("{PROTOCOL_VERSION};nonsense"));
    init()
}

/// Sends a hello with another version than the environment variable.
fn wrong_hello() -> anyhow::Result<String> {
    let given = given()?;
    let hello = Hello {
        version: PROTOCOL_VERSION + 1,
        token: given.token.clone(),
        pid: ProcessId::new(std::process::id()),
        start: ProcessStart::new(0),
        name: "of another version".to_owned(),
    };
    let mut ends = Endpoint::open(&given.server)?.connect(hello)?;
    match ends.receiver.recv() {
        Ok(message) => bail!("welcomed with {message:?}"),
        Err(error) => Ok(format!("refused: {error}")),
    }
}

/// Begins like a child whose environment was cleared before it started.
fn variable_gone() -> anyhow::Result<String> {
    for variable in [VARIABLE, SESSION_VARIABLE] {
        // SAFETY: the process has one thread, so no other thread reads the environment meanwhile.
        #[allow(unsafe_code, clippy::disallowed_methods)]
        unsafe {
            std::env::remove_var(variable);
        }
    }
    init()
}

/// Returns what the parent passed in the environment variable.
pub(crate) fn given() -> anyhow::Result<ChildEnvironment> {
    Ok(ChildEnvironment::parse(
        &std::env::var(VARIABLE).context("no parent")?,
    )?)
}

pub(crate) fn set_variable(value: &str) {
    // SAFETY: the process has one thread, so no other thread reads the environment meanwhile.
    #[allow(unsafe_code, clippy::disallowed_methods)]
    unsafe {
        std::env::set_var(VARIABLE, value);
    }
}
