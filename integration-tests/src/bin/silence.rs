//! Records on a thread with a filter that kills the process at every system call except the wake of
//! a futex.
//!
//! Run by the test `silence` in a separate process. A thread with the filter cannot end, because
//! that takes system calls: it spins until the process ends. The commands are:
//!
//! * `record ENTRIES SWITCHES` joins a session, installs the filter on the recording thread alone,
//!   records until at least ENTRIES entries are committed and SWITCHES chunks are switched, and
//!   prints the results. The thread joins the session and uses each call site before it installs
//!   the filter. First it records in bursts that are shorter than a chunk. Each burst begins when
//!   the maintenance thread is idle, so that a chunk is normally ready. Allocations are counted in
//!   these bursts. Bursts that found no chunk ready are not counted, because they take the slow
//!   path, which keeps lists. Then the thread records at full speed, faster than the maintenance
//!   thread prepares chunks, so that it often takes the slow path.
//! * `getppid`, `wait`, `wake` make one call, which shows the effect of the filter.
//! * `exit` runs the code for `exit` and forks under a filter that also allows `getpid`.

#![allow(unsafe_code)]

use std::hint::{black_box, spin_loop};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use integration_tests::counting::{CountingAllocator, allocations_of};
use integration_tests::marks;
use integration_tests::patience::Stopwatch;
use profiler_core::counter::Counter;
use profiler_core::ids::ByteLimit;
use profiler_core::internal::manager::is_maintenance_idle;
use profiler_core::internal::pool::PoolSpec;
use profiler_core::internal::reader::{PoolReader, Snapshot};
use profiler_core::marker::{MarkerOptions, category};
use profiler_core::session::{self, SessionParams, StartOptions};
use profiler_core::time::Timestamp;
use profiler_core::{marker, scope, text_marker};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The limit is small, so that chunks are small and evictions are continuous.
const LIMIT: u64 = 2 << 20;
/// The value of [`REQUESTED`] for the part at full speed.
const FULL_SPEED: u64 = u64::MAX;
/// Rounds per burst. They fill less than half of the smallest chunk, so a burst needs at most one
/// new chunk.
const BURST: u64 = 8;
/// Longer than any successful run takes.
const DEADLINE: Duration = Duration::from_secs(500);

static ENTRIES: Counter = Counter::new("Entries", "Test", "Entries recorded");
static ROUND: Counter = Counter::new("Round", "Test", "Number of the round");

static READY: AtomicBool = AtomicBool::new(false);
static STOP: AtomicBool = AtomicBool::new(false);
/// Number of bursts that the main thread has requested; [`FULL_SPEED`] ends the bursts.
static REQUESTED: AtomicU64 = AtomicU64::new(0);
/// Number of bursts that are completed.
static COMPLETED: AtomicU64 = AtomicU64::new(0);
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

/// Records under the filter and prints the results.
fn record(entries: u64, switches: u64) -> Result<()> {
    let params = SessionParams {
        limit: ByteLimit::new(LIMIT),
        ..SessionParams::default()
    };
    session::start(params, StartOptions::default())?;
    std::thread::Builder::new()
        .name("silent".to_owned())
        .spawn(record_silently)?;
    wait_for(&READY)?;
    let in_bursts = record_in_bursts(switches / 5)?; // fewer, because bursts are slow
    REQUESTED.store(FULL_SPEED, Ordering::Release);
    let watch = Stopwatch::start();
    let seen = loop {
        let seen = Seen::read()?;
        if seen.entries >= entries && seen.switches >= switches {
            break seen;
        }
        ensure!(watch.elapsed() < DEADLINE, "only {seen:?}");
        std::thread::sleep(Duration::from_millis(5));
    };
    STOP.store(true, Ordering::Release);
    wait_for(&DONE)?;
    let Seen {
        entries,
        switches,
        evicted,
        dropped,
    } = seen;
    let Bursts {
        switches: in_bursts,
        allocations,
        slow,
    } = in_bursts;
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
    let watch = Stopwatch::start();
    let mut all = Bursts::default();
    for burst in 1.. {
        let before = Seen::read()?.switches;
        let not_ready = session::chunks_not_ready();
        REQUESTED.store(burst, Ordering::Release);
        while COMPLETED.load(Ordering::Acquire) < burst || is_maintenance_idle() != Some(true) {
            ensure!(watch.elapsed() < DEADLINE, "only {burst} bursts: {all:?}");
            std::thread::yield_now();
        }
        if session::chunks_not_ready() > not_ready {
            all.slow += 1;
            continue;
        }
        all.allocations += ALLOCATIONS.load(Ordering::Acquire);
        all.switches += Seen::read()?.switches.saturating_sub(before);
        if all.switches >= switches {
            return Ok(all);
        }
    }
    bail!("bursts without end")
}

