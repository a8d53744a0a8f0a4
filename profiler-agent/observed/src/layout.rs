//! The bytes that an observed process shares with its session: one file for each process.
//!
//! The preloaded library makes the file in the session's directory, maps it, and writes to it. The
//! session never maps it: it reads by position, trusts nothing, and writes only the bytes of
//! [`Control::freed`] and [`Control::granted`].
//!
//! ```text
//! page 0         Header: who the process is, when its program began and ended, counts
//!   from 192     Control: the states of the ring's pages
//!   from 1,024   text: the name of the program, then its files with code
//! page 1         ThreadRow × 64
//! pages 2–257    ring: samples, each in 1 to 16 pages
//! pages 258–512  ThreadRow × 16,320: the rows that do not fit into page 1
//! pages 513–516  the text that does not fit into page 0
//! ```
//!
//! The file is sparse. [`FIRST_BYTES`] are allocated when it is made, so no store of the signal
//! handler can fail in a file system that is full. Each page of them costs a program about 1 µs at
//! its start. The session allocates further pages of the ring from its memory limit and then raises
//! [`Control::granted`]; the handler uses no page above that. The process allocates further rows
//! itself, outside of the handler, and uses none that the system refuses. It allocates the pages
//! for a long text when it makes the file.
//!
//! # Life of a page of the ring
//!
//! ```text
//!         claim: claimed = freed + 1 (handler)          published = claimed (handler)
//!  free ───────────────────────────────────▶ filling ─────────────────────────────▶ full
//!    ▲                                                                               │
//!    └───────────────────────────── freed = claimed (session) ◀──────────────────────┘
//! ```
//!
//! A page is free while `claimed` and `freed` have the same value. Each page has one byte for each
//! step, because the session can write only whole bytes atomically: it has no mapping. The handler
//! claims by compare-and-swap from the value that it has compared with `freed`, so a page has one
//! claimant. `published` is set in the first page of a sample, after all pages of the sample are
//! filled, by a release store. The session reads the states in one call, and the pages in later
//! ones. A page that a killed process has claimed and not published is never free again.
//!
//! Nothing here refers to memory, and the library reads back only page states: another process that
//! can write to the file can spoil the samples, and nothing else.

use core::mem::{offset_of, size_of};
use core::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64};

/// The bytes of a page of the file, whatever the size of the system's pages is.
pub const PAGE: usize = 4096;
/// The first word of each file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"mpprofob");
/// The version of this layout.
pub const VERSION: u32 = 3;

/// The pages of the ring.
pub const RING_PAGES: usize = 256;
/// The pages of the ring that exist before the session has granted any.
pub const FIRST_RING_PAGES: usize = 16;
/// The number of pages at the start of the ring that are reserved for a crash. Other samples do not
/// use them if crashes are recorded.
pub const CRASH_PAGES: usize = 8;
/// The most pages of one sample.
pub const SAMPLE_PAGES: usize = 16;
/// The most threads of a process that are sampled at the same time.
pub const MAX_ROWS: usize = FIRST_ROWS + MORE_ROW_PAGES * ROWS_PER_PAGE;
/// The rows that exist from the start.
pub const FIRST_ROWS: usize = ROWS_PER_PAGE;
/// The rows of a page.
pub const ROWS_PER_PAGE: usize = PAGE / size_of::<ThreadRow>();
const MORE_ROW_PAGES: usize = 255;

/// The place of [`Control`].
pub const CONTROL_AT: usize = 192;
/// The place of the first [`FIRST_TEXT_BYTES`] of the text.
pub const TEXT_AT: usize = 1024;
/// The bytes of text in page 0.
pub const FIRST_TEXT_BYTES: usize = PAGE - TEXT_AT;
const ROWS_AT: usize = PAGE;
/// The place of the ring.
pub const RING_AT: usize = 2 * PAGE;
const MORE_ROWS_AT: usize = RING_AT + RING_PAGES * PAGE;
/// The place of the rest of the text.
pub const MORE_TEXT_AT: usize = MORE_ROWS_AT + MORE_ROW_PAGES * PAGE;
/// The room for the rest of the text, in bytes.
pub const MORE_TEXT_BYTES: usize = 4 * PAGE;
/// The room for the text, in bytes.
pub const TEXT_BYTES: usize = FIRST_TEXT_BYTES + MORE_TEXT_BYTES;
/// The length of the file.
pub const FILE_BYTES: usize = MORE_TEXT_AT + MORE_TEXT_BYTES;
/// The bytes at the file's start that are allocated when it is made.
pub const FIRST_BYTES: usize = RING_AT + FIRST_RING_PAGES * PAGE;

