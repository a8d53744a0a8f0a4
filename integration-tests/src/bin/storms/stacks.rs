//! Storms on stacks other than the thread's own: coroutines and alternate signal stacks, with guard
//! pages that a list of mappings does not show.
//!
//! All stacks lie in one piece of memory, like the stacks of the C library if guard pages do not
//! split mappings:
//!
//! ```text
//! coroutine | guard | alternate stack | guard | the thread's own stack
//! ```

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};

use crate::goes_on;

/// Since Linux 6.13: a guard page that does not split its mapping.
const MADV_GUARD_INSTALL: libc::c_int = 102;
const PART: usize = 256 * 1024;
/// At least as large as a page on any system.
const GUARD: usize = 64 * 1024;
const OWN: usize = 1024 * 1024;
const COROUTINE_AT: usize = 0;
const ALTERNATE_AT: usize = PART + GUARD;
const OWN_AT: usize = 2 * ALTERNATE_AT;

static HEARD: AtomicU64 = AtomicU64::new(0);
static SWITCHED: AtomicU64 = AtomicU64::new(0);

fn compute() {
    (0..300_000_u64).for_each(|number| _ = black_box(number));
}

extern "C" fn compute_on_alternate_stack(_signal: libc::c_int) {
    compute();
    HEARD.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn compute_in_coroutine() {
    compute();
    SWITCHED.fetch_add(1, Ordering::Relaxed);
}

type Guard = fn(*mut c_void) -> libc::c_int;

/// Runs one thread for each kind of guard page that the system has.
pub(crate) fn guarded(stop: &AtomicBool) -> Result<()> {
    // SAFETY: the page is part of the memory mapped below, which is not in use yet.
    let forbid: Guard = |page| unsafe { libc::mprotect(page, GUARD, libc::PROT_NONE) };
    // SAFETY: as above.
    let install: Guard = |page| unsafe { libc::madvise(page, GUARD, MADV_GUARD_INSTALL) };
    let threads = [forbid, install].map(|guard| Thread::start(guard, stop));
    // All threads end before the first error is returned.
    let results = threads.map(|thread| thread.and_then(Thread::join));
    results.into_iter().collect::<Result<Vec<()>>>()?;
    let heard = HEARD.load(Ordering::Relaxed);
    let switched = SWITCHED.load(Ordering::Relaxed);
    ensure!(
        heard > 0 && switched > 0,
        "{heard} signals, {switched} switches"
    );
    Ok(())
}

/// A thread on a given stack, or `None` if the system does not have this kind of guard page.
struct Thread(Option<libc::pthread_t>);

struct Work {
    memory: *mut c_void,
    stop: *const AtomicBool,
}

impl Thread {
    fn start(guard: Guard, stop: &AtomicBool) -> Result<Self> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping. It is never unmapped, because the process ends with the storm.
        let memory = unsafe { libc::mmap(ptr::null_mut(), OWN_AT + OWN, rights, kind, -1, 0) };
        ensure!(memory != libc::MAP_FAILED, "no memory");
        for part in [COROUTINE_AT, ALTERNATE_AT] {
            if guard(memory.wrapping_byte_add(part + PART)) != 0 {
                return Ok(Self(None));
            }
        }
        let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
        // SAFETY: initialises the attributes.
        let result = unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) };
        ensure!(result == 0, "no attributes");
        let own = memory.wrapping_byte_add(OWN_AT);
        // SAFETY: initialised above. The memory stays mapped until the process ends.
        let failed = unsafe { libc::pthread_attr_setstack(attributes.as_mut_ptr(), own, OWN) };
        ensure!(failed == 0, "the stack is refused");
        let work = Box::into_raw(Box::new(Work { memory, stop })).cast();
        let mut thread = 0;
        // SAFETY: the thread gets its own `work`, and is joined before the flag in it is dropped.
        let failed =
            unsafe { libc::pthread_create(&raw mut thread, attributes.as_ptr(), run, work) };
        ensure!(failed == 0, "no thread");
        Ok(Self(Some(thread)))
    }

    fn join(self) -> Result<()> {
        let Some(thread) = self.0 else { return Ok(()) };
        let mut failed = ptr::null_mut();
        // SAFETY: started above and joined once.
        let result = unsafe { libc::pthread_join(thread, &raw mut failed) };
        ensure!(result == 0, "the thread cannot be joined");
        ensure!(failed.is_null(), "the thread could not change its stack");
        Ok(())
    }
}

extern "C" fn run(work: *mut c_void) -> *mut c_void {
    // SAFETY: made by `Box::into_raw`, for this thread only.
    let work = unsafe { Box::from_raw(work.cast::<Work>()) };
    // SAFETY: `guarded` joins the thread before the flag is dropped.
    let done = change_stacks(work.memory, unsafe { &*work.stop });
    ptr::without_provenance_mut(usize::from(done.is_err()))
}

/// Computes on the thread's own stack, on the alternate stack and in a coroutine, in turn.
fn change_stacks(memory: *mut c_void, stop: &AtomicBool) -> Result<()> {
    let alternate = memory.wrapping_byte_add(ALTERNATE_AT);
    let stack = libc::stack_t {
        ss_sp: alternate,
        ss_flags: 0,
        ss_size: PART,
    };
    // SAFETY: the memory stays mapped until the process ends.
    let result = unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) };
    ensure!(result == 0, "no alternate stack");
    // SAFETY: all zeros are an action without flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = compute_on_alternate_stack as *const () as usize;
    action.sa_flags = libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the handler is a static function that computes and adds to an atomic.
    let result = unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, ptr::null_mut()) };
    ensure!(result == 0, "no handler");
    while goes_on(stop) {
        compute();
        // SAFETY: the signal has a handler.
        unsafe { libc::raise(libc::SIGUSR1) };
        switch_to_coroutine(memory.wrapping_byte_add(COROUTINE_AT))?;
    }
    Ok(())
}

/// Runs a coroutine to its end, which returns to this function.
fn switch_to_coroutine(memory: *mut c_void) -> Result<()> {
    let mut contexts = [
        MaybeUninit::<libc::ucontext_t>::uninit(),
        MaybeUninit::uninit(),
    ];
    let [here, there] = contexts.each_mut().map(MaybeUninit::as_mut_ptr);
    // SAFETY: initialises the context.
    ensure!(unsafe { libc::getcontext(there) } == 0, "no context");
    // SAFETY: initialised above.
    let context = unsafe { there.as_mut() }.context("null")?;
    context.uc_stack = libc::stack_t {
        ss_sp: memory,
        ss_flags: 0,
        ss_size: PART,
    };
    context.uc_link = here;
    // SAFETY: the context is initialised, and has a stack and a successor.
    unsafe { libc::makecontext(there, compute_in_coroutine, 0) };
    // SAFETY: both contexts live until the coroutine has returned.
    let result = unsafe { libc::swapcontext(here, there) };
    ensure!(result == 0, "the coroutine did not run");
    Ok(())
}
