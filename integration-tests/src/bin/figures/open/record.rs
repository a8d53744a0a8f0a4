//! What a child of this group records: as much as five minutes of four busy threads, as fast as it can.
//!
//! Stacks are walks in a tree of calls: a sample shares its outer frames with the one before, goes up or down by a
//! few, and every fourth says "as before". The code is this program's own, so that there is something to be named.
//! Everything follows from the process's number among the random ones that a seed gives, so both formats and all runs
//! see the same.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use profiler_core::ids::{DefinitionId, ThreadId};
use profiler_core::internal::reader::ModuleDefinition;
use profiler_core::marker::{MarkerOptions, category};
use profiler_core::sampler::{Frame, Sample, SampleWriter, define_module};
use profiler_core::time::Timestamp;
use profiler_core::{marker, text_marker};

use super::{MARKERS, SAMPLES};
use crate::symbols;

const THREADS: u64 = 4;
/// Distinct places in the code that are met.
const PLACES: usize = 6_000;
/// A stack has so many frames at least and at most.
const DEPTHS: (usize, usize) = (6, 60);
/// Every function calls one of so many others.
const CALLEES: u64 = 3;

/// Records one `part`th of all, and says so.
pub(crate) fn record(part: u64) -> Result<()> {
    let code = Code::define()?;
    let threads = threads()?;
    let mut stacks: Vec<Walk> = (1..=THREADS).map(|seed| Walk::new(&code, seed)).collect();
    let mut writer = SampleWriter::new();
    let (samples, markers) = (SAMPLES / part, MARKERS / part);
    let mut marked = 0;
    for number in 0..samples {
        let which = usize::try_from(number % THREADS)?;
        let (thread, walk) = threads.get(which).zip(stacks.get_mut(which)).context("no such thread")?;
        let at = Timestamp::now();
        let is_idle = number / THREADS % 4 == 3;
        if !(is_idle && writer.same_as_before(*thread, at)) {
            let frames = walk.step();
            let sample =
                Sample { at, cpu_ns: Some(1_000_000 - number % 977), frames, cut: false, failed: false };
            ensure!(writer.sample(*thread, &sample), "a sample was dropped");
        }
        while marked * samples < (number + 1) * markers {
            mark(marked, *thread);
            marked += 1;
        }
        if number % 1024 == 0 {
            std::thread::sleep(Duration::from_micros(300)); // chunks are made ready
        }
    }
    println!("recorded");
    Ok(())
}

/// One marker in four has a text, every second one is an interval.
fn mark(number: u64, thread: ThreadId) {
    let now = MarkerOptions::default().on_thread(thread);
    match number % 4 {
        0 => text_marker!("request", &category::IO, now, &format!("/assets/page/{}", number % 5_000)),
        1 => marker!("tick", &category::OTHER, now),
        _ => {
            let options = MarkerOptions::interval_until_now_from(Timestamp::now()).on_thread(thread);
            marker!("task", &category::TEST, options);
        }
    }
}

/// Threads that the samples and markers belong to. They end only with the process.
fn threads() -> Result<Vec<ThreadId>> {
    let one = |number: u64| {
        let (say, said) = std::sync::mpsc::channel();
        let body = move || {
            marker!("begin");
            let _ = say.send(profiler_core::thread::current());
            loop {
                std::thread::park();
            }
        };
        std::thread::Builder::new().name(format!("pool {number}")).spawn(body)?;
        Ok(said.recv()?)
    };
    (0..THREADS).map(one).collect()
}

/// This program as it is loaded, and places in it.
struct Code {
    module: DefinitionId,
    places: Vec<u64>,
}

impl Code {
    fn define() -> Result<Self> {
        let own = symbols::module(&std::env::current_exe()?, PLACES)?;
        let (first, last) =
            (own.addresses.first().context("no code")?, own.addresses.last().context("no code")?);
        let base = 0x5500_0000_0000;
        let (start, end) = (base + (first & !0xfff), base + last + 0x1000);
        let module = ModuleDefinition { path: own.path, build_id: own.build_id, base, start, end };
        let module = define_module(&module).context("no room for a name")?;
        Ok(Self { module, places: own.addresses })
    }

    /// The `which`th call of what is called at `depth` by the function at `caller`.
    fn callee(&self, caller: u64, depth: usize, which: u64) -> Frame {
        let place = mixed(caller ^ (depth as u64) << 40 ^ which << 50) % self.places.len().max(1) as u64;
        let address = usize::try_from(place).ok().and_then(|place| self.places.get(place));
        Frame::Code(self.module, address.copied().unwrap_or(0))
    }
}

/// A thread's stack as time goes on.
struct Walk<'a> {
    code: &'a Code,
    seed: u64,
    frames: Vec<Frame>,
}

impl<'a> Walk<'a> {
    fn new(code: &'a Code, seed: u64) -> Self {
        Self { code, seed, frames: Vec::with_capacity(DEPTHS.1) }
    }

    /// Returns from some functions, and calls others.
    fn step(&mut self) -> &[Frame] {
        self.seed = mixed(self.seed);
        let random = |shift: u32, below: u64| (self.seed >> shift) % below;
        // Mostly near the leaves; once in a while something else is done.
        let returns = if random(0, 64) == 0 { 40 } else { random(8, 8) };
        let kept = self.frames.len().saturating_sub(returns as usize).max(DEPTHS.0).min(self.frames.len());
        let calls = random(16, 2 * returns + 3) as usize;
        let (most, seed) = ((kept + calls).clamp(DEPTHS.0, DEPTHS.1), self.seed);
        self.frames.truncate(kept);
        while self.frames.len() < most {
            let depth = self.frames.len();
            let caller = match self.frames.last() {
                Some(Frame::Code(_, address)) => *address,
                _ => 0,
            };
            // All threads begin alike; further in one call in eight is not the common one.
            let random = mixed(seed ^ depth as u64);
            let is_common = depth < DEPTHS.0 || !random.is_multiple_of(8);
            let which = if is_common { 0 } else { 1 + (random >> 8) % (CALLEES - 1) };
            self.frames.push(self.code.callee(caller, depth, which));
        }
        &self.frames
    }
}

/// The next of a row of numbers that look random.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
