//! Beginnings and commands of processes that join a session by themselves.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, bail, ensure};
use integration_tests::marks::record_paced;
use integration_tests::own::thread_names;
use integration_tests::patience::{LONG, until};
use ipc_protocol::environment::session_address;
use ipc_protocol::message::JoinRequest;
use ipc_protocol::transport::joining;
use profiler_core::ids::ProcessId;
use profiler_core::internal::sys::own_process_start;
use profiler_core::session;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::begin::init;
use crate::end::quit;
use crate::forks::{fork, wait_for};
use crate::{Words, say, stay_forever};

/// Markers that `mark-and-exit` and the children of `zygote` record.
const MARKERS: u64 = 100;

/// `join`: begins like `init`.
/// `mark-and-exit`: joins, records, prints its status and exits. `zygote COUNT`: forks COUNT
/// processes that do this, before this process has called the profiler, and waits for them.
/// `listen PATH`: listens at PATH like a session, and answers nothing. `leave [COUNT]`: asks for
/// memory, and closes the connection when it has the memory, without using it; COUNT times.
pub(crate) fn begin(name: &str) -> Option<anyhow::Result<String>> {
    Some(match name {
        "join" => init(),
        "mark-and-exit" => mark_and_exit(),
        "zygote" => zygote(),
        "listen" => listen(),
        "leave" => leave(),
        _ => return None,
    })
}

/// `is-recording`: whether the process records. `await-recording` waits until it does,
/// `await-alone` until the process has no thread of the profiler. `leave`: ends the profiler.
pub(crate) fn obey(name: &str, words: Words<'_>) -> Option<anyhow::Result<String>> {
    match name {
        "exec" => Some(exec(words)),
        "is-recording" => Some(Ok(session::is_active().to_string())),
        "await-recording" => Some(wait("it does not record", session::is_active)),
        "await-alone" => Some(wait("a thread of the profiler is left", is_alone)),
        "leave" => {
            profiler_child::leave(LONG);
            Some(Ok("left".to_owned()))
        }
        _ => None,
    }
}

fn wait(otherwise: &'static str, until_then: fn() -> bool) -> anyhow::Result<String> {
    ensure!(until(until_then), otherwise);
    Ok("yes".to_owned())
}

/// Whether the process has one thread.
fn is_alone() -> bool {
    thread_names().len() == 1
}

/// `exec BEGINNING`: executes this program again, in the same process.
fn exec(words: Words<'_>) -> anyhow::Result<String> {
    let beginning = words.first().context("how to begin?")?;
    let error = Command::new(std::env::current_exe()?).arg(beginning).exec();
    bail!("cannot execute: {error}")
}

fn mark_and_exit() -> anyhow::Result<String> {
    let status = init()?;
    record_paced(1000, 0..MARKERS);
    say(&status)?;
    std::process::exit(i32::from(status != "Recording"))
}

fn zygote() -> anyhow::Result<String> {
    let count = std::env::args().nth(2).context("how many?")?.parse()?;
    let child = || {
        let _ = mark_and_exit(); // returns only an error
        quit(1);
    };
    let pids: Vec<libc::pid_t> = (0..count)
        .map(|_: u32| fork(child))
        .collect::<anyhow::Result<_>>()?;
    let good = pids.into_iter().filter(|pid| wait_for(*pid) == 0).count();
    Ok(format!("forked {good}"))
}

fn leave() -> anyhow::Result<String> {
    let address = session_address()?.context("no session")?;
    let request = JoinRequest {
        token: address.token().clone(),
        name: "leaves".to_owned(),
        start: own_process_start(),
        parent: ProcessId::new(0),
        patience_ms: u32::try_from(LONG.as_millis())?,
    };
    let count = std::env::args()
        .nth(2)
        .map_or(Ok(1), |count| count.parse())?;
    for _ in 0..count {
        drop(joining::join(&address, &request, LONG)?);
    }
    Ok("left".to_owned())
}

fn listen() -> anyhow::Result<String> {
    let path = std::env::args().nth(2).context("where?")?;
    let kind = SocketType::SEQPACKET;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(&path)?)?;
    rustix::net::listen(&socket, 64)?;
    let user = rustix::process::geteuid().as_raw();
    say(&format!("listening as {user}"))?;
    stay_forever()
}
