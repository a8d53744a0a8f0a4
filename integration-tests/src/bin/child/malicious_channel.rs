//! A child that records correctly and sends false messages on its control channel.
//!
//! The beginning `liar` hides the channel from the profiler in this process, which records into its
//! pool and finds no parent. The commands here then determine what the parent receives, over the
//! transport that the parent has chosen.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use integration_tests::peer::{self, Peer};
use ipc_protocol::environment::{ChildEnvironment, Server, Token};
use ipc_protocol::limits::MAX_FRAME_BYTES;
use ipc_protocol::message::{
    GatherId, GatherOutcome, Hello, PROTOCOL_VERSION, Proportion, RequestId, ToChild, ToParent,
};
use ipc_protocol::transport::listener::Endpoint;
use ipc_protocol::transport::{ChildEnds, Receiver, Sender};
use profiler_core::ids::{ByteLimit, ProcessId, ProcessStart};
use profiler_core::internal::manager::update::{ManagerUpdate, Update};

use crate::{Words, begin, number};

/// Pause between the hello and the first false packet.
const BREATH: Duration = Duration::from_millis(1);

/// The channel, as far as it is open.
static CHANNEL: Mutex<Channel> = Mutex::new(Channel {
    given: None,
    ends: None,
    peer: None,
});

struct Channel {
    given: Option<ChildEnvironment>,
    /// The two ends, as a real child has them.
    ends: Option<ChildEnds>,
    /// The bare socket, for what no real child sends.
    peer: Option<Peer>,
}

/// Begins with a profiler that cannot connect, and keeps the channel for the commands.
pub(crate) fn liar() -> anyhow::Result<String> {
    let given = begin::given()?;
    let silent = ChildEnvironment {
        server: Server::Named("/nowhere".to_owned()),
        ..given.clone()
    };
    lock().given = Some(given);
    begin::set_variable(&silent.to_value());
    begin::init()
}

pub(crate) fn obey(name: &str, words: Words<'_>) -> Option<anyhow::Result<String>> {
    let done = match name {
        "hello" => say_hello(|_| {}),
        "hello-wrong-token" => Token::generate()
            .map_err(Into::into)
            .and_then(|token| say_hello(|hello| hello.token = token)),
        "hello-wrong-version" => say_hello(|hello| hello.version = PROTOCOL_VERSION + 1),
        "hello-as" => hello_as(words),
        "hello-again" => hello_again(),
        "close" => close(),
        "progress-for-ever" => progress_forever(),
        "unasked" => unasked(words),
        "updates-for-ever" => send_forever(&update()),
        "garbage" => raw(|peer| peer.say_frame(&[0xff, 0xee, 0xdd])),
        "oversize" => raw(|peer| peer.say_frame(&[7; MAX_FRAME_BYTES + 1])),
        "attach" => raw(|peer| {
            let frame = ipc_protocol::codec::encode(&done_with(1))?;
            (0..100).try_for_each(|_| peer.send(&frame, &[std::os::fd::AsFd::as_fd(&peer.socket)]))
        }),
        "fork-speaks" => fork(|peer| peer.say(&ToParent::ShutdownProfile { length: 0 })),
        "fork-holds" => return Some(fork_holds()),
        _ => return None,
    };
    Some(done.map(|()| "ok".to_owned()))
}

fn lock() -> MutexGuard<'static, Channel> {
    CHANNEL.lock().unwrap_or_else(PoisonError::into_inner)
}

const fn done_with(request: u64) -> ToParent {
    ToParent::Done {
        request: RequestId::new(request),
    }
}

fn update() -> ToParent {
    ToParent::ChunkManagerUpdate(ManagerUpdate::Changed(Update {
        allowance: ByteLimit::new(u64::MAX),
        unreleased_bytes: 0,
        released_bytes: 0,
        oldest_done: None,
        newly_released: Vec::new(),
        wanted_bytes: 1,
    }))
}

/// Connects as a real child does, with a changed hello.
fn say_hello(change: impl FnOnce(&mut Hello)) -> anyhow::Result<()> {
    let mut channel = lock();
    let given = channel.given.as_ref().context("no channel")?;
    let mut hello = peer::hello(&given.token);
    change(&mut hello);
    channel.ends = Some(Endpoint::open(&given.server)?.connect(hello)?);
    Ok(())
}

/// `hello-as PID START`: sends a hello with the number and start time of another process.
fn hello_as(words: Words<'_>) -> anyhow::Result<()> {
    let pid = u32::try_from(number(words, 0)?)?;
    let start = number(words, 1)?;
    say_hello(|hello| (hello.pid, hello.start) = (ProcessId::new(pid), ProcessStart::new(start)))
}

