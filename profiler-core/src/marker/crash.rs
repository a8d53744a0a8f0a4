//! Records a crash of this process: a marker with the stack, and the open labels of all threads.
//!
//! Called by `integrations/crash`. A thread of the profiler takes the memory before
//! ([`prepare`]), because the handler of the crash may have interrupted anything: an entry, the
//! allocator, the lock of the chunk manager. The entries are of the same form as all others, so
//! every reader of pools finds them, also after the process has died.
//!
//! ```text
//! 0 (free) ─claim─▶ number of the thread ─drop─▶ 0      the handler; while it holds the claim,
//!                                                       `PREPARED` is its own
//! ```
//!
//! Invariants: what a handler calls takes no lock, waits for nothing, allocates nothing and reads no
//! thread-local. A forked child that has not begun anew records nothing, and the child of a `vfork`,
//! which shares this memory, neither.

#![allow(unsafe_code)]

use std::fmt::Write;
use std::ptr;
use std::sync::atomic::AtomicPtr;
use std::time::Duration;

use serde::Serialize;

use super::payload::{PayloadError, encode};
use super::record::{Site, front};
use super::site::{MarkerSite, define_type, no_type};
use super::{Category, ProfilerMarker};
use crate::entry::stack::Frame;
use crate::entry::{Kind, Timing, stack, with_kind};
use crate::ids::{DefinitionId, ThreadId};
use crate::label::merge::merge;
use crate::label::{LabelStack, MAX_LABELS, registry};
use crate::manager::ChunkManager;
use crate::pool::tag::pool_tag;
use crate::record::reserved_chunk::ReservedChunk;
use crate::record::session_state;
use crate::record::writer::{Front, PayloadBuffer};
use crate::sample_types::CRASH_THREAD;
use crate::sampler::crash_stack::CrashStackRoom;
use crate::sampler::{Captured, PlacedFrame};
use crate::schema::{CategoryColor, Format, MarkerSchema};
use crate::sync::fixed::{AtomicU32, AtomicU64, Ordering};
use crate::sys;
use crate::sys::native::machine::{all_registers, interrupted_registers};
use crate::time::Timestamp;

/// The bytes of the reserved chunk, if the allowance has room for it.
const CHUNK_BYTES: u64 = 32 * 1024;
/// The maximum number of other threads whose open labels are recorded.
const MAX_THREADS: usize = 256;
/// The longest text of the registers, and of an address.
const REGISTERS_BYTES: usize = 1024;
/// How long [`prepare`] waits for a handler.
const PATIENCE: (u32, Duration) = (1000, Duration::from_millis(1));

/// The thread whose handler records, or that prepares; 0 if there is none.
static HOLDER: AtomicU64 = AtomicU64::new(0);
/// The process that has prepared.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// What is prepared for the running session; from `Box::into_raw`. Belongs to the holder.
static PREPARED: AtomicPtr<Prepared> = AtomicPtr::new(ptr::null_mut());

static CRASHES: Category = Category::new("Crash", CategoryColor::Red, &[]);
static CRASH: MarkerSite = MarkerSite::new(CrashMarker::TYPE_NAME);
static OPEN: MarkerSite = MarkerSite::new("Open at the crash");

/// What a handler knows of a crash.
#[derive(Clone, Copy, Debug)]
pub struct CrashFacts {
    /// The name of the signal.
    pub signal: &'static str,
    /// What the signal reports.
    pub reason: &'static str,
    /// The address that the fault is about.
    pub address: Option<u64>,
}

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

/// The fields of a crash.
#[derive(Debug, Serialize)]
struct CrashMarker<'a> {
    signal: &'a str,
    reason: &'a str,
    address: &'a str,
    registers: &'a str,
}

impl ProfilerMarker for CrashMarker<'_> {
    const TYPE_NAME: &'static str = "Crash";
    const IS_OF_PROFILER: bool = true;

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
            .all_labels("{marker.data.signal}: {marker.data.reason}")
            .key_label_format("signal", "Signal", Format::String)
            .key_label_format("reason", "Reason", Format::String)
            .key_label_format("address", "Address", Format::SanitizedString)
            .key_label_format("registers", "Registers", Format::SanitizedString)
            .static_label_value(
                "Description",
                "The thread crashed. The stack is that of the crash.",
            )
    }
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
    /// The claim of a thread that has crashed while it recorded a crash.
    ///
    /// # Safety
    /// [`claim`] has returned [`Claimed::Nested`], and the claim that the thread had is not used
    /// again.
    pub const unsafe fn of_nested() -> Self {
        Self(())
    }

    /// Records the crash. Without `with_stack`, the stack is the address of the crash alone. False
    /// if there is no session or no room. For signal handlers; needs about 16 KiB of stack.
    ///
    /// # Safety
    /// `context` is the one that the kernel passed to a handler that still runs on this thread.
    pub unsafe fn record(
        &mut self,
        facts: &CrashFacts,
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
        unsafe { prepared.record(facts, context, with_stack) }
    }
}