fn wait_for(flag: &AtomicBool) -> Result<()> {
    let watch = Stopwatch::start();
    while !flag.load(Ordering::Acquire) {
        ensure!(
            watch.elapsed() < DEADLINE,
            "the silent thread makes no progress"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The counts in the pool.
#[derive(Debug)]
struct Seen {
    /// Committed entries, including evicted ones.
    entries: u64,
    /// Uses of all current chunks: all switches except those of chunks that were removed.
    switches: u64,
    evicted: u64,
    dropped: u64,
}

impl Seen {
    fn read() -> Result<Self> {
        let snapshot: Snapshot = PoolReader::open(session::pool_file()?)?.snapshot()?;
        let counts = snapshot.counts();
        Ok(Self {
            entries: counts.delivered + counts.evicted,
            switches: snapshot
                .chunks()
                .map(|chunk| chunk.generation.div_ceil(2))
                .sum(),
            evicted: counts.evicted,
            dropped: counts.dropped.total(),
        })
    }
}

/// The body of the silent thread.
fn record_silently() {
    long_text();
    (0..10).for_each(all_kinds); // joins the session and registers every call site
    if install_filter(NO_CALL).is_err() {
        return; // `wait_for` reports the failure
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

/// Reports the previous burst as completed and waits until this burst is requested. Returns false
/// at full speed.
fn may_begin(burst: u64) -> bool {
    COMPLETED.store(burst - 1, Ordering::Release);
    while REQUESTED.load(Ordering::Acquire) < burst {
        spin_loop();
    }
    REQUESTED.load(Ordering::Acquire) != FULL_SPEED
}

/// Records an entry of every kind.
fn all_kinds(round: u64) {
    let start = Timestamp::now();
    marker!("instant");
    marker!(
        "interval",
        &category::TEST,
        MarkerOptions::interval_until_now_from(start)
    );
    marker!("start", &category::TEST, MarkerOptions::interval_start());
    marker!("end", &category::TEST, MarkerOptions::interval_end());
    text_marker!(
        "text",
        &category::IO,
        MarkerOptions::default(),
        black_box("sixteen letters!")
    );
    marks::record(1, round);
    {
        let _scope = scope!("scope", &category::TEST);
    }
    ENTRIES.add(7);
    ROUND.set(round.cast_signed());
}

/// Records an entry that is larger than a small chunk.
fn long_text() {
    text_marker!(
        "long text",
        &category::IO,
        MarkerOptions::default(),
        black_box(LONG)
    );
}

const LONG: &str = match std::str::from_utf8(&[b'x'; 20_000]) {
    Ok(text) => text,
    Err(_) => "",
};

/// Closes an attached pool while another thread records.
fn exit_silently() -> Result<()> {
    let params = SessionParams {
        limit: ByteLimit::new(LIMIT),
        ..SessionParams::default()
    };
    let spec = PoolSpec::starting_now(params.clone())?;
    session::attach(spec.create_pool()?)?;
    session::start(params, StartOptions::default())?;
    std::thread::Builder::new().spawn(|| (0..u64::MAX).for_each(all_kinds))?;
    let close = || {
        all_kinds(0);
        if install_filter(libc::SYS_getpid as u32).is_err() {
            return; // `wait_for` reports the failure
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
    println!(
        "allocations {} active {} {life:?}",
        ALLOCATIONS.load(Ordering::Acquire),
        session::is_active()
    );
    std::process::exit(0)
}

/// Makes one call under the filter and prints `alive` if the filter allows it.
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

/// Makes a futex call that returns at once.
fn futex(operation: i32) {
    static WORD: AtomicU32 = AtomicU32::new(1);
    // SAFETY: `WORD` is a static, so the pointer is always valid. A wait returns at once, because
    // the word does not hold the expected 0.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            WORD.as_ptr(),
            operation | libc::FUTEX_PRIVATE_FLAG,
            0,
            0,
            0,
            0,
        );
    }
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// No system call has this number.
const NO_CALL: u32 = u32::MAX;

/// Installs a filter on the calling thread that kills the process at every system call except a
/// futex wake and `allowed`. The filter cannot be removed.
fn install_filter(allowed: u32) -> io::Result<()> {
    const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
    const EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let wake = libc::FUTEX_WAKE.cast_unsigned();
    let private = libc::FUTEX_PRIVATE_FLAG.cast_unsigned();
    // Offsets in `struct seccomp_data`: number at 0, architecture at 4, arguments at 16, 24, …. The
    // low half of an argument comes first.
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
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: the call takes integers only. It sets a flag of this thread that prevents it from
    // gaining privileges by an exec.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `program` and `steps` are alive during the call, which copies them.
    let installed = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0,
            &raw const program,
        )
    };
    if installed == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
