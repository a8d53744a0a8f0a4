//! Records a crash of this process: a marker with the stack, and the open labels of all threads.
//! Also records the crash of an observed process ([`record_observed`]), for the session.
//!
//! Called by `integrations/crash`. [`prepare`] takes the memory in advance on a thread of the
//! profiler, because the handler of the crash may have interrupted anything: an entry, the
//! allocator, the lock of the chunk manager. The entries are of the same form as all others, so
//! every reader of pools finds them, also after the process has died.
//!
//! ```text
//! 0 (free) ─claim─▶ number of the thread ─drop─▶ 0      the handler; while it holds the claim,
//!                                                       `PREPARED` is its own
//! ```
//!
//! Invariants: what a handler calls takes no lock, waits for nothing, allocates nothing and reads
//! no thread-local. A forked child that has not begun anew records nothing, and the child of a
//! `vfork`, which shares this memory, neither.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::AtomicPtr;
use std::time::Duration;

use super::Category;
use super::crash_marker::CrashMarker;
use super::payload::{PayloadError, encode};
use super::record::{Site, front};
use super::site::{MarkerSite, define_type, no_type};
use crate::entry::stack::Frame;
use crate::entry::{Kind, Timing, stack, with_kind};
use crate::ids::{DefinitionId, ThreadId};
use crate::label::merge::merge;
use crate::label::{LabelStack, MAX_LABELS, registry};
use crate::manager::ChunkManager;
use crate::pool::live::NewThread;
use crate::pool::tag::pool_tag;
use crate::record::reserved_chunk::ReservedChunk;
use crate::record::session_state;
use crate::record::writer::{Front, PayloadBuffer};
use crate::sample_types::CRASH_THREAD;
use crate::sampler::crash_stack::CrashStackRoom;
use crate::sampler::observed::{ObservedFiles, ObservedProcess, ObservedStack};
use crate::sampler::{Captured, PlacedFrame};
use crate::schema::CategoryColor;
use crate::sync::fixed::{AtomicU32, AtomicU64, Ordering};
use crate::sys;
use crate::sys::native::machine::interrupted_registers;
use crate::time::Timestamp;

/// The bytes of the reserved chunk, if the allowance has room for it.
const CHUNK_BYTES: u64 = 32 * 1024;
/// The maximum number of other threads whose open labels are recorded.
const MAX_THREADS: usize = 256;
/// How long [`prepare`] waits for a handler.
const PATIENCE: (u32, Duration) = (1000, Duration::from_millis(1));

/// The thread whose handler records, or that prepares; 0 if there is none.
static HOLDER: AtomicU64 = AtomicU64::new(0);
/// The process that has prepared.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// What is prepared for the running session; from `Box::into_raw`. Belongs to the holder.
static PREPARED: AtomicPtr<Prepared> = AtomicPtr::new(ptr::null_mut());

static CRASHES: Category = Category::new("Crash", CategoryColor::Red, &[]);
static CRASH: MarkerSite = MarkerSite::new("Crash");
static OPEN: MarkerSite = MarkerSite::new("Open at the crash");

/// The result of [`claim`].
#[derive(Debug)]
pub enum Claimed {
    /// The calling thread may record its crash.
    Mine(CrashClaim),
    /// The calling thread was recording a crash, and has crashed in this.
    Nested,
    /// Another thread records its crash.
    ByAnotherThread,
    /// There is nothing to record into.
    Off,
}

/// The right to record a crash. Its drop gives the right back.
#[derive(Debug)]
pub struct CrashClaim(());

impl Drop for CrashClaim {
    fn drop(&mut self) {
        HOLDER.store(0, Ordering::Release);
    }
}

/// What was prepared before the crash.
#[derive(Debug)]
struct Prepared {
    chunk: ReservedChunk,
    crash: Site,
    open: Site,
    room: CrashStackRoom,
    labels: Box<[PlacedFrame]>,
}

/// Prepares for a crash in the running session, and releases what an earlier session had. Called on
/// a thread of the profiler, after each start and each end of recording.
pub fn prepare() {
    let Some(_claim) = wait_for_claim() else {
        return;
    };
    let before = PREPARED.swap(ptr::null_mut(), Ordering::AcqRel);
    if !before.is_null() {
        // SAFETY: from `Box::into_raw`; the claim excludes all other users.
        let before = unsafe { Box::from_raw(before) };
        before.chunk.release();
    }
    PROCESS.store(std::process::id(), Ordering::Release);
    if session_state::is_active()
        && let Some(prepared) = Prepared::new()
    {
        PREPARED.store(Box::into_raw(Box::new(prepared)), Ordering::Release);
    }
}

