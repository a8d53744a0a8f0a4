//! New threads: each gets a row and a timer before it runs, and gives them back when it ends.
//!
//! The starting thread claims the row and puts into it what the new thread is to run, so nothing is
//! allocated. The end of a thread is a destructor of thread-specific data: it also runs for
//! `pthread_exit` and cancellation.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering};

use crate::layout::Notes;
use crate::process;
use crate::replaced::{Original, replaced};
use crate::threads::{self, ThreadStack};

type Run = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// The key of the thread-specific data, plus 1; 0 until it is made, `NO_KEY` if there is none.
static KEY: AtomicU32 = AtomicU32::new(0);
const NO_KEY: u32 = u32::MAX;
static KEY_CREATE: Original = Original::new(c"pthread_key_create");
static SET_SPECIFIC: Original = Original::new(c"pthread_setspecific");
static STACK_SIZE: Original = Original::new(c"pthread_attr_getstacksize");
/// Functions that are called and not replaced.
pub(crate) static CALLED: &[&Original] = &[&KEY_CREATE, &SET_SPECIFIC, &STACK_SIZE];
/// A thread with a smaller stack has no timer: the program may need all of it, and a signal needs
/// up to 16 KiB.
const LEAST_STACK: usize = 64 * 1024;

replaced! {
    pthread_create(thread: *mut c_void, attributes: *const c_void, run: usize, argument: *mut c_void) -> c_int =
        |thread, attributes, run, argument, call| {
            crate::forks::notice();
            if !process::is_recorded() {
                return call(thread, attributes, run, argument);
            }
            if !process::may_call_system() {
                threads::count_without_row();
                return call(thread, attributes, run, argument);
            }
            make_key();
            let bytes = stack_bytes(attributes);
            let is_small = bytes.is_some_and(|bytes| bytes < LEAST_STACK);
            if is_small {
                process::note(Notes::SMALL_STACK);
            }
            let row = if is_small { None } else { threads::claim() };
            let Some(row) = row else {
                threads::count_without_row();
                return call(thread, attributes, run, argument);
            };
            if let Some(own) = threads::own_row(row) {
                own.stack_bytes.store(bytes.unwrap_or(0), Ordering::Relaxed);
                own.run.store(run, Ordering::Relaxed);
                own.argument.store(argument.expose_provenance(), Ordering::Relaxed);
            }
            let begin = begin as *const () as usize;
            let number = core::ptr::without_provenance_mut(row);
            let failed = call(thread, attributes, begin, number);
            if failed != 0 {
                threads::release(row);
            }
            failed
        };
}

/// The stack size in these attributes. `None` if there are none, or the size is not known.
fn stack_bytes(attributes: *const c_void) -> Option<usize> {
    let get = STACK_SIZE.get().filter(|_| !attributes.is_null())?;
    type Get = unsafe extern "C" fn(*const c_void, *mut usize) -> c_int;
    // SAFETY: the C library's function of this name has this type.
    let get = unsafe { core::mem::transmute::<usize, Get>(get) };
    let mut bytes = usize::MAX;
    // SAFETY: the attributes of the caller; the function writes into a local.
    let failed = unsafe { get(attributes, &raw mut bytes) };
    (failed == 0).then_some(bytes)
}

/// Makes the key, once. Two threads that do so at the same time leave one key unused.
fn make_key() {
    if KEY.load(Ordering::Acquire) != 0 {
        return;
    }
    let made = KEY_CREATE.get().filter(|_| SET_SPECIFIC.get().is_some());
    let made = made.and_then(new_key);
    let key = made.map_or(NO_KEY, |key| key.wrapping_add(1));
    let _ = KEY.compare_exchange(0, key, Ordering::Release, Ordering::Relaxed);
}

fn new_key(create: usize) -> Option<u32> {
    type Create = unsafe extern "C" fn(*mut u32, unsafe extern "C" fn(*mut c_void)) -> c_int;
    // SAFETY: the C library's function of this name has this type.
    let create = unsafe { core::mem::transmute::<usize, Create>(create) };
    let mut key = 0;
    // SAFETY: writes the key into a local; this library is never unloaded.
    let failed = unsafe { create(&raw mut key, ended) };
    (failed == 0).then_some(key)
}

/// Makes the calling thread call [`ended`] at its end.
fn follow_end(row: usize) {
    let key = KEY.load(Ordering::Acquire);
    let Some(set) = SET_SPECIFIC.get().filter(|_| key != 0 && key != NO_KEY) else {
        return;
    };
    type Set = unsafe extern "C" fn(u32, *const c_void) -> c_int;
    // SAFETY: the C library's function of this name has this type.
    let set = unsafe { core::mem::transmute::<usize, Set>(set) };
    // Not null, because the destructor is not called for null.
    let value = core::ptr::without_provenance(row.wrapping_add(1));
    // SAFETY: the key was made by `new_key`.
    unsafe { set(key.wrapping_sub(1), value) };
}

/// The first function of a new thread.
unsafe extern "C" fn begin(number: *mut c_void) -> *mut c_void {
    let row = number.addr();
    let Some(own) = threads::own_row(row) else {
        return core::ptr::null_mut();
    };
    let run = own.run.load(Ordering::Relaxed);
    let argument = own.argument.load(Ordering::Relaxed);
    let here = 0_usize;
    // The frames of the C library above this one are copied, too: they end the stack.
    let top = (&raw const here).addr().wrapping_add(ABOVE);
    let stack = match own.stack_bytes.load(Ordering::Relaxed) {
        0 => ThreadStack::of_usual_size(top),
        bytes => ThreadStack { top, bytes },
    };
    threads::begin(row, stack);
    follow_end(row);
    // SAFETY: the program has passed this function to `pthread_create`.
    let run = unsafe { core::mem::transmute::<usize, Run>(run) };
    // SAFETY: as above, with the argument that it has passed.
    unsafe { run(core::ptr::with_exposed_provenance_mut(argument)) }
}

/// How far above the first function of a thread its stack is read at least: the frames of the C
/// library that called it. Its control block is above them, in the same mapping.
const ABOVE: usize = 512;

/// The destructor: the thread ends. musl calls it with a stack that is not aligned if the thread was
/// cancelled in a system call, so this function aligns the stack first.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn ended(value: *mut c_void) {
    core::arch::naked_asm!(
        "endbr64",
        "push rbp",
        "mov rbp, rsp",
        "and rsp, -16",
        "call {end}",
        "mov rsp, rbp",
        "pop rbp",
        "ret",
        end = sym end,
    )
}

/// The destructor: the thread ends. The processor keeps the stack aligned.
#[cfg(target_arch = "aarch64")]
unsafe extern "C" fn ended(value: *mut c_void) {
    end(value);
}

extern "C" fn end(value: *mut c_void) {
    // In a forked child, a row of the parent's threads means nothing.
    let row = value.addr().wrapping_sub(1);
    if process::is_recorded() && process::may_call_system() && threads::is_of_caller(row) {
        threads::end(row);
    }
}
