//! The threads of this process: their rows, and their timers.
//!
//! A row exists twice: in the file, for the session, and here, for the handler, which trusts only
//! this one. The thread that starts another one claims its row, so the start needs no memory.
//!
//! Invariants: a row has one owner from [`claim`] to [`release`]; only the owner makes and deletes
//! its timer. In a forked child all rows but the first are free.

use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

use crate::layout::{MAX_ROWS, Notes, PAGE, ROWS_PER_PAGE, row_at};
use crate::process::{self, FilterState};
use crate::raw::{
    Call, Clock, call, call3, limit_of_process, limits_of_process, populate_pages, process_id,
    thread_id,
};

/// The value of [`OwnRow::timer`] without a timer; all zeros, so the rows take no memory at first.
const NO_TIMER: i32 = 0;
const SIGEV_THREAD_ID: u32 = 4;
/// The upper half of the value that our timers send, by which the handler knows them.
pub(crate) const TIMER_MARK: u64 = 0x6d70_6f62;
/// The words that an alternate signal stack needs besides the frame that the system puts there.
const HANDLER_BYTES: usize = 2048;

/// What the handler knows about a thread.
#[derive(Debug)]
pub(crate) struct OwnRow {
    is_used: AtomicU32,
    /// The number of its timer, plus 1.
    timer: AtomicI32,
    /// The upper end of the thread's stack; nothing above it is copied.
    pub(crate) stack_top: AtomicUsize,
    /// The maximum size of the thread's stack, in bytes. An address further below the upper end is
    /// in another stack.
    pub(crate) stack_bytes: AtomicUsize,
    /// What the thread is to run, and its argument.
    pub(crate) run: AtomicUsize,
    pub(crate) argument: AtomicUsize,
}

impl OwnRow {
    /// The upper end of the thread's stack, and its maximum size in bytes.
    pub(crate) fn stack_bounds(&self) -> (u64, u64) {
        let top = self.stack_top.load(Ordering::Relaxed);
        let bytes = self.stack_bytes.load(Ordering::Relaxed);
        (top as u64, bytes as u64)
    }
}

static ROWS: [OwnRow; MAX_ROWS] = [const {
    OwnRow {
        is_used: AtomicU32::new(0),
        timer: AtomicI32::new(NO_TIMER),
        stack_top: AtomicUsize::new(0),
        stack_bytes: AtomicUsize::new(0),
        run: AtomicUsize::new(0),
        argument: AtomicUsize::new(0),
    }
}; MAX_ROWS];

/// Where the search for a free row begins.
static NEXT: AtomicUsize = AtomicUsize::new(1);

/// All rows that were ever used are below this. Those above it are never read, so they take no
/// memory.
static FRONTIER: AtomicUsize = AtomicUsize::new(1);

/// The rows that may be in use.
fn used_rows() -> impl Iterator<Item = &'static OwnRow> {
    ROWS.iter().take(FRONTIER.load(Ordering::Acquire))
}

const UNKNOWN: u8 = 0;
const PRESENT: u8 = 1;
const REFUSED: u8 = 2;
/// Whether each page of rows in the file has memory.
static PAGES: [AtomicU8; MAX_ROWS / ROWS_PER_PAGE] =
    [const { AtomicU8::new(UNKNOWN) }; MAX_ROWS / ROWS_PER_PAGE];

/// A thread's own row. `None` if there is none with this number.
pub(crate) fn own_row(row: usize) -> Option<&'static OwnRow> {
    ROWS.get(row)
}

/// Claims a free row. `None` if there is none, or no memory for it.
pub(crate) fn claim() -> Option<usize> {
    let from = NEXT.load(Ordering::Relaxed);
    let mut numbers = (from..MAX_ROWS).chain(1..from.min(MAX_ROWS));
    let row = numbers.find(|row| claim_row(*row))?;
    NEXT.store(row, Ordering::Relaxed);
    Some(row)
}

/// Claims this row if it is free. Row 0 is the main thread's, or that of a forked child.
fn claim_row(row: usize) -> bool {
    let Some(own) = ROWS.get(row) else {
        return false;
    };
    FRONTIER.fetch_max(row.wrapping_add(1), Ordering::AcqRel);
    own.is_used.load(Ordering::Relaxed) == 0
        && has_memory(row)
        && own
            .is_used
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
}

/// Whether the row's page in the file has memory. Allocates it if necessary.
fn has_memory(row: usize) -> bool {
    let Some(page) = PAGES.get(row / ROWS_PER_PAGE) else {
        return false;
    };
    if row < ROWS_PER_PAGE {
        return true; // exists from the start
    }
    match page.load(Ordering::Acquire) {
        PRESENT => true,
        UNKNOWN if process::filter() == FilterState::None => {
            let populated = populate(row);
            page.store(if populated { PRESENT } else { REFUSED }, Ordering::Release);
            populated
        }
        _ => false,
    }
}