/// In a forked child that begins anew: forgets what the parent has prepared. Does not drop it,
/// because it refers to a pool that is not mapped here.
pub(crate) fn forget_parent() {
    PREPARED.store(ptr::null_mut(), Ordering::Release);
    HOLDER.store(0, Ordering::Release);
}

fn wait_for_claim() -> Option<CrashClaim> {
    let own = sys::current_thread_id().get();
    (0..PATIENCE.0).find_map(|_| {
        let claimed = take_claim(own).ok();
        if claimed.is_none() {
            std::thread::sleep(PATIENCE.1);
        }
        claimed
    })
}

fn take_claim(own: u64) -> Result<CrashClaim, u64> {
    HOLDER
        .compare_exchange(0, own, Ordering::AcqRel, Ordering::Acquire)
        .map(|_| CrashClaim(()))
}

/// Whether a thread records a crash. For signal handlers.
pub fn is_claimed() -> bool {
    HOLDER.load(Ordering::Acquire) != 0
}

/// Claims the right to record a crash of the calling thread. For signal handlers.
pub fn claim() -> Claimed {
    let is_other_process = || std::process::id() != PROCESS.load(Ordering::Acquire);
    let is_prepared = !PREPARED.load(Ordering::Acquire).is_null();
    if !is_prepared || session_state::is_foreign() || is_other_process() {
        return Claimed::Off;
    }
    let own = sys::current_thread_id().get();
    match take_claim(own) {
        Ok(claim) => Claimed::Mine(claim),
        Err(holder) if holder == own => Claimed::Nested,
        Err(_) => Claimed::ByAnotherThread,
    }
}

impl CrashClaim {
    /// Records the crash. Without `with_stack`, the stack is the address of the crash alone. False
    /// if there is no session or no room. For signal handlers; needs about 16 KiB of stack.
    ///
    /// # Safety
    /// `context` has the registers that the kernel passed to a handler that still runs on this
    /// thread.
    pub unsafe fn record(
        &mut self,
        crash: &CrashMarker<'_>,
        context: *const libc::ucontext_t,
        with_stack: bool,
    ) -> bool {
        // SAFETY: null, or from `Box::into_raw`; the claim excludes all other users.
        let Some(prepared) = (unsafe { PREPARED.load(Ordering::Acquire).as_mut() }) else {
            return false;
        };
        let word = session_state::word();
        let epoch = session_state::epoch_of(word);
        if word & session_state::ACTIVE == 0 || epoch != prepared.chunk.epoch() {
            return false;
        }
        // SAFETY: the caller's promise.
        unsafe { prepared.record(crash, context, with_stack) }
    }
}

impl Prepared {
    fn new() -> Option<Self> {
        let chunk = ReservedChunk::take(CRASH_THREAD, CHUNK_BYTES)?;
        match sites(chunk.manager()) {
            Some((crash, open)) => Some(Self {
                chunk,
                crash,
                open,
                room: CrashStackRoom::new(),
                labels: vec![(Frame::Unknown(0), 0); MAX_LABELS].into_boxed_slice(),
            }),
            None => {
                chunk.release();
                None
            }
        }
    }

    /// See [`CrashClaim::record`].
    ///
    /// # Safety
    /// As there.
    unsafe fn record(
        &mut self,
        crash: &CrashMarker<'_>,
        context: *const libc::ucontext_t,
        with_stack: bool,
    ) -> bool {
        let at = Timestamp::now();
        let own = sys::current_thread_id();
        let name = system_name();
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        self.chunk.ensure_row(NewThread {
            tid: own,
            is_main: false,
            name: name.to_str().unwrap_or_default(),
            at,
        });
        let captured = match with_stack {
            // SAFETY: the caller's promise.
            true => unsafe { self.room.take(context) },
            false => Captured { len: 0, cut: true },
        };
        // SAFETY: the caller's promise.
        let pc = unsafe { interrupted_registers(context) }.pc;
        let alone = [(Frame::Unknown(pc).as_return_address(), 0)];
        let labels = copy_labels(own, &mut self.labels);
        let native = match captured.len {
            0 => alone.as_slice(),
            _ => self.room.frames(captured),
        };
        let labels = self.labels.get(..labels).unwrap_or_default();
        let front = marker_front(self.crash, at, own);
        let entry = (native, labels, captured.cut);
        let is_recorded = add(&mut self.chunk, front, entry, crash) || {
            // An earlier crash that the program has survived is in the way.
            self.chunk.restart(at);
            add(&mut self.chunk, front, entry, crash)
        };
        self.record_open_labels(at, own);
        is_recorded
    }

