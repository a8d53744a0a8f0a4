//! Threads on stacks of a given size, created as a C program creates them.
//!
//! Used by the program `small_stacks` and by the figures. A stack either comes from the C library,
//! with its guard page, or it is painted with a fill byte: the overwritten bytes then show how deep
//! the thread went. The C library uses the upper end of the stack for the thread's control block
//! and static thread-locals. They count as used, as they do in a real program.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr;

use anyhow::{Result, ensure};

use super::Kind;

/// The fill byte. Other data on a stack is unlikely to contain long runs of it.
const PAINT: u8 = 0xa5;
/// The size of a painted stack, which is more than any entry uses.
const PAINTED: usize = 1 << 20;

/// Returns how many bytes of its stack a thread used to record `times` entries: in total, and below
/// the frame of the thread's own function.
///
/// # Errors
/// When the system has no memory, or cannot start a thread.
pub fn bytes_used(kind: Kind, times: u32) -> Result<(usize, usize)> {
    let stack = Painted::new()?;
    let work = Work {
        kind,
        times,
        least: None,
        frame: 0,
    };
    let thread = Thread::start(work, |attributes| {
        // SAFETY: initialised attributes; the memory outlives the thread, which is joined below.
        unsafe { libc::pthread_attr_setstack(attributes, stack.0, PAINTED) }
    })?;
    let frame = thread.join()?.frame;
    let lowest = stack.lowest_used();
    Ok((
        stack.0.addr() + PAINTED - lowest,
        frame.saturating_sub(lowest),
    ))
}

/// Starts a thread with a stack of `bytes` bytes, which records at every depth, in steps of a few
/// hundred bytes, while at least `least` bytes are left.
///
/// # Errors
/// When the system cannot start a thread, or refuses a stack of this size.
pub fn at_every_depth(kind: Kind, bytes: usize, least: usize) -> Result<()> {
    let work = Work {
        kind,
        times: 1,
        least: Some(least),
        frame: 0,
    };
    Thread::start(work, |attributes| {
        // SAFETY: initialised attributes.
        unsafe { libc::pthread_attr_setstacksize(attributes, bytes) }
    })?
    .join()?;
    Ok(())
}

/// Starts `count` threads on stacks of `bytes` bytes, at most 32 at a time. Each records `times`
/// times.
///
/// # Errors
/// When the system cannot start a thread, or refuses a stack of this size.
pub fn crowd(kind: Kind, bytes: usize, count: usize, times: u32) -> Result<()> {
    for first in (0..count).step_by(32) {
        let some = (first..count.min(first + 32)).map(|_| {
            let work = Work {
                kind,
                times,
                least: None,
                frame: 0,
            };
            Thread::start(work, |attributes| {
                // SAFETY: initialised attributes.
                unsafe { libc::pthread_attr_setstacksize(attributes, bytes) }
            })
        });
        let all: Vec<_> = some.collect::<Result<_>>()?;
        all.into_iter()
            .try_for_each(|thread| thread.join().map(drop))?;
    }
    Ok(())
}

/// What a thread does.
struct Work {
    kind: Kind,
    times: u32,
    /// Recurses until fewer than this number of bytes are left.
    least: Option<usize>,
    /// An address in the frame of the thread's own function.
    frame: usize,
}

/// A thread, and the value that it uses until it is joined.
struct Thread(libc::pthread_t, *mut Work);

impl Thread {
    fn start(
        work: Work,
        place: impl FnOnce(*mut libc::pthread_attr_t) -> libc::c_int,
    ) -> Result<Self> {
        let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
        // SAFETY: initialises attributes that nothing else uses.
        let failed = unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) };
        ensure!(failed == 0, "no attributes: {failed}");
        let failed = place(attributes.as_mut_ptr());
        ensure!(failed == 0, "no such stack: {failed}");
        let work = Box::into_raw(Box::new(work));
        let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
        // SAFETY: `work` lives until the thread is joined.
        let failed = unsafe {
            libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), body, work.cast())
        };
        ensure!(failed == 0, "no thread: {failed}");
        // SAFETY: initialised above, and not used after this.
        unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
        // SAFETY: written by the successful call.
        Ok(Self(unsafe { thread.assume_init() }, work))
    }

    fn join(self) -> Result<Work> {
        // SAFETY: joined once, because this function consumes the thread.
        let failed = unsafe { libc::pthread_join(self.0, ptr::null_mut()) };
        ensure!(failed == 0, "no end: {failed}");
        // SAFETY: made by `Box::into_raw`, and the thread that used it has ended.
        Ok(*unsafe { Box::from_raw(self.1) })
    }
}

/// The function of the thread. Its own frame is small.
extern "C" fn body(work: *mut c_void) -> *mut c_void {
    let here = 0_u8;
    // SAFETY: `work` lives until this thread is joined, and no other thread uses it before.
    let work = unsafe { &mut *work.cast::<Work>() };
    work.frame = ptr::from_ref(black_box(&here)).addr();
    for _ in 0..work.times {
        work.kind.record();
    }
    if let Some((least, lowest)) = work.least.zip(lowest_address()) {
        descend(work.kind, lowest, least);
    }
    ptr::null_mut()
}

#[inline(never)]
fn descend(kind: Kind, lowest: usize, least: usize) {
    let here = black_box([0_u8; 200]);
    if here.as_ptr().addr() - lowest >= least {
        kind.record();
        descend(kind, lowest, least);
    }
    black_box(&here);
}

/// Returns the lowest address of the calling thread's stack.
fn lowest_address() -> Option<usize> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: has no arguments.
    let own = unsafe { libc::pthread_self() };
    // SAFETY: writes the attributes of the calling thread to memory that lives through the call.
    let failed = unsafe { libc::pthread_getattr_np(own, attributes.as_mut_ptr()) };
    let mut lowest = ptr::null_mut();
    let mut bytes = 0;
    if failed == 0 {
        // SAFETY: the call above has initialised the attributes.
        unsafe {
            libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut bytes)
        };
        // SAFETY: initialised, and not used after this.
        unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    }
    (failed == 0).then(|| lowest.addr())
}

/// A stack whose bytes were all set to [`PAINT`].
struct Painted(*mut c_void);

impl Painted {
    fn new() -> Result<Self> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory, which nothing else uses.
        let memory = unsafe { libc::mmap(ptr::null_mut(), PAINTED, rights, kind, -1, 0) };
        ensure!(memory != libc::MAP_FAILED, "no memory");
        // SAFETY: the memory was mapped above, with this length.
        unsafe { ptr::write_bytes(memory.cast::<u8>(), PAINT, PAINTED) };
        Ok(Self(memory))
    }

    fn lowest_used(&self) -> usize {
        // SAFETY: the memory has this length, and the thread that wrote to it has ended.
        let bytes = unsafe { std::slice::from_raw_parts(self.0.cast::<u8>(), PAINTED) };
        let unused = bytes
            .iter()
            .position(|byte| *byte != PAINT)
            .unwrap_or(PAINTED);
        self.0.addr() + unused
    }
}

impl Drop for Painted {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and the thread on this stack has ended.
        unsafe { libc::munmap(self.0, PAINTED) };
    }
}
