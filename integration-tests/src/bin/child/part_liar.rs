//! A child with a control loop of its own, which records as it should and lies when it is asked for
//! its part.
//!
//! `liar-KIND` as a beginning. Everything the parent says is answered in time; what stands in
//! the outbox, and what is said of its length, is one of the [`LIES`].

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use anyhow::Context;
use ipc_protocol::environment::{ChildEnvironment, VARIABLE};
use ipc_protocol::message::{
    GatherId, GatherOutcome, Hello, PROTOCOL_VERSION, Proportion, ToChild, ToParent,
};
use ipc_protocol::transport::ChildEnds;
use ipc_protocol::transport::listener::Endpoint;
use profiler_core::internal::profile::ProcessSummary;
use profiler_core::internal::sys::spawn_quiet;
use profiler_core::session::{self, StartOptions};

/// Writes something into the outbox, and says what length to announce.
type Lie = fn(&File) -> anyhow::Result<u64>;

const LIES: &[(&str, Lie)] = &[
    ("truth", |outbox| put(outbox, part("").as_bytes())),
    ("cut", |outbox| put(outbox, part("").trim_end_matches('}').as_bytes())),
    ("empty", |outbox| put(outbox, b"")),
    ("not-json", |outbox| put(outbox, b"this is not JSON")),
    ("wrong-shape", |outbox| put(outbox, br#"{"meta":{},"libs":{},"threads":[]}"#)),
    ("no-threads", |outbox| put(outbox, br#"{"meta":{},"libs":[]}"#)),
    ("array", |outbox| put(outbox, b"[]")),
    ("descendants", |outbox| put(outbox, part(r#","processes":[{}]"#).as_bytes())),
    ("nul", |outbox| put(outbox, part(",\"x\":\"a\0b\"").as_bytes())),
    ("surrogate", |outbox| put(outbox, part(r#","x":"\ud800""#).as_bytes())),
    ("1e308", |outbox| put(outbox, part(r#","x":1e308"#).as_bytes())),
    ("1e999", |outbox| put(outbox, part(r#","x":1e999"#).as_bytes())),
    ("deep", |outbox| put(outbox, part(&format!(r#","x":{}"#, "[".repeat(10_000))).as_bytes())),
    ("duplicate", |outbox| put(outbox, part(r#","meta":{}"#).as_bytes())),
    ("not-utf8", |outbox| put(outbox, &[part("").as_bytes(), b"\xff"].concat())),
    ("utf8-inside", |outbox| put(outbox, &bytes_inside(b"\xc3\x28"))),
    ("behind", |outbox| put(outbox, (part("") + &part("")).as_bytes())),
    ("short", |outbox| put(outbox, part("").as_bytes()).map(|length| length - 1)),
    ("beyond", |outbox| put(outbox, part("").as_bytes()).map(|length| length + 1)),
    ("endless", |outbox| put(outbox, part("").as_bytes()).map(|_| u64::MAX)),
    ("hidden", |outbox| put(outbox, (part("") + "garbage").as_bytes()).map(|length| length - 7)),
    ("huge", huge),
    ("long", |outbox| put(outbox, part(&format!(r#","x":"{}""#, "x".repeat(64 << 20))).as_bytes())),
    ("changing", changing),
    ("vanishing", vanishing),
    ("growing", growing),
];

/// `liar-KIND`: `None` if it is no beginning of this family.
pub(crate) fn begin(name: &str) -> Option<anyhow::Result<String>> {
    let kind = name.strip_prefix("liar-")?;
    let lie = LIES.iter().find(|(known, _)| *known == kind).map(|(_, lie)| *lie);
    Some(lie.context("no such lie").and_then(start))
}

fn start(lie: Lie) -> anyhow::Result<String> {
    let given = ChildEnvironment::parse(&std::env::var(VARIABLE).context("no parent")?)?;
    let (pool, outbox) = (given.pool.open()?, given.outbox.context("no outbox")?.open()?);
    let (key, params) = session::attach(pool)?;
    session::start(params.context("no parameters")?, StartOptions::default())?;
    let (version, name) = (PROTOCOL_VERSION, "a liar".to_owned());
    let hello = Hello { version, token: given.token.clone(), pid: key.pid, start: key.start, name };
    let ends = Endpoint::open(&given.server)?.connect(hello)?;
    spawn_quiet("liar", move || drop(obey(ends, &outbox, lie)))?;
    Ok("Recording".to_owned())
}

fn obey(mut ends: ChildEnds, outbox: &File, lie: Lie) -> anyhow::Result<()> {
    loop {
        let answer = match ends.receiver.recv()? {
            ToChild::GatherProfile { id, .. } => written(id, lie(outbox)?),
            ToChild::GetGatherProfileProgress { id } => {
                ToParent::GatherProgress { id, proportion: Proportion::ZERO, location: "lying".to_owned() }
            }
            ToChild::EnsureStarted { request, .. }
            | ToChild::Start { request, .. }
            | ToChild::Stop { request }
            | ToChild::Pause { request }
            | ToChild::Resume { request }
            | ToChild::PauseSampling { request }
            | ToChild::ResumeSampling { request }
            | ToChild::WaitOnePeriodicSampling { request }
            | ToChild::SetProbes { request, .. }
            | ToChild::Echo { request } => ToParent::Done { request },
            ToChild::AwaitNextChunkManagerUpdate { .. }
            | ToChild::DestroyReleasedChunksAtOrBefore { .. }
            | ToChild::CancelGather { .. } => continue,
        };
        ends.sender.send(&answer)?;
    }
}

fn written(id: GatherId, length: u64) -> ToParent {
    ToParent::Profile { id, outcome: GatherOutcome::Written { length, summary: ProcessSummary::default() } }
}

/// What passes every check, with more members if wanted.
fn part(more: &str) -> String {
    let pid = std::process::id();
    let thread =
        format!(r#"{{"name":"GeckoMain","tid":{pid},"pid":{pid},"stringTable":[],"markers":{{"data":[]}}}}"#);
    let log = format!(r#"{{"{pid}":{{"threads":[]}}}}"#);
    format!(r#"{{"meta":{{"product":"liar"}},"libs":[],"threads":[{thread}],"profilingLog":{log}{more}}}"#)
}

fn bytes_inside(bytes: &[u8]) -> Vec<u8> {
    let (front, back) = (part(r#","x":""#), b"\"}");
    [&front.as_bytes()[..front.len() - 1], bytes, back].concat()
}

fn put(mut outbox: &File, bytes: &[u8]) -> anyhow::Result<u64> {
    outbox.set_len(0)?;
    outbox.seek(SeekFrom::Start(0))?;
    outbox.write_all(bytes)?;
    Ok(bytes.len() as u64)
}

/// 1 GiB, of which only the beginning is there.
fn huge(outbox: &File) -> anyhow::Result<u64> {
    put(outbox, part("").trim_end_matches('}').as_bytes())?;
    outbox.set_len(1 << 30)?;
    Ok(1 << 30)
}

/// Something behind the parent's back, from now on for ever.
fn meanwhile(
    outbox: &File,
    act: impl Fn(&File) -> std::io::Result<()> + Send + 'static,
) -> anyhow::Result<()> {
    let outbox = outbox.try_clone()?;
    spawn_quiet("meanwhile", move || {
        while act(&outbox).is_ok() {
            std::thread::sleep(Duration::from_micros(50));
        }
    })?;
    Ok(())
}

/// A part that is well-formed at one moment and not at the next.
fn changing(outbox: &File) -> anyhow::Result<u64> {
    let text = part(&format!(r#","x":"{}""#, "x".repeat(4 << 20)));
    let length = put(outbox, text.as_bytes())?;
    meanwhile(outbox, move |outbox| {
        for at in (0..length).step_by(64 * 1024) {
            outbox.write_all_at(b"\"}]", at)?;
            outbox.write_all_at(b"xxx", at)?;
        }
        outbox.write_all_at(text.as_bytes().get(..1024).unwrap_or_default(), 0)
    })?;
    Ok(length)
}

/// A part that goes and comes.
fn vanishing(outbox: &File) -> anyhow::Result<u64> {
    let text = part(&format!(r#","x":"{}""#, "x".repeat(4 << 20)));
    let length = put(outbox, text.as_bytes())?;
    meanwhile(outbox, move |outbox| {
        outbox.set_len(0)?;
        outbox.write_all_at(text.as_bytes(), 0)
    })?;
    Ok(length)
}

/// A part without an end, of which there is always more; no more than a disk can bear.
fn growing(outbox: &File) -> anyhow::Result<u64> {
    const MOST: u64 = 512 << 20;
    let front = part(r#","x":""#);
    let front = &front.as_bytes()[..front.len() - 1];
    put(outbox, front)?;
    let (more, at) = (vec![b'x'; 1 << 20], std::cell::Cell::new(front.len() as u64));
    meanwhile(outbox, move |outbox| {
        if at.get() < MOST {
            outbox.write_all_at(&more, at.get())?;
            at.set(at.get() + more.len() as u64);
        }
        Ok(())
    })?;
    Ok(u64::MAX)
}
