//! Threads on stacks of a given size, made as a C program makes them.
//!
//! A stack either comes from the C library, with its guard page, or it is painted: then the bytes
//! that were overwritten show how deep the thread went. The C library uses the stack's upper end
//! for the thread's control block and static thread-locals; they count as used, as they do in a
//! real program.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr;

use anyhow::{Result, ensure};

use super::Kind;

/// The fill byte. A stack is unlikely to contain long runs of it otherwise.
const PAINT: u8 = 0xa5;
/// The size of a painted stack: more than any entry uses.
const PAINTED: usize = 1 << 20;

/// How many bytes of its stack a thread used to record this `times` times: all, and those below the
/// frame of the thread's own function.
///
/// # Errors
/// When the system has no memory, or cannot start a thread.
pub fn bytes_used(kind: Kind, times: u32) -> Result<(usize, usize)> {
    let stack = Painted::new()?;
    let work = Work { kind, times, least: None, frame: 0 };
    let thread = Thread::start(work, |attributes| {
        // SAFETY: initialised attributes; the memory outlives the thread, which is joined below.
        unsafe { libc::pthread_attr_setstack(attributes, stack.0, PAINTED) }
    })?;
    let frame = thread.join()?.frame;
    let lowest = stack.lowest_used();
    Ok((stack.0.addr() + PAINTED - lowest, frame.saturating_sub(lowest)))
}

/// Has a thread with a stack of `bytes` bytes record at every depth, in steps of a few hundred
/// bytes, while at least `least` bytes are left.
///
/// # Errors
/// When the system cannot start a thread, or refuses a stack of this size.
pub fn at_every_depth(kind: Kind, bytes: usize, least: usize) -> Result<()> {
    let work = Work { kind, times: 1, least: Some(least), frame: 0 };
    Thread::start(work, |attributes| {
        // SAFETY: initialised attributes.
        unsafe { libc::pthread_attr_setstacksize(attributes, bytes) }
    })?
    .join()?;
    Ok(())
}

/// Makes `count` threads on stacks of `bytes` bytes, at most 32 at a time, each of which records
/// `times` times.
///
/// # Errors
/// When the system cannot start a thread, or refuses a stack of this size.
pub fn crowd(kind: Kind, bytes: usize, count: usize, times: u32) -> Result<()> {
    for first in (0..count).step_by(32) {
        let some = (first..count.min(first + 32)).map(|_| {
            let work = Work { kind, times, least: None, frame: 0 };
            Thread::start(work, |attributes| {
                // SAFETY: initialised attributes.
                unsafe { libc::pthread_attr_setstacksize(attributes, bytes) }
            })
        });
        let all: Vec<_> = some.collect::<Result<_>>()?;
        all.into_iter().try_for_each(|thread| thread.join().map(drop))?;
    }
    Ok(())
}

/// What a thread does.
struct Work {
    kind: Kind,
    times: u32,
    /// Calls itself until only this many bytes are left.
    least: Option<usize>,
    /// Where the frame of the thread's own function is.
    frame: usize,
}

/// A thread, and the value that it reads until it is joined.
struct Thread(libc::pthread_t, *mut Work);

impl Thread {
    fn start(work: Work, place: impl FnOnce(*mut libc::pthread_attr_t) -> libc::c_int) -> Result<Self> {
        let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
        // SAFETY: initialises the attributes, which are ours.
        let failed = unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) };
        ensure!(failed == 0, "no attributes: {failed}");
        let failed = place(attributes.as_mut_ptr());
        ensure!(failed == 0, "no such stack: {failed}");
        let work = Box::into_raw(Box::new(work));
        let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
        // SAFETY: `work` lives until the thread was joined.
        let failed =
            unsafe { libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), body, work.cast()) };
        ensure!(failed == 0, "no thread: {failed}");
        // SAFETY: initialised above, and not used after this.
        unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
        // SAFETY: written by the successful call.
        Ok(Self(unsafe { thread.assume_init() }, work))
    }

    fn join(self) -> Result<Work> {
        // SAFETY: joined once, because this takes the thread.
        let failed = unsafe { libc::pthread_join(self.0, ptr::null_mut()) };
        ensure!(failed == 0, "no end: {failed}");
        // SAFETY: made by `Box::into_raw`, and the thread that used it has ended.
        Ok(*unsafe { Box::from_raw(self.1) })
    }
}

/// Does almost nothing, like the function of a small thread.
extern "C" fn body(work: *mut c_void) -> *mut c_void {
    let here = 0_u8;
    // SAFETY: lives until this thread was joined, and is this thread's until then.
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

/// The lowest address of the calling thread's stack.
fn lowest_address() -> Option<usize> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: has no arguments.
    let own = unsafe { libc::pthread_self() };
    // SAFETY: asks for the calling thread, into memory that lives through the call.
    let failed = unsafe { libc::pthread_getattr_np(own, attributes.as_mut_ptr()) };
    let (mut lowest, mut bytes) = (ptr::null_mut(), 0);
    if failed == 0 {
        // SAFETY: the call before has initialised the attributes.
        unsafe { libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut bytes) };
        // SAFETY: initialised, and not used after this.
        unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    }
    (failed == 0).then(|| lowest.addr())
}

struct Painted(*mut c_void);

impl Painted {
    fn new() -> Result<Self> {
        let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory, which nothing else uses.
        let memory = unsafe { libc::mmap(ptr::null_mut(), PAINTED, rights, kind, -1, 0) };
        ensure!(memory != libc::MAP_FAILED, "no memory");
        // SAFETY: our memory, of this length.
        unsafe { ptr::write_bytes(memory.cast::<u8>(), PAINT, PAINTED) };
        Ok(Self(memory))
    }

    fn lowest_used(&self) -> usize {
        // SAFETY: our memory, and the thread that wrote to it has ended.
        let bytes = unsafe { std::slice::from_raw_parts(self.0.cast::<u8>(), PAINTED) };
        let unused = bytes.iter().position(|byte| *byte != PAINT).unwrap_or(PAINTED);
        self.0.addr() + unused
    }
}

impl Drop for Painted {
    fn drop(&mut self) {
        // SAFETY: our memory, and its thread has ended.
        unsafe { libc::munmap(self.0, PAINTED) };
    }
}