    /// Records the open labels of the other threads, as far as there is room.
    fn record_open_labels(&mut self, at: Timestamp, own: ThreadId) {
        let (mut left, mut has_room) = (MAX_THREADS, true);
        registry::for_each(|thread, stack| {
            let count = match thread != own && has_room && left > 0 {
                true => stack.copy(pool_tag(), &mut self.labels).unwrap_or(0),
                false => 0,
            };
            if count > 0 {
                left -= 1;
                let labels = self.labels.get(..count).unwrap_or_default();
                let front = marker_front(self.open, at, thread);
                has_room = self.chunk.add(front, |room: PayloadBuffer<'_>| {
                    let frames = merge(&[], labels.iter().copied(), false);
                    Ok(stack::write(room.bytes, frames, false))
                });
            }
        });
    }
}

/// The call sites of the two kinds of markers.
fn sites(manager: &ChunkManager) -> Option<(Site, Site)> {
    let tag = manager.tag();
    let site = |number: DefinitionId| Site { number, tag };
    let category = || (&CRASHES).into();
    let define_crash = |manager: &ChunkManager| define_type(manager, &CrashMarker::EXAMPLE);
    let crash = CRASH.define(manager, category(), define_crash);
    let open = OPEN.define(manager, category(), no_type);
    Some((site(crash.ok()?), site(open.ok()?)))
}

/// Records the crash of a thread of an observed process. False if it was dropped.
pub fn record_observed(
    (process, files): (&mut ObservedProcess, &mut ObservedFiles),
    thread: ThreadId,
    stack: &ObservedStack<'_>,
    crash: &CrashMarker<'_>,
) -> bool {
    let (writer, frames, cut) = process.unwind_crash(files, stack);
    let Some((site, _)) = sites(writer.manager()) else {
        return false;
    };
    writer.in_row_of(CRASH_THREAD, stack.at, |writer| {
        let front = marker_front(site, stack.at, thread);
        writer.with_tail(front, |room| {
            write_body(room, frames.iter().copied(), cut, crash)
        })
    })
}

/// The name that the system has for the calling thread.
fn system_name() -> [u8; 17] {
    let mut name = [0; 17];
    // SAFETY: the system writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

/// Copies the open labels of a thread; returns their number.
fn copy_labels(thread: ThreadId, room: &mut [PlacedFrame]) -> usize {
    let mut found: Option<&'static LabelStack> = None;
    registry::for_each(|owner, stack| {
        if owner == thread {
            found = Some(stack);
        }
    });
    found
        .and_then(|stack| stack.copy(pool_tag(), room))
        .unwrap_or(0)
}

/// The first words of a marker with a stack on this thread.
fn marker_front(site: Site, at: Timestamp, thread: ThreadId) -> Front {
    let front = front(Timing::Instant(at), Some(thread));
    Front {
        head: site.complete(with_kind(front.head, Kind::MarkerWithStack)),
        ..front
    }
}

/// Adds the marker of a crash with the frames, the labels, and whether outer frames are missing.
fn add(
    chunk: &mut ReservedChunk,
    front: Front,
    (native, labels, cut): (&[PlacedFrame], &[PlacedFrame], bool),
    crash: &CrashMarker<'_>,
) -> bool {
    chunk.add(front, |room: PayloadBuffer<'_>| {
        write_body(room, merge(native, labels.iter().copied(), cut), cut, crash)
    })
}

/// Writes the stack and the payload of a crash. `Ok(None)` if the room does not suffice.
fn write_body(
    room: PayloadBuffer<'_>,
    frames: impl ExactSizeIterator<Item = Frame>,
    cut: bool,
    crash: &CrashMarker<'_>,
) -> Result<Option<usize>, ()> {
    let Some(len) = stack::write(room.bytes, frames, cut) else {
        return Ok(None);
    };
    let Some(room) = room.behind(len) else {
        return Ok(None);
    };
    match encode(crash, room.bytes) {
        Ok(bytes) => Ok(Some(bytes.saturating_add(len))),
        Err(PayloadError::NoRoom) => Ok(None),
        Err(_) => Err(()),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::session::{self, SessionParams, StartOptions, alone_in_tests};

    #[test]
    fn a_claim_excludes_other_threads_and_shows_a_crash_within_the_handler() {
        let _alone = alone_in_tests();
        session::start(SessionParams::default(), StartOptions::default()).unwrap();
        prepare();
        let Claimed::Mine(mine) = claim() else {
            panic!("there is no other crash");
        };
        assert!(is_claimed());
        assert!(matches!(claim(), Claimed::Nested));
        let other = std::thread::scope(|scope| scope.spawn(claim).join().unwrap());
        assert!(matches!(other, Claimed::ByAnotherThread));
        drop(mine);
        assert!(!is_claimed());
        session::stop();
        prepare();
        assert!(matches!(claim(), Claimed::Off), "no session runs");
    }
}