/// Closes the channel, including the inherited end.
fn close() -> anyhow::Result<()> {
    let mut channel = lock();
    (channel.ends, channel.peer) = (None, None);
    Ok(channel
        .given
        .take()
        .context("no channel")?
        .server
        .release()?)
}

fn hello_again() -> anyhow::Result<()> {
    let mut channel = lock();
    let token = channel.given.as_ref().context("no channel")?.token.clone();
    let ends = channel.ends.as_mut().context("no hello")?;
    Ok(ends.sender.send(&ToParent::Hello(peer::hello(&token)))?)
}

/// Reports progress whenever the parent asks for it, and never finishes the part.
fn progress_forever() -> anyhow::Result<()> {
    let ChildEnds { sender, receiver } = lock().ends.take().context("no hello")?;
    let answers = move || answer_with_progress(sender, receiver);
    std::thread::Builder::new()
        .name("liar".to_owned())
        .spawn(answers)?;
    Ok(())
}

fn answer_with_progress(mut sender: Sender<ToParent>, mut receiver: Receiver<ToChild>) {
    let mut steps = 0;
    while let Ok(message) = receiver.recv() {
        if let ToChild::GetGatherProfileProgress { id } = message {
            steps += 1;
            let proportion = Proportion::from_raw(steps);
            let progress = ToParent::GatherProgress {
                id,
                proportion,
                location: "soon".to_owned(),
            };
            let _ = sender.send(&progress); // the parent may have closed the channel
        }
    }
}

/// `unasked COUNT`: sends COUNT answers of every kind without a request.
fn unasked(words: Words<'_>) -> anyhow::Result<()> {
    let count = number(words, 0)?;
    let id = GatherId::new(77);
    let mut channel = lock();
    let sender = &mut channel.ends.as_mut().context("no hello")?.sender;
    for _ in 0..count {
        sender.send(&done_with(u64::MAX))?;
        sender.send(&update())?;
        sender.send(&ToParent::GatherProgress {
            id,
            proportion: Proportion::COMPLETE,
            location: "done".to_owned(),
        })?;
        sender.send(&ToParent::Profile {
            id,
            outcome: GatherOutcome::Failed("no".to_owned()),
        })?;
    }
    Ok(())
}

/// Sends without end and never reads. Returns when the parent closes the channel.
fn send_forever(message: &ToParent) -> anyhow::Result<()> {
    let mut channel = lock();
    let sender = &mut channel.ends.as_mut().context("no hello")?.sender;
    while sender.send(message).is_ok() {}
    Ok(())
}

/// Sends a valid hello through the bare socket, and then what `lie` sends. A failed send is not an
/// error.
fn raw(lie: impl FnOnce(&Peer) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut channel = lock();
    let given = channel.given.as_ref().context("no channel")?;
    let peer = Peer::open(&given.server)?;
    peer.say_hello(peer::hello(&given.token))?;
    std::thread::sleep(BREATH);
    let lied = lie(&peer);
    channel.peer = Some(peer);
    // The parent may close the channel between two packets.
    lied.or_else(|error| {
        if error.is::<rustix::io::Errno>() {
            Ok(())
        } else {
            Err(error)
        }
    })
}

/// Like [`raw`], but a fork of this process sends what `lie` sends.
fn fork(lie: impl FnOnce(&Peer) -> anyhow::Result<()>) -> anyhow::Result<()> {
    raw(|peer| {
        let pid = forked(|| drop(lie(peer)))?;
        let mut status = 0;
        // SAFETY: waits for the process forked above, and writes its status to a local.
        #[allow(unsafe_code)]
        unsafe {
            libc::waitpid(pid, &mut status, 0)
        };
        Ok(())
    })
}

/// Forks a process that keeps the channel open and lives on when this one ends. Answers its number.
fn fork_holds() -> anyhow::Result<String> {
    raw(|_| Ok(()))?;
    let pid = forked(|| {
        // SAFETY: has no arguments, and waits for a signal, which ends the forked process.
        #[allow(unsafe_code)]
        unsafe {
            libc::pause()
        };
    })?;
    Ok(format!("ok {pid}"))
}

fn forked(act: impl FnOnce()) -> anyhow::Result<i32> {
    // SAFETY: the forked process has one thread, which sends or waits and then ends. It may
    // allocate, because the C library keeps the allocator usable after a fork.
    #[allow(unsafe_code)]
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => bail!("cannot fork"),
        0 => {
            act();
            // SAFETY: ends the forked process.
            #[allow(unsafe_code)]
            unsafe {
                libc::_exit(0)
            }
        }
        pid => Ok(pid),
    }
}
