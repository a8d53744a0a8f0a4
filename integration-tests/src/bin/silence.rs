//! A thread that records under a filter which kills the process at any system call but the wake of a futex.
//!
//! Run by the test `silence`, in a process of its own. `record ENTRIES SWITCHES`: joins a session, installs
//! the filter on the recording thread alone, records until so many entries are committed and so many
//! chunks were switched, and prints what was seen; the thread's join and the first use of each call
//! site come before the filter. First in bursts that are shorter than a chunk, each begun when the
//! maintenance thread has nothing to do any more, so that a chunk is always ready: allocations are
//! counted there, except in bursts that found no chunk ready: those record on the slow path, which
//! keeps lists. Then at full speed, which is too fast for that thread, so that recording often
//! takes the slow path. `getppid`, `wait`, `wake`: each shows the filter with one call. `exit`:
//! runs the code for `exit` and forks under a filter that also allows `getpid`. The silent thread
//! cannot end, since that takes system calls: it spins until the process ends.

#![allow(unsafe_code)]

use std::hint::{black_box, spin_loop};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use integration_tests::counting::{CountingAllocator, allocations_of};
use integration_tests::marks;
use integration_tests::patience::{Stopwatch, until};
use profiler_core::counter::Counter;
use profiler_core::ids::ByteLimit;
use profiler_core::internal::pool::{self, PoolSpec};
use profiler_core::internal::reader::{PoolReader, Snapshot};
use profiler_core::marker::{MarkerOptions, category};
use profiler_core::session::{self, SessionParams, StartOptions};
use profiler_core::time::{SessionClock, Timestamp};
use profiler_core::{marker, scope, text_marker};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Small, so that chunks are small and evictions go on all the time.
const LIMIT: u64 = 2 << 20;
/// Asks for the part at full speed.
const FULL_SPEED: u64 = u64::MAX;
/// Rounds of a burst: less than half of the smallest chunk, so that a burst needs at most one.
const BURST: u64 = 8;
/// Longer than any run takes; only a failing one waits so long.
const DEADLINE: Duration = Duration::from_secs(500);

static ENTRIES: Counter = Counter::new("Entries", "Test", "Entries recorded");
static ROUND: Counter = Counter::new("Round", "Test", "Number of the round");

static READY: AtomicBool = AtomicBool::new(false);
static STOP: AtomicBool = AtomicBool::new(false);
/// Bursts that were asked for, and that are done; [`FULL_SPEED`] asks for the rest.
static ASKED: AtomicU64 = AtomicU64::new(0);
static BURSTS: AtomicU64 = AtomicU64::new(0);
static DONE: AtomicBool = AtomicBool::new(false);
/// Allocations of the latest burst.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["record", entries, switches] => record(entries.parse()?, switches.parse()?),
        [call @ ("getppid" | "wait" | "wake")] => show_filter(call),
        ["exit"] => exit_silently(),
        _ => bail!("usage: silence record ENTRIES SWITCHES | getppid | wait | wake | exit"),
    }
}

/// Records in silence, and prints what came of it.
fn record(entries: u64, switches: u64) -> Result<()> {
    let params = SessionParams { limit: ByteLimit::new(LIMIT), ..SessionParams::default() };
    session::start(params, StartOptions::default())?;
    std::thread::Builder::new().name("silent".to_owned()).spawn(record_silently)?;
    wait_for(&READY)?;
    let in_bursts = record_in_bursts(switches / 5)?; // slow: each burst is waited for
    ASKED.store(FULL_SPEED, Ordering::Release);
    let watch = Stopwatch::start();
    let seen = loop {
        let seen = Seen::look()?;
        if seen.entries >= entries && seen.switches >= switches {
            break seen;
        }
        ensure!(watch.elapsed() < DEADLINE, "only {seen:?}");
        std::thread::sleep(Duration::from_millis(5));
    };
    STOP.store(true, Ordering::Release);
    wait_for(&DONE)?;
    let Seen { entries, switches, evicted, dropped } = seen;
    let Bursts { switches: in_bursts, allocations, slow } = in_bursts;
    println!(
        "entries {entries} switches {switches} evicted {evicted} dropped {dropped} \
         burst_switches {in_bursts} allocations {allocations} slow_bursts {slow}"
    );
    std::process::exit(0)
}