impl Prepared {
    fn new() -> Option<Self> {
        let chunk = ReservedChunk::take(CRASH_THREAD, CHUNK_BYTES)?;
        match Self::sites(chunk.manager()) {
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

    /// The call sites of the two kinds of markers.
    fn sites(manager: &ChunkManager) -> Option<(Site, Site)> {
        let tag = manager.tag();
        let site = |number: DefinitionId| Site { number, tag };
        let example = CrashMarker {
            signal: "",
            reason: "",
            address: "",
            registers: "",
        };
        let category = || (&CRASHES).into();
        let crash = CRASH.define(manager, category(), |manager| {
            define_type(manager, &example)
        });
        let open = OPEN.define(manager, category(), no_type);
        Some((site(crash.ok()?), site(open.ok()?)))
    }

    /// See [`CrashClaim::record`].
    ///
    /// # Safety
    /// As there.
    unsafe fn record(
        &mut self,
        facts: &CrashFacts,
        context: *const libc::ucontext_t,
        with_stack: bool,
    ) -> bool {
        let at = Timestamp::now();
        let own = sys::current_thread_id();
        let captured = match with_stack {
            // SAFETY: the caller's promise.
            true => unsafe { self.room.take(context) },
            false => Captured { len: 0, cut: true },
        };
        // SAFETY: the caller's promise.
        let pc = unsafe { interrupted_registers(context) }.pc;
        let alone = [(Frame::Unknown(pc), 0)];
        let labels = copy_labels(own, &mut self.labels);
        let native = match captured.len {
            0 => alone.as_slice(),
            _ => self.room.frames(captured),
        };
        let labels = self.labels.get(..labels).unwrap_or_default();
        // SAFETY: the caller's promise.
        let registers = unsafe { registers_text(context) };
        let address = address_text(facts.address);
        let payload = CrashMarker {
            signal: facts.signal,
            reason: facts.reason,
            address: address.text(),
            registers: registers.text(),
        };
        let front = marker_front(self.crash, at, own);
        let entry = (native, labels, captured.cut);
        let is_recorded = add(&mut self.chunk, front, entry, &payload) || {
            // An earlier crash that the program has survived is in the way.
            self.chunk.restart(at);
            add(&mut self.chunk, front, entry, &payload)
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
    payload: &CrashMarker<'_>,
) -> bool {
    chunk.add(front, |room: PayloadBuffer<'_>| {
        let frames = merge(native, labels.iter().copied(), cut);
        let Some(len) = stack::write(room.bytes, frames, cut) else {
            return Ok(None);
        };
        let Some(room) = room.behind(len) else {
            return Ok(None);
        };
        match encode(payload, room.bytes) {
            Ok(bytes) => Ok(Some(bytes.saturating_add(len))),
            Err(PayloadError::NoRoom) => Ok(None),
            Err(_) => Err(()),
        }
    })
}

/// A text in memory of fixed size; what does not fit is left out.
struct FixedText<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> FixedText<N> {
    const fn new() -> Self {
        Self {
            bytes: [0; N],
            len: 0,
        }
    }

    fn text(&self) -> &str {
        let bytes = self.bytes.get(..self.len).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl<const N: usize> Write for FixedText<N> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.len.saturating_add(text.len());
        let place = self.bytes.get_mut(self.len..end).ok_or(std::fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

fn address_text(address: Option<u64>) -> FixedText<32> {
    let mut text = FixedText::new();
    if let Some(address) = address {
        let _ = write!(text, "{address:#x}"); // fits
    }
    text
}

/// The registers, such as `rip=0x1 rsp=0x2`.
///
/// # Safety
/// As for [`CrashClaim::record`].
unsafe fn registers_text(context: *const libc::ucontext_t) -> FixedText<REGISTERS_BYTES> {
    let mut text = FixedText::new();
    // SAFETY: the caller's promise.
    for (index, (name, value)) in unsafe { all_registers(context) }.into_iter().enumerate() {
        let separator = if index == 0 { "" } else { " " };
        let _ = write!(text, "{separator}{name}={value:#x}"); // fits
    }
    text
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

    #[test]
    fn a_text_that_does_not_fit_is_left_out() {
        let mut text = FixedText::<4>::new();
        assert!(write!(text, "ab").is_ok() && write!(text, "cde").is_err());
        assert_eq!(text.text(), "ab");
        assert_eq!(address_text(Some(u64::MAX)).text(), "0xffffffffffffffff");
        assert_eq!(address_text(None).text(), "");
    }
}
