//! Storms on other stacks than the thread's own: coroutines, alternate signal stacks, with guard pages that a list of
//! mappings does not show.
//!
//! Everything lies in one piece of memory, as the C library's own stacks do where guard pages do not split mappings:
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
/// As large as pages are anywhere.
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

/// One thread with guards of either kind, if the system has both.
pub(crate) fn guarded(stop: &AtomicBool) -> Result<()> {
    // SAFETY: of our own memory, which nobody uses yet.
    let forbid: Guard = |page| unsafe { libc::mprotect(page, GUARD, libc::PROT_NONE) };
    // SAFETY: as above.
    let install: Guard = |page| unsafe { libc::madvise(page, GUARD, MADV_GUARD_INSTALL) };
    let threads = [forbid, install].map(|guard| Thread::start(guard, stop));
    for thread in threads {
        thread?.join()?;
    }
    let (heard, switched) = (HEARD.load(Ordering::Relaxed), SWITCHED.load(Ordering::Relaxed));
    ensure!(heard > 0 && switched > 0, "{heard} signals, {switched} switches");
    Ok(())
}

/// A thread on a stack that we gave it. `None`: the system has no such guard pages.
struct Thread(Option<libc::pthread_t>);

struct Work {
    memory: *mut c_void,
    stop: *const AtomicBool,
}

impl Thread {
    fn start(guard: Guard, stop: &AtomicBool) -> Result<Self> {
        let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: memory that nobody has yet. Never given back: the process ends with the storm.
        let memory = unsafe { libc::mmap(ptr::null_mut(), OWN_AT + OWN, rights, kind, -1, 0) };
        ensure!(memory != libc::MAP_FAILED, "no memory");
        for part in [COROUTINE_AT, ALTERNATE_AT] {
            if guard(memory.wrapping_byte_add(part + PART)) != 0 {
                return Ok(Self(None));
            }
        }
        let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
        // SAFETY: initialises them.
        ensure!(unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) } == 0, "no attributes");
        let own = memory.wrapping_byte_add(OWN_AT);
        // SAFETY: initialised above; the memory stays.
        let failed = unsafe { libc::pthread_attr_setstack(attributes.as_mut_ptr(), own, OWN) };
        ensure!(failed == 0, "not as a stack");
        let work = Box::into_raw(Box::new(Work { memory, stop })).cast();
        let mut thread = 0;
        // SAFETY: the thread gets a work of its own, and is joined before what that points to is gone.
        let failed = unsafe { libc::pthread_create(&raw mut thread, attributes.as_ptr(), run, work) };
        ensure!(failed == 0, "no thread");
        Ok(Self(Some(thread)))
    }

    fn join(self) -> Result<()> {
        let Some(thread) = self.0 else { return Ok(()) };
        let mut failed = ptr::null_mut();
        // SAFETY: started above and joined once.
        ensure!(unsafe { libc::pthread_join(thread, &raw mut failed) } == 0, "not joined");
        ensure!(failed.is_null(), "the thread could not go from stack to stack");
        Ok(())
    }
}

extern "C" fn run(work: *mut c_void) -> *mut c_void {
    // SAFETY: made from a box, for this thread alone.
    let work = unsafe { Box::from_raw(work.cast::<Work>()) };
    // SAFETY: whoever started the thread joins it before the flag is gone.
    let done = go_from_stack_to_stack(work.memory, unsafe { &*work.stop });
    ptr::without_provenance_mut(usize::from(done.is_err()))
}

fn go_from_stack_to_stack(memory: *mut c_void, stop: &AtomicBool) -> Result<()> {
    let alternate = memory.wrapping_byte_add(ALTERNATE_AT);
    let stack = libc::stack_t { ss_sp: alternate, ss_flags: 0, ss_size: PART };
    // SAFETY: the memory stays as long as the process.
    ensure!(unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) } == 0, "no alternate stack");
    // SAFETY: all zeros are an action without flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = compute_on_alternate_stack as *const () as usize;
    action.sa_flags = libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the handler is a static function that computes and adds to an atomic.
    ensure!(unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, ptr::null_mut()) } == 0, "no handler");
    while goes_on(stop) {
        compute();
        // SAFETY: the signal has a handler.
        unsafe { libc::raise(libc::SIGUSR1) };
        switch_to_coroutine(memory.wrapping_byte_add(COROUTINE_AT))?;
    }
    Ok(())
}

/// Runs a coroutine to its end, which is here again.
fn switch_to_coroutine(memory: *mut c_void) -> Result<()> {
    let mut contexts = [MaybeUninit::<libc::ucontext_t>::uninit(), MaybeUninit::uninit()];
    let [here, there] = contexts.each_mut().map(MaybeUninit::as_mut_ptr);
    // SAFETY: fills it in.
    ensure!(unsafe { libc::getcontext(there) } == 0, "no context");
    // SAFETY: filled in above.
    let context = unsafe { there.as_mut() }.context("null")?;
    context.uc_stack = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: PART };
    context.uc_link = here;
    // SAFETY: the context has a stack, and somewhere to go on.
    unsafe { libc::makecontext(there, compute_in_coroutine, 0) };
    // SAFETY: both live until the coroutine has come back.
    ensure!(unsafe { libc::swapcontext(here, there) } == 0, "no switch");
    Ok(())
}