/// The results of the bursts.
#[derive(Debug, Default)]
struct Bursts {
    /// Chunk switches and allocations of bursts that always found a chunk ready.
    switches: u64,
    allocations: u64,
    /// Bursts that found no chunk ready.
    slow: u64,
}

/// Records bursts until `switches` chunk switches have found a chunk ready.
fn record_in_bursts(switches: u64) -> Result<Bursts> {
    let (watch, maintenance) = (Stopwatch::start(), maintenance_thread()?);
    let mut all = Bursts::default();
    for burst in 1.. {
        let (before, not_ready) = (Seen::look()?.switches, session::chunks_not_ready());
        ASKED.store(burst, Ordering::Release);
        while BURSTS.load(Ordering::Acquire) < burst || !is_asleep(&maintenance) {
            ensure!(watch.elapsed() < DEADLINE, "only {burst} bursts: {all:?}");
            std::thread::yield_now();
        }
        if session::chunks_not_ready() > not_ready {
            all.slow += 1;
            continue;
        }
        all.allocations += ALLOCATIONS.load(Ordering::Acquire);
        all.switches += Seen::look()?.switches.saturating_sub(before);
        if all.switches >= switches {
            return Ok(all);
        }
    }
    bail!("bursts without end")
}

/// Where `/proc` shows the state of the thread that makes chunks ready.
fn maintenance_thread() -> Result<std::path::PathBuf> {
    let is_it = |task: &std::path::PathBuf| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "profiler-chunks")
    };
    let mut found = None;
    // The thread names itself, so it has another name until it has run.
    until(|| {
        let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        found = tasks.map(|task| task.path()).find(is_it);
        found.is_some()
    });
    Ok(found.context("no maintenance thread")?.join("stat"))
}

fn is_asleep(stat: &std::path::Path) -> bool {
    let stat = std::fs::read_to_string(stat).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, state)| state.trim_start().starts_with('S'))
}