/// The place of a byte of the text.
#[must_use]
pub const fn text_at(offset: usize) -> usize {
    if offset < FIRST_TEXT_BYTES {
        TEXT_AT + offset
    } else {
        MORE_TEXT_AT + (offset - FIRST_TEXT_BYTES)
    }
}

/// The place of a thread's row. `None` if there is no such row.
#[must_use]
pub const fn row_at(row: usize) -> Option<usize> {
    if row < FIRST_ROWS {
        Some(ROWS_AT + row * size_of::<ThreadRow>())
    } else if row < MAX_ROWS {
        Some(MORE_ROWS_AT + (row - FIRST_ROWS) * size_of::<ThreadRow>())
    } else {
        None
    }
}

/// The place of a page of the ring. `None` if there is no such page.
#[must_use]
pub const fn ring_page_at(page: usize) -> Option<usize> {
    if page < RING_PAGES {
        Some(RING_AT + page * PAGE)
    } else {
        None
    }
}

/// Who the process is and what it did. Written by the process only.
#[derive(Debug)]
#[repr(C)]
pub struct Header {
    /// [`MAGIC`]; the last word that is written while the file is made.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// The number of the process, as it sees itself: another one in another PID namespace.
    pub pid: AtomicU32,
    /// The number of its parent process, as the process sees it.
    pub parent: AtomicU32,
    /// The bytes of text.
    pub text_bytes: AtomicU32,
    /// The value of the clock of samples when the library began in this program.
    pub began: AtomicU64,
    /// The monotonic clock at that instant, in nanoseconds, as the process sees it.
    pub began_monotonic_ns: AtomicU64,
    /// The processor time of the process at that instant, in nanoseconds. Not 0 if the process has
    /// executed this program in place of another one.
    pub began_cpu_ns: AtomicU64,
    /// How the observation ended, see [`Ending`]; 0 while it goes on, and if it was killed.
    pub ending: AtomicU32,
    /// Facts that the library has met, see [`Notes`].
    pub notes: AtomicU32,
    /// The clock of samples when the program ended or executed another one.
    pub ended: AtomicU64,
    /// The processor time of the process at that instant, in nanoseconds.
    pub ended_cpu_ns: AtomicU64,
    /// The threads that have begun.
    pub threads: AtomicU64,
    /// The threads that found no row or got no timer: they have no samples.
    pub threads_without_timer: AtomicU64,
    /// The samples that found no free page.
    pub refused: AtomicU64,
    /// The forked children that could make no file: they are not recorded.
    pub forks_without_file: AtomicU64,
    /// Whether a forked child has taken the file, if it was made in reserve.
    pub taken: AtomicU32,
    reserved: u32,
    /// The device of the program's file, as the process sees it.
    pub program_device: AtomicU64,
    /// The inode of the program's file.
    pub program_inode: AtomicU64,
    /// The address that the fault of the recorded crash is about.
    pub crash_address: AtomicU64,
    /// The number of the thread of the crash, as the process sees it.
    pub crash_tid: AtomicI32,
    /// The signal of the crash; 0 without one. Stored before its sample is published.
    pub crash_signal: AtomicU32,
    /// What the signal reports: `si_code`.
    pub crash_code: AtomicI32,
    /// 0 without a crash, 1 while a thread records one, 2 when the record is complete. At most one
    /// crash is recorded in a file.
    pub crash_claimed: AtomicU32,
}

/// How the observation of a program ended, as its process has stored it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Ending {
    /// It runs, or was killed.
    None = 0,
    /// It has called `exit`, or returned from `main`.
    Exit = 1,
    /// It has executed another program.
    Exec = 2,
    /// It goes on, and a recorder in it has begun to record it.
    Recorder = 3,
}

/// Facts about a program that the profile reports: bits of [`Header::notes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notes(pub u32);

impl Notes {
    /// The program has installed a filter of system calls that allows our handler.
    pub const FILTERED: Self = Self(1);
    /// The program has installed a filter of system calls under which no sample is possible; the
    /// timers were deleted before.
    pub const FORBIDDEN: Self = Self(2);
    /// The program has asked for our signal itself.
    pub const WANTS_SIGNAL: Self = Self(4);
    /// A thread has a stack, or an alternate signal stack, that is too small for our handler.
    pub const SMALL_STACK: Self = Self(8);
    /// The text was too long.
    pub const TEXT_CUT: Self = Self(16);
}

