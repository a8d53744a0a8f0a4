//! Records one session with stacks and saves it in both formats. `viewer/agree.mjs` compares the
//! two files.
//!
//!     both_formats PROCESSED.json GECKO.json
//!
//! The parent and two children write samples through the sampler interface, so that every kind of
//! frame and sample occurs. No real sampler runs. One child is killed. No process records while the
//! two files are saved.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use integration_tests::own;
use integration_tests::patience::until;
use profiler_core::ids::{DefinitionId, ThreadId};
use profiler_core::internal::manager::is_maintenance_idle;
use profiler_core::internal::reader::ModuleDefinition;
use profiler_core::marker::Category;
use profiler_core::marker::schema::CategoryColor;
use profiler_core::sampler::{Frame, Sample, SampleWriter, define_label, define_module};
use profiler_core::session::Features;
use profiler_core::time::Timestamp;
use profiler_parent::{Format, ProfiledChild, Session, marker};

static SCRIPT: Category = Category::new("Script", CategoryColor::Purple, &["Parsing", "Running"]);

/// The argument that makes this program a child.
const ROLE: &str = "--child";
/// Number of samples of each thread.
const SAMPLES: u64 = 3000;

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match &arguments[..] {
        [role] if role == ROLE => child(),
        [processed, gecko] => run(Path::new(processed), Path::new(gecko)),
        _ => bail!("usage: both_formats PROCESSED.json GECKO.json"),
    }
}

fn run(processed: &Path, gecko: &Path) -> Result<()> {
    let features = Features::STACK_WALK
        .with(Features::CPU)
        .with(Features::NO_SAMPLING);
    let session = Session::builder()
        .name("both formats")
        .features(features)
        .start()?;
    let mut alive = start(&session, "alive")?;
    let mut killed = start(&session, "killed")?;
    record()?;
    ensure!(!killed.has_ended(), "the child ended before it was killed");
    killed.kill()?;
    killed.wait()?;
    session.capture().save(processed)?;
    session.capture().format(Format::Gecko).save(gecko)?;
    drop(alive.stdin.take());
    alive.wait()?;
    Ok(())
}

/// Starts a child and waits until it has recorded everything.
fn start(session: &Session, name: &str) -> Result<ProfiledChild> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg(ROLE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = session.spawn(name, command)?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("no pipe")?).read_line(&mut line)?;
    ensure!(line == "recorded\n", "{name} printed {line:?}");
    Ok(child)
}

fn child() -> Result<()> {
    own::join_session()?;
    record()?;
    writeln!(std::io::stdout(), "recorded")?;
    std::io::stdin().lock().read_line(&mut String::new())?;
    Ok(())
}

/// Records samples of the main thread, of a worker that has ended, and of a thread that does not
/// exist. A fourth thread writes them.
fn record() -> Result<()> {
    marker!("begin");
    let main = ThreadId::new(u64::from(std::process::id()));
    let worker = std::thread::Builder::new()
        .name("worker".to_owned())
        .spawn(|| {
            marker!("work");
            ThreadId::new(u64::from(
                rustix::thread::gettid()
                    .as_raw_nonzero()
                    .get()
                    .unsigned_abs(),
            ))
        })?;
    let worker = worker.join().ok().context("the worker panicked")?;
    let sampler = std::thread::Builder::new()
        .name("sampler of its own".to_owned())
        .spawn(move || sample([main, worker, ThreadId::new(4_000_000_000)]))?;
    sampler.join().ok().context("the sampler panicked")??;
    Ok(())
}

/// Definitions that the frames refer to.
struct Frames {
    program: DefinitionId,
    library: DefinitionId,
    parse: DefinitionId,
    run: DefinitionId,
}

impl Frames {
    fn define() -> Option<Self> {
        let module = |name: &str, base: u64| {
            let path = format!("/usr/lib/{name}");
            let build_id = name.bytes().cycle().take(20).collect();
            define_module(&ModuleDefinition {
                path,
                build_id,
                base,
                start: base,
                end: base + 0x10_0000,
            })
        };
        Some(Self {
            program: module("program", 0x5555_0000_0000)?,
            library: module("libscript.so", 0x7f12_3400_0000)?,
            parse: define_label("parse", SCRIPT.sub(1), "script.js", 10)?,
            run: define_label("run: a label:7", SCRIPT.sub(2), "script.js", 20)?,
        })
    }

    /// Returns a stack whose shape depends on `number`. All addresses are multiples of four, as
    /// `agree.mjs` requires.
    fn stack(&self, number: u64) -> Vec<Frame> {
        let mut stack = vec![
            Frame::Code(self.program, 0x1000),
            Frame::Code(self.program, 0x2000),
        ];
        match number % 5 {
            0 => stack.push(Frame::Label(self.parse)),
            1 => stack.extend([
                Frame::Label(self.run),
                Frame::Code(self.library, 0x40 + number % 3 * 4),
            ]),
            2 => stack.extend(
                (0..number % 40).map(|level| Frame::Code(self.library, 0x100 + level % 4 * 4)),
            ),
            3 => stack.push(Frame::Unknown(0x1234_5678)),
            _ => stack.insert(0, Frame::Label(self.run)),
        }
        stack
    }
}

fn sample(threads: [ThreadId; 3]) -> Result<()> {
    let frames = Frames::define().context("the definitions do not fit into the pool")?;
    let mut writer = SampleWriter::new();
    for number in 0..SAMPLES {
        for thread in threads {
            let at = Timestamp::now();
            if number % 7 == 3 && writer.same_as_before(thread, at) {
                continue;
            }
            let stack = frames.stack(number + thread.get());
            let cut = number % 11 == 0;
            let failed = number % 13 == 0;
            let cpu_ns = (number % 17 > 0).then_some(number * 10);
            let sample = Sample {
                at,
                cpu_ns,
                frames: &stack,
                cut,
                failed,
            };
            // A sample is dropped while another thread holds the lock of the chunks.
            ensure!(until(|| writer.sample(thread, &sample)), "dropped");
        }
        if number % 100 == 0 {
            until(|| is_maintenance_idle() != Some(false));
        }
    }
    Ok(())
}