fn wait_for(flag: &AtomicBool) -> Result<()> {
    let watch = Stopwatch::start();
    while !flag.load(Ordering::Acquire) {
        ensure!(watch.elapsed() < DEADLINE, "the silent thread does not come on");
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// What the pool says of the silent thread.
#[derive(Debug)]
struct Seen {
    /// Committed entries, evicted ones included.
    entries: u64,
    /// Lives of the chunks that are there now: all switches but those of chunks that are gone.
    switches: u64,
    evicted: u64,
    dropped: u64,
}

impl Seen {
    fn look() -> Result<Self> {
        let snapshot: Snapshot = PoolReader::open(session::pool_file()?)?.snapshot()?;
        let counts = snapshot.counts();
        Ok(Self {
            entries: counts.delivered + counts.evicted,
            switches: snapshot.chunks().map(|chunk| chunk.generation.div_ceil(2)).sum(),
            evicted: counts.evicted,
            dropped: counts.dropped.total(),
        })
    }
}

/// The silent thread's whole life.
fn record_silently() {
    long_text();
    (0..10).for_each(all_kinds); // joins the session, and makes every call site known
    if install_filter(NO_CALL).is_err() {
        return; // the code that waits for the thread reports it
    }
    READY.store(true, Ordering::Release);
    let mut round = 10;
    let mut burst = |_| {
        (round..round + BURST).for_each(all_kinds);
        round += BURST;
    };
    for number in (1..).take_while(|number| may_begin(*number)) {
        ALLOCATIONS.store(allocations_of(|| burst(number)), Ordering::Release);
    }
    for number in (0..).take_while(|_| !STOP.load(Ordering::Relaxed)) {
        burst(number);
        if number.is_multiple_of(64) {
            long_text();
        }
    }
    DONE.store(true, Ordering::Release);
    loop {
        spin_loop();
    }
}

/// Says that the burst before is done, and waits until this one is asked for; false at full speed.
fn may_begin(burst: u64) -> bool {
    BURSTS.store(burst - 1, Ordering::Release);
    while ASKED.load(Ordering::Acquire) < burst {
        spin_loop();
    }
    ASKED.load(Ordering::Acquire) != FULL_SPEED
}

/// An entry of every kind.
fn all_kinds(round: u64) {
    let start = Timestamp::now();
    marker!("instant");
    marker!("interval", &category::TEST, MarkerOptions::interval_until_now_from(start));
    marker!("start", &category::TEST, MarkerOptions::interval_start());
    marker!("end", &category::TEST, MarkerOptions::interval_end());
    text_marker!("text", &category::IO, MarkerOptions::default(), black_box("sixteen letters!"));
    marks::record(1, round);
    {
        let _scope = scope!("scope", &category::TEST);
    }
    ENTRIES.add(7);
    ROUND.set(round.cast_signed());
}

/// An entry that needs more than a small chunk.
fn long_text() {
    text_marker!("long text", &category::IO, MarkerOptions::default(), black_box(LONG));
}

const LONG: &str = match std::str::from_utf8(&[b'x'; 20_000]) {
    Ok(text) => text,
    Err(_) => "",
};

/// Closes an attached pool while another thread records.
fn exit_silently() -> Result<()> {
    let params = SessionParams { limit: ByteLimit::new(LIMIT), ..SessionParams::default() };
    let spec = PoolSpec {
        id: pool::new_id()?,
        limit: params.limit,
        allowance: params.limit,
        clock: SessionClock::start_now(),
        params: params.clone(),
        name: String::new(),
    };
    session::attach(pool::create(&spec)?)?;
    session::start(params, StartOptions::default())?;
    std::thread::Builder::new().spawn(|| (0..u64::MAX).for_each(all_kinds))?;
    let close = || {
        all_kinds(0);
        if install_filter(libc::SYS_getpid as u32).is_err() {
            return; // the code that waits for the thread reports it
        }
        ALLOCATIONS.store(
            allocations_of(|| {
                session::pass_through_fork_handlers();
                session::close_at_exit();
            }),
            Ordering::Release,
        );
        DONE.store(true, Ordering::Release);
        loop {
            spin_loop();
        }
    };
    std::thread::Builder::new().spawn(close)?;
    wait_for(&DONE)?;
    let life = PoolReader::open(session::pool_file()?)?.header().life;
    println!("allocations {} active {} {life:?}", ALLOCATIONS.load(Ordering::Acquire), session::is_active());
    std::process::exit(0)
}

/// Makes one call under the filter; returns only if the filter lets it.
fn show_filter(call: &str) -> Result<()> {
    let call = match call {
        "getppid" => || {
            let _ = rustix::process::getppid();
        },
        "wait" => || futex(libc::FUTEX_WAIT),
        _ => || futex(libc::FUTEX_WAKE),
    };
    let thread = move || {
        if install_filter(NO_CALL).is_ok() {
            READY.store(true, Ordering::Release);
            call();
            DONE.store(true, Ordering::Release);
        }
        loop {
            spin_loop();
        }
    };
    std::thread::Builder::new().spawn(thread)?;
    wait_for(&READY).context("the filter cannot be installed")?;
    wait_for(&DONE)?;
    println!("alive");
    std::process::exit(0)
}

/// A futex call that would return at once.
fn futex(operation: i32) {
    static WORD: AtomicU32 = AtomicU32::new(1);
    // SAFETY: the word lives for ever; a wait returns at once because it does not hold 0.
    unsafe {
        libc::syscall(libc::SYS_futex, WORD.as_ptr(), operation | libc::FUTEX_PRIVATE_FLAG, 0, 0, 0, 0);
    }
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// No call has this number.
const NO_CALL: u32 = u32::MAX;

/// Permanently kills the process when the calling thread makes any call but a futex wake and
/// `allowed`.
fn install_filter(allowed: u32) -> io::Result<()> {
    const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
    const EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let wake = libc::FUTEX_WAKE.cast_unsigned();
    let private = libc::FUTEX_PRIVATE_FLAG.cast_unsigned();
    // `struct seccomp_data`: number at 0, architecture at 4, arguments at 16, 24, …; low halves first.
    let mut steps = [
        step(LOAD, 0, 0, 4),
        step(EQUAL, 0, 7, ARCHITECTURE),
        step(LOAD, 0, 0, 0),
        step(EQUAL, 4, 0, allowed),
        step(EQUAL, 0, 4, libc::SYS_futex as u32),
        step(LOAD, 0, 0, 24),
        step(EQUAL, 1, 0, wake),
        step(EQUAL, 0, 1, wake | private),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        step(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: changes one flag of this thread; it can gain no privilege by an exec any more.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the program and its steps live through the call, which copies them.
    let installed =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) };
    if installed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
