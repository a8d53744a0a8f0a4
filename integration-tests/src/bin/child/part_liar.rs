//! A child with its own control loop, which records correctly and sends a false part when the
//! parent asks for it.
//!
//! `liar-KIND` is a beginning. The child answers everything that the parent sends in time. What it
//! writes into the part file, and the length that it announces, is one of the [`LIES`].

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
use profiler_core::session::{self, StartOptions};
use profiler_gecko::ProcessSummary;
use profiler_sys::spawn_quiet;

/// Writes data into the part file, and returns the length to announce.
type Lie = fn(&File) -> anyhow::Result<u64>;

const LIES: &[(&str, Lie)] = &[
    ("truth", |part_file| put(part_file, part("").as_bytes())),
    ("cut", |part_file| {
        put(part_file, part("").trim_end_matches('}').as_bytes())
    }),
    ("empty", |part_file| put(part_file, b"")),
    ("not-json", |part_file| put(part_file, b"this is not JSON")),
    ("wrong-shape", |part_file| {
        put(part_file, br#"{"meta":{},"libs":{},"threads":[]}"#)
    }),
    ("no-threads", |part_file| {
        put(part_file, br#"{"meta":{},"libs":[]}"#)
    }),
    ("array", |part_file| put(part_file, b"[]")),
    ("descendants", |part_file| {
        put(part_file, part(r#","processes":[{}]"#).as_bytes())
    }),
    ("nul", |part_file| {
        put(part_file, part(",\"x\":\"a\0b\"").as_bytes())
    }),
    ("surrogate", |part_file| {
        put(part_file, part(r#","x":"\ud800""#).as_bytes())
    }),
    ("1e308", |part_file| {
        put(part_file, part(r#","x":1e308"#).as_bytes())
    }),
    ("1e999", |part_file| {
        put(part_file, part(r#","x":1e999"#).as_bytes())
    }),
    ("deep", |part_file| {
        put(
            part_file,
            part(&format!(r#","x":{}"#, "[".repeat(10_000))).as_bytes(),
        )
    }),
    ("duplicate", |part_file| {
        put(part_file, part(r#","meta":{}"#).as_bytes())
    }),
    ("not-utf8", |part_file| {
        put(part_file, &[part("").as_bytes(), b"\xff"].concat())
    }),
    ("utf8-inside", |part_file| {
        put(part_file, &bytes_inside(b"\xc3\x28"))
    }),
    ("behind", |part_file| {
        put(part_file, (part("") + &part("")).as_bytes())
    }),
    ("short", |part_file| {
        put(part_file, part("").as_bytes()).map(|length| length - 1)
    }),
    ("beyond", |part_file| {
        put(part_file, part("").as_bytes()).map(|length| length + 1)
    }),
    ("endless", |part_file| {
        put(part_file, part("").as_bytes()).map(|_| u64::MAX)
    }),
    ("hidden", |part_file| {
        put(part_file, (part("") + "garbage").as_bytes()).map(|length| length - 7)
    }),
    ("huge", huge),
    ("long", |part_file| {
        put(
            part_file,
            part(&format!(r#","x":"{}""#, "x".repeat(64 << 20))).as_bytes(),
        )
    }),
    ("changing", changing),
    ("vanishing", vanishing),
    ("growing", growing),
];

/// `liar-KIND`. Returns `None` if the name is not a beginning of this family.
pub(crate) fn begin(name: &str) -> Option<anyhow::Result<String>> {
    let kind = name.strip_prefix("liar-")?;
    let lie = LIES
        .iter()
        .find(|(known, _)| *known == kind)
        .map(|(_, lie)| *lie);
    Some(lie.context("no such lie").and_then(start))
}

fn start(lie: Lie) -> anyhow::Result<String> {
    let given = ChildEnvironment::parse(&std::env::var(VARIABLE).context("no parent")?)?;
    let pool = given.pool.open()?;
    let part_file = given.part_file.context("no part file")?.open()?;
    let (key, params) = session::attach(pool)?;
    session::start(params.context("no parameters")?, StartOptions::default())?;
    let version = PROTOCOL_VERSION;
    let name = "a liar".to_owned();
    let hello = Hello {
        version,
        token: given.token.clone(),
        pid: key.pid,
        start: key.start,
        name,
    };
    let ends = Endpoint::open(&given.server)?.connect(hello)?;
    spawn_quiet("liar", move || drop(obey(ends, &part_file, lie)))?;
    Ok("Recording".to_owned())
}

fn obey(mut ends: ChildEnds, part_file: &File, lie: Lie) -> anyhow::Result<()> {
    loop {
        let answer = match ends.receiver.recv()? {
            ToChild::GatherProfile { id, .. } => written(id, lie(part_file)?),
            ToChild::GetGatherProfileProgress { id } => ToParent::GatherProgress {
                id,
                proportion: Proportion::ZERO,
                location: "lying".to_owned(),
            },
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
            | ToChild::CancelGather { .. }
            | ToChild::NamedWaits { .. } => continue,
        };
        ends.sender.send(&answer)?;
    }
}

fn written(id: GatherId, length: u64) -> ToParent {
    ToParent::Profile {
        id,
        outcome: GatherOutcome::Written {
            length,
            summary: ProcessSummary::default(),
        },
    }
}

/// Returns a part that passes every check, with additional members `more`.
fn part(more: &str) -> String {
    let pid = std::process::id();
    let thread = format!(
        r#"{{"name":"GeckoMain","processName":"liar","tid":{pid},"pid":{pid},"stringTable":[],"markers":{{"data":[]}}}}"#
    );
    let log = format!(r#"{{"{pid}":{{"threads":[]}}}}"#);
    format!(
        r#"{{"meta":{{"product":"liar"}},"libs":[],"threads":[{thread}],"profilingLog":{log}{more}}}"#
    )
}

fn bytes_inside(bytes: &[u8]) -> Vec<u8> {
    let (front, back) = (part(r#","x":""#), b"\"}");
    [&front.as_bytes()[..front.len() - 1], bytes, back].concat()
}

fn put(mut part_file: &File, bytes: &[u8]) -> anyhow::Result<u64> {
    part_file.set_len(0)?;
    part_file.seek(SeekFrom::Start(0))?;
    part_file.write_all(bytes)?;
    Ok(bytes.len() as u64)
}

/// Announces 1 GiB, of which only the beginning is written.
fn huge(part_file: &File) -> anyhow::Result<u64> {
    put(part_file, part("").trim_end_matches('}').as_bytes())?;
    part_file.set_len(1 << 30)?;
    Ok(1 << 30)
}

/// Starts a thread that calls `act` repeatedly, while the parent reads.
fn meanwhile(
    part_file: &File,
    act: impl Fn(&File) -> std::io::Result<()> + Send + 'static,
) -> anyhow::Result<()> {
    let part_file = part_file.try_clone()?;
    spawn_quiet("meanwhile", move || {
        while act(&part_file).is_ok() {
            std::thread::sleep(Duration::from_micros(50));
        }
    })?;
    Ok(())
}

/// A part that is well-formed and malformed in turn.
fn changing(part_file: &File) -> anyhow::Result<u64> {
    let text = part(&format!(r#","x":"{}""#, "x".repeat(4 << 20)));
    let length = put(part_file, text.as_bytes())?;
    meanwhile(part_file, move |part_file| {
        for at in (0..length).step_by(64 * 1024) {
            part_file.write_all_at(b"\"}]", at)?;
            part_file.write_all_at(b"xxx", at)?;
        }
        part_file.write_all_at(text.as_bytes().get(..1024).unwrap_or_default(), 0)
    })?;
    Ok(length)
}

/// A part that is removed and written again repeatedly.
fn vanishing(part_file: &File) -> anyhow::Result<u64> {
    let text = part(&format!(r#","x":"{}""#, "x".repeat(4 << 20)));
    let length = put(part_file, text.as_bytes())?;
    meanwhile(part_file, move |part_file| {
        part_file.set_len(0)?;
        part_file.write_all_at(text.as_bytes(), 0)
    })?;
    Ok(length)
}

/// A part without an end, which grows up to 512 MiB.
fn growing(part_file: &File) -> anyhow::Result<u64> {
    const MAX: u64 = 512 << 20;
    let front = part(r#","x":""#);
    let front = &front.as_bytes()[..front.len() - 1];
    put(part_file, front)?;
    let more = vec![b'x'; 1 << 20];
    let at = std::cell::Cell::new(front.len() as u64);
    meanwhile(part_file, move |part_file| {
        if at.get() < MAX {
            part_file.write_all_at(&more, at.get())?;
            at.set(at.get() + more.len() as u64);
        }
        Ok(())
    })?;
    Ok(u64::MAX)
}