fn populate(row: usize) -> bool {
    let file = process::file();
    let Some(at) = row_at(row).filter(|_| !file.is_null()) else {
        return false;
    };
    populate_pages(file.addr().wrapping_add(at / PAGE * PAGE), PAGE)
}

/// The stack of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadStack {
    /// Its upper end.
    pub(crate) top: usize,
    /// Its maximum size, in bytes.
    pub(crate) bytes: usize,
}

impl ThreadStack {
    /// The stack of the main thread, with this upper end, when the program begins. The program may
    /// raise its limit up to the hard limit.
    pub(crate) fn of_main_thread(top: usize) -> Self {
        let [soft, hard] = limits_of_process(RLIMIT_STACK);
        USUAL_STACK.store(within_bounds(soft), Ordering::Relaxed);
        let bytes = within_bounds(hard);
        Self { top, bytes }
    }

    /// The stack of a thread for which the program chooses no size. Calls no system function.
    pub(crate) fn of_usual_size(top: usize) -> Self {
        let bytes = USUAL_STACK.load(Ordering::Relaxed);
        Self { top, bytes }
    }
}

fn within_bounds(limit: u64) -> usize {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    limit.clamp(MIN_USUAL_STACK, MAX_USUAL_STACK)
}

/// The size of stacks that was usual when the program began: the C library reads the limit then.
static USUAL_STACK: AtomicUsize = AtomicUsize::new(MIN_USUAL_STACK);

const RLIMIT_STACK: usize = 3;
/// The C libraries choose at most this size if there is no limit.
const MIN_USUAL_STACK: usize = 8 << 20;
/// Programs without a limit use far smaller stacks.
const MAX_USUAL_STACK: usize = 1 << 30;