/// The states of the ring's pages. [`Control::freed`] and [`Control::granted`] are written by the
/// session only, everything else by the process only.
#[derive(Debug)]
#[repr(C)]
pub struct Control {
    /// How often each page was claimed, modulo 256.
    pub claimed: [AtomicU8; RING_PAGES],
    /// The value of `claimed` at which the page was published as the first page of a sample.
    pub published: [AtomicU8; RING_PAGES],
    /// The value of `claimed` up to which the session has freed the page.
    pub freed: [AtomicU8; RING_PAGES],
    /// How many times 16 pages the session has granted, besides [`FIRST_RING_PAGES`].
    pub granted: AtomicU8,
}

/// The bytes of [`Control`] that the session reads at once.
pub const CONTROL_BYTES: usize = size_of::<Control>();
/// The place of [`Control::freed`].
pub const FREED_AT: usize = CONTROL_AT + offset_of!(Control, freed);
/// The place of [`Control::granted`].
pub const GRANTED_AT: usize = CONTROL_AT + offset_of!(Control, granted);

/// One thread. Written by the process only.
#[derive(Debug)]
#[repr(C)]
pub struct ThreadRow {
    /// How often the row was used; odd while a thread has it.
    pub uses: AtomicU32,
    /// The number of the thread, as the process sees it.
    pub tid: AtomicI32,
    /// The clock of samples when the thread began.
    pub began: AtomicU64,
    /// The thread's processor time when it got the row, in nanoseconds.
    pub began_cpu_ns: AtomicU64,
    /// The thread's processor time at its last sample, in nanoseconds.
    pub sampled_cpu_ns: AtomicU64,
    /// The thread's processor time at its end, in nanoseconds; 0 while it runs.
    pub ended_cpu_ns: AtomicU64,
    /// The clock of samples when the thread ended.
    pub ended: AtomicU64,
    /// The samples of the thread that found no free page.
    pub refused: AtomicU32,
    reserved: [u32; 3],
}

/// The first bytes of a sample, in its first page. The stack's bytes follow, and go on in the
/// further pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SampleHead {
    /// The clock of samples.
    pub at: u64,
    /// The thread's processor time, in nanoseconds, since the thread began.
    pub cpu_ns: u64,
    /// The registers from which unwinding begins. `lr` is 0 on x86-64.
    pub pc: u64,
    /// See `pc`.
    pub sp: u64,
    /// See `pc`.
    pub fp: u64,
    /// See `pc`.
    pub lr: u64,
    /// The number of the thread's row.
    pub row: u32,
    /// [`ThreadRow::uses`] of that row.
    pub uses: u32,
    /// The bytes of the stack, from the stack pointer rounded down to 8.
    pub stack_bytes: u32,
    /// Any of [`IS_CUT`], [`IS_ELSEWHERE`], [`IS_CRASH`] and [`IS_CRASH_MAPS`].
    pub flags: u32,
    /// The time in the handler so far, in units of the clock of samples.
    pub held: u32,
    /// How many entries of `pages` are in use.
    pub more_pages: u32,
    /// The further pages, in order.
    pub pages: [u16; SAMPLE_PAGES - 1],
    /// The value of [`Control::claimed`] of the first page, and of the further ones.
    pub claims: [u8; SAMPLE_PAGES],
    /// 0.
    pub reserved: [u8; 2],
    /// The number of the thread, as its process sees it.
    pub tid: i32,
    /// 0.
    pub reserved_end: [u8; 4],
}

/// In [`SampleHead::flags`]: the stack is longer than the bytes.
pub const IS_CUT: u32 = 1;
/// In [`SampleHead::flags`]: the stack pointer is not in the thread's own stack.
pub const IS_ELSEWHERE: u32 = 2;
/// In [`SampleHead::flags`]: the sample is the stack of the crash of [`Header::crash_signal`].
pub const IS_CRASH: u32 = 4;
/// In [`SampleHead::flags`], with [`IS_CRASH`]: in place of a stack, the bytes are lines of the
/// system's list of the mappings at the crash.
pub const IS_CRASH_MAPS: u32 = 8;
/// The bytes of a sample's head.
pub const HEAD_BYTES: usize = size_of::<SampleHead>();
/// The most bytes of a stack in one sample.
pub const MAX_STACK_BYTES: usize = SAMPLE_PAGES * PAGE - HEAD_BYTES;

const _: () = {
    assert!(size_of::<Header>() <= CONTROL_AT);
    assert!(CONTROL_AT + size_of::<Control>() <= TEXT_AT);
    assert!(size_of::<ThreadRow>() == 64);
    assert!(HEAD_BYTES == 128);
    assert!(FIRST_RING_PAGES.is_multiple_of(16) && RING_PAGES.is_multiple_of(16));
};
