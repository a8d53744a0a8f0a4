//! Example: a program with its own sampler, such as an interpreter. It records samples of its
//! script and saves a profile.
//!
//!     cargo run -p profiler-gecko --example own_sampler -- PROFILE.json [EXPECT.json]
//!
//! The script's clock is simulated, so the contents of the profile are known in advance.
//! EXPECT.json contains what the viewer must show (`integration-tests/viewer/check.mjs`).

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;

use anyhow::Context;
use profiler_core::ids::{DefinitionId, ProcessId, ThreadId};
use profiler_core::internal::reader::{ModuleDefinition, PoolReader};
use profiler_core::marker::category;
use profiler_core::sampler::{self, Frame, Sample, SampleWriter};
use profiler_core::session::{self, Features, SessionParams, StartOptions};
use profiler_core::time::{Anchor, Timestamp};
use profiler_gecko::gecko::{ProcessPart, merge_categories};
use profiler_gecko::{FailureLatch, ProcessRole, ProfileSpec, ProgressCell};
use profiler_json::JsonWriter;
use serde_json::json;

/// The name of the script's process in the profile.
const NAME: &str = "script";
/// Number of ticks of the script. Of ten ticks, five are in `parse`, three in `eval` and two in
/// machine code.
const TICKS: u64 = 1_000;

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let profile = args
        .next()
        .context("usage: own_sampler PROFILE.json [EXPECT.json]")?;
    let features = Features::STACK_WALK
        .with(Features::CPU)
        .with(Features::NO_SAMPLING);
    let params = SessionParams {
        features,
        ..SessionParams::default()
    };
    session::start(
        params,
        StartOptions {
            name: NAME.to_owned(),
            ..StartOptions::default()
        },
    )?;
    let sampling = std::thread::Builder::new()
        .name("script sampler".to_owned())
        .spawn(sample_script)?;
    sampling
        .join()
        .map_err(|_| anyhow::anyhow!("the sampler panicked"))??;
    save(&profile)?;
    if let Some(expect) = args.next() {
        serde_json::to_writer_pretty(File::create(expect)?, &expectation())?;
    }
    session::stop();
    Ok(())
}

/// The frames of the script's functions in the profile.
struct Frames {
    program: Frame,
    parse: Frame,
    eval: Frame,
    machine: Frame,
}

impl Frames {
    fn define() -> Option<Self> {
        let label = |name, line| {
            sampler::define_label(name, &category::IO, "script.js", line).map(Frame::Label)
        };
        let base = 0x7f12_3400_0000;
        let module = ModuleDefinition {
            path: "/usr/lib/libscript.so".to_owned(),
            build_id: (1..=20).collect(),
            base,
            start: base,
            end: base + 0x10_0000,
        };
        let module: DefinitionId = sampler::define_module(&module)?;
        Some(Self {
            program: label("program", 1)?,
            parse: label("parse", 10)?,
            eval: label("eval", 20)?,
            machine: Frame::Code(module, 0x1234),
        })
    }
}

fn sample_script() -> anyhow::Result<()> {
    let frames = Frames::define().context("no room for names")?;
    let thread = ThreadId::new(u64::from(std::process::id()));
    let clock = PoolReader::open(session::pool_file().context("no session")?)?
        .header()
        .clock;
    let tick = clock.converter(Anchor::take()).ticks_in(1_000_000);
    let begun = Timestamp::now().raw().saturating_sub(TICKS * tick);
    let mut writer = SampleWriter::new();
    for number in 0..TICKS {
        let at = Timestamp::from_raw(begun + number * tick);
        let stack: &[Frame] = match number % 10 {
            0..5 => &[frames.program, frames.parse],
            5..8 => &[frames.program, frames.eval],
            _ => &[frames.program, frames.eval, frames.machine],
        };
        let sample = Sample {
            at,
            cpu_ns: Some(1_000_000),
            frames: stack,
            cut: false,
            failed: false,
        };
        // At every tenth tick the script sleeps, so its stack is the same as before.
        let is_asleep = number % 10 == 4;
        if is_asleep && writer.same_as_before(thread, at) {
            continue;
        }
        // A sampler in real time leaves out a sample that is dropped.
        while !writer.sample(thread, &sample) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    Ok(())
}

fn save(path: &PathBuf) -> anyhow::Result<()> {
    let reader = PoolReader::open(session::pool_file().context("no session")?)?;
    let snapshot = reader.snapshot()?;
    let mut categories = Vec::new();
    merge_categories(&mut categories, &snapshot.definitions);
    let spec = ProfileSpec {
        later: Anchor::take(),
        since: None,
        categories,
    };
    let role = ProcessRole {
        pid: ProcessId::new(std::process::id()),
        name: NAME.to_owned(),
        is_root: true,
    };
    let latch = FailureLatch::default();
    let part = ProcessPart::new(&reader, &snapshot, &spec, &role, &latch);
    let mut out = JsonWriter::new(BufWriter::new(File::create(path)?));
    part.write(&mut out, ProgressCell::new("").logger())?;
    Ok(out.finish()?.flush()?)
}

fn expectation() -> serde_json::Value {
    json!({
        "processes": [{ "name": NAME, "threads": ["GeckoMain"], "markers": {}, "samples": TICKS, "complete": true }],
        "threads": [{
            "process": NAME,
            "name": "GeckoMain",
            "samples": TICKS,
            "selfSamples": {
                "parse": TICKS / 2,
                "eval": TICKS * 3 / 10,
                "libscript.so!0x7f1234001234": TICKS / 5,
                "program": 0,
            },
            "totalSamples": { "program": TICKS, "eval": TICKS / 2, "parse": TICKS / 2 },
            // Without the ticks at which the script sleeps.
            "busySelfSamples": { "parse": TICKS * 4 / 10, "eval": TICKS * 3 / 10, "program": 0 },
            "busyTotalSamples": { "program": TICKS * 9 / 10, "parse": TICKS * 4 / 10 },
            "cpuMs": { "min": 890, "max": 900 },
        }],
    })
}
