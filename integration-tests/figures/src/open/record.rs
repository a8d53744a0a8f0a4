//! The recording of a child of this group: as much as five minutes of four busy threads, at full
//! speed.
//!
//! Stacks are walks in a tree of calls: a sample shares its outer frames with the previous one and
//! goes up or down by a few frames. Every fourth sample repeats the previous one. The code is this
//! program's own, so that there are names to look up. The random numbers have fixed seeds, so both
//! formats and all runs see the same recording.

use anyhow::{Context, Result, ensure};
use integration_tests::patience::until;
use profiler_core::ids::{DefinitionId, ThreadId};
use profiler_core::internal::manager::is_maintenance_idle;
use profiler_core::internal::reader::ModuleDefinition;
use profiler_core::marker::{MarkerOptions, category};
use profiler_core::sampler::{Frame, Sample, SampleWriter, define_module};
use profiler_core::time::Timestamp;
use profiler_core::{marker, text_marker};

use super::{MARKERS, SAMPLES};
use crate::symbols;

const THREADS: u64 = 4;
/// Distinct addresses in the code that occur in stacks.
const PLACES: usize = 6_000;
/// The smallest and the largest number of frames of a stack.
const DEPTHS: (usize, usize) = (6, 60);
/// Number of different functions that a function calls.
const CALLEES: u64 = 3;

/// Records a fraction of everything, 1 ÷ `part`, and prints `recorded`.
pub(crate) fn record(part: u64) -> Result<()> {
    let code = Code::define()?;
    let threads = threads()?;
    let mut stacks: Vec<Walk> = (1..=THREADS).map(|seed| Walk::new(&code, seed)).collect();
    let mut writer = SampleWriter::new();
    let samples = SAMPLES / part;
    let markers = MARKERS / part;
    let mut marked = 0;
    for number in 0..samples {
        let which = usize::try_from(number % THREADS)?;
        let (thread, walk) = threads
            .get(which)
            .zip(stacks.get_mut(which))
            .context("no such thread")?;
        let at = Timestamp::now();
        let is_idle = number / THREADS % 4 == 3;
        if !(is_idle && writer.same_as_before(*thread, at)) {
            let frames = walk.step();
            let sample = Sample {
                at,
                cpu_ns: Some(1_000_000 - number % 977),
                frames,
                cut: false,
                failed: false,
            };
            ensure!(writer.sample(*thread, &sample), "a sample was dropped");
        }
        while marked * samples < (number + 1) * markers {
            mark(marked, *thread);
            marked += 1;
        }
        if number % 1024 == 0 {
            until(|| is_maintenance_idle() != Some(false));
        }
    }
    println!("recorded");
    Ok(())
}

/// Records a marker. One marker in four has a text, and every second one is an interval.
fn mark(number: u64, thread: ThreadId) {
    let now = MarkerOptions::default().on_thread(thread);
    match number % 4 {
        0 => text_marker!(
            "request",
            &category::IO,
            now,
            &format!("/assets/page/{}", number % 5_000)
        ),
        1 => marker!("tick", &category::OTHER, now),
        _ => {
            let options =
                MarkerOptions::interval_until_now_from(Timestamp::now()).on_thread(thread);
            marker!("task", &category::TEST, options);
        }
    }
}

/// Starts the threads to which the samples and markers belong. They run until the process ends.
fn threads() -> Result<Vec<ThreadId>> {
    let start = |number: u64| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let body = move || {
            marker!("begin");
            let _ = sender.send(profiler_core::thread::current());
            loop {
                std::thread::park();
            }
        };
        std::thread::Builder::new()
            .name(format!("pool {number}"))
            .spawn(body)?;
        Ok(receiver.recv()?)
    };
    (0..THREADS).map(start).collect()
}

/// This program as a loaded module, and addresses in its code.
struct Code {
    module: DefinitionId,
    places: Vec<u64>,
}

impl Code {
    fn define() -> Result<Self> {
        let own = symbols::module(&std::env::current_exe()?, PLACES)?;
        let first = own.addresses.first().context("no code")?;
        let last = own.addresses.last().context("no code")?;
        let base = 0x5500_0000_0000;
        let start = base + (first & !0xfff);
        let end = base + last + 0x1000;
        let module = ModuleDefinition {
            path: own.path,
            build_id: own.build_id,
            base,
            start,
            end,
        };
        let module = define_module(&module).context("no room for a name")?;
        Ok(Self {
            module,
            places: own.addresses,
        })
    }

    /// Returns the function number `which` that the function at `caller` calls at `depth`.
    fn callee(&self, caller: u64, depth: usize, which: u64) -> Frame {
        let place =
            mixed(caller ^ (depth as u64) << 40 ^ which << 50) % self.places.len().max(1) as u64;
        let address = usize::try_from(place)
            .ok()
            .and_then(|place| self.places.get(place));
        Frame::Code(self.module, address.copied().unwrap_or(0))
    }
}

/// A thread's stack, which changes over time.
struct Walk<'a> {
    code: &'a Code,
    seed: u64,
    frames: Vec<Frame>,
}

impl<'a> Walk<'a> {
    fn new(code: &'a Code, seed: u64) -> Self {
        Self {
            code,
            seed,
            frames: Vec::with_capacity(DEPTHS.1),
        }
    }

    /// Returns from some functions, and calls others.
    fn step(&mut self) -> &[Frame] {
        self.seed = mixed(self.seed);
        let random = |shift: u32, below: u64| (self.seed >> shift) % below;
        // Most steps change frames near the leaf. One step in 64 returns from up to 40 functions.
        let returns = if random(0, 64) == 0 { 40 } else { random(8, 8) };
        let kept = self
            .frames
            .len()
            .saturating_sub(returns as usize)
            .max(DEPTHS.0)
            .min(self.frames.len());
        let calls = random(16, 2 * returns + 3) as usize;
        let most = (kept + calls).clamp(DEPTHS.0, DEPTHS.1);
        let seed = self.seed;
        self.frames.truncate(kept);
        while self.frames.len() < most {
            let depth = self.frames.len();
            let caller = match self.frames.last() {
                Some(Frame::Code(_, address)) => *address,
                _ => 0,
            };
            // The outermost frames are the same in all threads. Beyond them, one call in eight is
            // not the common one.
            let random = mixed(seed ^ depth as u64);
            let is_common = depth < DEPTHS.0 || !random.is_multiple_of(8);
            let which = if is_common {
                0
            } else {
                1 + (random >> 8) % (CALLEES - 1)
            };
            self.frames.push(self.code.callee(caller, depth, which));
        }
        &self.frames
    }
}

/// Returns the next number of a pseudo-random sequence.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