/// Begins to sample the calling thread, which owns the row and has this stack.
pub(crate) fn begin(row: usize, stack: ThreadStack) {
    if !process::is_intact() {
        return;
    }
    if !process::may_call_system() {
        // Another thread has installed a filter since this one was made.
        return count_without_row();
    }
    let (Some(own), Some(shared)) = (ROWS.get(row), process::row(row)) else {
        return;
    };
    own.is_used.store(1, Ordering::Relaxed);
    own.stack_bytes.store(stack.bytes, Ordering::Relaxed);
    own.stack_top.store(stack.top, Ordering::Relaxed);
    let cpu_ns = Clock::THREAD.now_ns();
    shared.tid.store(thread_id(), Ordering::Relaxed);
    shared.began.store(process::now(), Ordering::Relaxed);
    shared.began_cpu_ns.store(cpu_ns, Ordering::Relaxed);
    shared.sampled_cpu_ns.store(cpu_ns, Ordering::Relaxed);
    shared.ended_cpu_ns.store(0, Ordering::Relaxed);
    shared.refused.store(0, Ordering::Relaxed);
    shared.uses.fetch_or(1, Ordering::Release);
    if let Some(header) = process::header() {
        header.threads.fetch_add(1, Ordering::Relaxed);
        if !arm(row) {
            header.threads_without_timer.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Counts a thread that has no row.
pub(crate) fn count_without_row() {
    if !process::is_intact() {
        return;
    }
    if let Some(header) = process::header() {
        header.threads.fetch_add(1, Ordering::Relaxed);
        header.threads_without_timer.fetch_add(1, Ordering::Relaxed);
    }
}

/// Stores the end of the calling thread, and releases its row.
pub(crate) fn end(row: usize) {
    disarm(row);
    let shared = process::row(row).filter(|_| process::is_intact());
    if let Some(shared) = shared {
        store_end(shared);
        let uses = shared.uses.load(Ordering::Relaxed);
        shared
            .uses
            .store(uses.wrapping_add(1) & !1, Ordering::Release);
    }
    release(row);
}

fn store_end(shared: &crate::layout::ThreadRow) {
    shared.ended.store(process::now(), Ordering::Relaxed);
    shared
        .ended_cpu_ns
        .store(Clock::THREAD.now_ns(), Ordering::Release);
}

/// Gives a row back that was claimed for a thread that did not start, or that has ended.
pub(crate) fn release(row: usize) {
    if let Some(own) = ROWS.get(row) {
        own.is_used.store(0, Ordering::Release);
    }
    NEXT.fetch_min(row.max(1), Ordering::Relaxed);
}

/// In a forked child: frees all rows, of which the child has none. Its parent's timers do not exist
/// in it.
pub(crate) fn forget_all() {
    for own in used_rows() {
        if own.is_used.swap(0, Ordering::Relaxed) != 0 {
            own.timer.store(NO_TIMER, Ordering::Relaxed);
        }
    }
    for page in &PAGES {
        page.store(UNKNOWN, Ordering::Relaxed);
    }
    TIMERS.store(0, Ordering::Relaxed);
    NEXT.store(1, Ordering::Relaxed);
    FRONTIER.store(1, Ordering::Relaxed);
}

/// Makes the timer of the calling thread, which owns the row. False if there is none.
pub(crate) fn arm(row: usize) -> bool {
    let Some(own) = ROWS
        .get(row)
        .filter(|_| process::may_call_system() && !process::has_given_way())
    else {
        return false;
    };
    if !has_room_for_handler() {
        process::note(Notes::SMALL_STACK);
        return false;
    }
    if !claim_timer() {
        return false;
    }
    let Some(timer) = make_timer(row) else {
        TIMERS.fetch_sub(1, Ordering::Relaxed);
        return false;
    };
    own.timer.store(timer.wrapping_add(1), Ordering::SeqCst);
    // A recorder may have taken over, and deleted all timers, just before.
    process::is_recorded() || !disarm(row)
}

/// The timers of this process, and those that its threads are about to make.
static TIMERS: AtomicU64 = AtomicU64::new(0);
const RLIMIT_SIGPENDING: usize = 11;

/// Counts one more timer if the process has fewer than a quarter of the user's limit on pending
/// signals. Each timer counts as a pending signal. How many other processes have is not known.
fn claim_timer() -> bool {
    let most = limit_of_process(RLIMIT_SIGPENDING) / 4;
    let is_claimed = TIMERS.fetch_add(1, Ordering::Relaxed) < most;
    if !is_claimed {
        TIMERS.fetch_sub(1, Ordering::Relaxed);
    }
    is_claimed
}

/// `struct sigevent` of the kernel.
#[repr(C)]
struct Event {
    value: u64,
    signal: u32,
    notify: u32,
    thread: i32,
    reserved: [u32; 11],
}

fn make_timer(row: usize) -> Option<i32> {
    let configuration = process::configuration();
    let event = Event {
        value: TIMER_MARK << 32 | row as u64,
        signal: configuration.signal,
        notify: SIGEV_THREAD_ID,
        thread: thread_id(),
        reserved: [0; 11],
    };
    let mut timer = 0_i32;
    // SAFETY: the kernel reads the event and writes the number, both locals of its types.
    let made = unsafe {
        call3(
            Call::TIMER_CREATE,
            Clock::THREAD.0,
            (&raw const event).addr(),
            (&raw mut timer).addr(),
        )
    };
    if made != 0 {
        return None;
    }
    let interval = configuration.interval_ns;
    // Threads that start together do not expire together.
    let spread = process::now().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let first = ((interval * spread) >> 32).max(1);
    let second = 1_000_000_000;
    let times = [
        interval / second,
        interval % second,
        first / second,
        first % second,
    ];
    // SAFETY: the kernel reads four words from a local array.
    unsafe {
        call(
            Call::TIMER_SETTIME,
            [timer as usize, 0, (&raw const times).addr(), 0, 0, 0],
        );
    }
    Some(timer)
}

/// Deletes the timer of a row. True if there was one in this process.
///
/// After the call, none of its signals reaches the calling thread if the row is its own: one that
/// was pending has been handled.
pub(crate) fn disarm(row: usize) -> bool {
    let timer = ROWS
        .get(row)
        .map_or(NO_TIMER, |own| own.timer.swap(NO_TIMER, Ordering::SeqCst));
    if timer == NO_TIMER {
        return false;
    }
    TIMERS.fetch_sub(1, Ordering::Relaxed);
    // SAFETY: deletes a timer that this library has made.
    unsafe { call3(Call::TIMER_DELETE, timer.wrapping_sub(1) as usize, 0, 0) == 0 }
}

/// Deletes the timers of all threads.
pub(crate) fn disarm_all() {
    for row in 0..FRONTIER.load(Ordering::Acquire) {
        let is_used = |own: &OwnRow| own.is_used.load(Ordering::Relaxed) != 0;
        if ROWS.get(row).is_some_and(is_used) {
            disarm(row);
        }
    }
}

/// The row of the calling thread, if it has one. Reads all rows.
pub(crate) fn row_of_caller() -> Option<usize> {
    (0..FRONTIER.load(Ordering::Acquire)).find(|row| is_of_caller(*row))
}

/// Whether the calling thread's alternate signal stack, if it has one, has room for the handler.
pub(crate) fn has_room_for_handler() -> bool {
    let mut stack = [0_usize; 3];
    // SAFETY: the kernel writes a `stack_t`, which has three words, into a local array.
    unsafe { call3(Call::SIGALTSTACK, 0, (&raw mut stack).addr(), 0) };
    let [_, flags, bytes] = stack;
    const SS_DISABLE: usize = 2;
    if flags & 0xffff_ffff & SS_DISABLE != 0 {
        return true;
    }
    if bytes < LARGEST_FRAME.load(Ordering::Relaxed) + HANDLER_BYTES {
        HAS_TIGHT_STACK.store(true, Ordering::Relaxed);
    }
    bytes >= least_alternate_stack()
}

/// The size of the frame that the system puts on a stack for a signal, in bytes.
static SIGNAL_FRAME: AtomicUsize = AtomicUsize::new(0);
/// The size of that frame with the tile registers, in bytes.
static LARGEST_FRAME: AtomicUsize = AtomicUsize::new(0);
/// Whether a thread has had an alternate stack that is too small for the handler if the frame
/// contains the tile registers.
static HAS_TIGHT_STACK: AtomicBool = AtomicBool::new(false);

/// Sets the size of the frame that the system puts on a stack for a signal. On x86-64, the size
/// that the system reports includes all registers that a process may request. The tile registers
/// (AMX) take 8 KiB of it, and are in the frame only if the process has requested them. The
/// alternate stacks of Rust's threads have exactly the reported size.
pub(crate) fn set_signal_frame(reported: usize) {
    let has_tiles = cfg!(target_arch = "x86_64") && reported > WITHOUT_TILES;
    let at_present = if has_tiles && !uses_tiles() {
        reported.saturating_sub(TILES).max(LEAST_FRAME)
    } else {
        reported
    };
    SIGNAL_FRAME.store(at_present, Ordering::Relaxed);
    LARGEST_FRAME.store(reported, Ordering::Relaxed);
}

/// The maximum size of a frame without the tile registers, in bytes.
const WITHOUT_TILES: usize = 4096;
/// The size of the tile registers, in bytes.
const TILES: usize = 8192;
/// The minimum size of a frame, in bytes.
const LEAST_FRAME: usize = 2048;

/// Whether the process has requested the tile registers.
fn uses_tiles() -> bool {
    const ARCH_GET_XCOMP_PERM: usize = 0x1022;
    const TILE_DATA: u64 = 1 << 18;
    let mut permitted = 0_u64;
    // SAFETY: the kernel writes one number into a local. aarch64 does not have this call.
    let failed = unsafe {
        call3(
            Call::ARCH_PRCTL,
            ARCH_GET_XCOMP_PERM,
            (&raw mut permitted).addr(),
            0,
        )
    };
    failed != 0 || permitted & TILE_DATA != 0
}

/// Prepares for the tile registers, which the process is about to request and which make frames
/// larger. If the alternate stack of a thread may then be too small, the sampling of all threads
/// ends.
pub(crate) fn expect_tiles() {
    let largest = LARGEST_FRAME.load(Ordering::Relaxed);
    if SIGNAL_FRAME.swap(largest, Ordering::Relaxed) != largest
        && HAS_TIGHT_STACK.load(Ordering::Relaxed)
        && process::may_call_system()
    {
        process::note(Notes::SMALL_STACK);
        disarm_all();
    }
}

/// The smallest alternate signal stack on which the handler runs.
pub(crate) fn least_alternate_stack() -> usize {
    SIGNAL_FRAME
        .load(Ordering::Relaxed)
        .wrapping_add(HANDLER_BYTES)
}

/// Whether the calling thread has this row.
pub(crate) fn is_of_caller(row: usize) -> bool {
    let is_used = |own: &OwnRow| own.is_used.load(Ordering::Relaxed) != 0;
    ROWS.get(row).is_some_and(is_used)
        && process::row(row).is_some_and(|shared| shared.tid.load(Ordering::Relaxed) == thread_id())
}

/// The stack of the calling thread in a child that was just forked. It is found among the stacks of
/// the parent's threads.
pub(crate) fn stack_of_caller() -> ThreadStack {
    let here = 0_usize;
    let sp = (&raw const here).addr();
    let stacks = used_rows()
        .filter(|own| own.is_used.load(Ordering::Relaxed) != 0)
        .map(|own| ThreadStack {
            top: own.stack_top.load(Ordering::Relaxed),
            bytes: own.stack_bytes.load(Ordering::Relaxed),
        });
    let above = stacks.filter(|stack| stack.top > sp);
    let nearest = above.min_by_key(|stack| stack.top);
    nearest.unwrap_or(ThreadStack { top: sp, bytes: 0 })
}

/// The number of the process whose file this is. Differs from the caller's in a child of `vfork`.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Notes that the calling process has the file.
pub(crate) fn note_process() {
    PROCESS.store(process_id(), Ordering::Relaxed);
}

/// Whether the calling process has the file. Calls the system.
pub(crate) fn is_own_process() -> bool {
    PROCESS.load(Ordering::Relaxed) == process_id()
}
