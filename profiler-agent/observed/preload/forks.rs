//! Forked children: each gets a file of its own at once, before it can change its user, its root or
//! its filters.
//!
//! The C library calls [`in_child`] after a fork. A fork by a raw system call is noticed at the
//! child's next call of a replaced function ([`notice`]): a page that the kernel clears in forked
//! children holds a mark. A child of `vfork` shares all memory, also that page, so it is not taken
//! for another process.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::crash_actions;
use crate::layout::PAGE;
use crate::own_file;
use crate::process;
use crate::raw::{Call, call, call3, process_id};
use crate::recording;
use crate::replaced::Original;
use crate::spares;
use crate::text;
use crate::threads;

const PROT_READ_WRITE: usize = 3;
const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
const MADV_WIPEONFORK: usize = 18;

/// The page that is cleared in forked children; null without one.
static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());

/// glibc's own name: `pthread_atfork` is not in the shared library before glibc 2.34.
static REGISTER: Original = Original::new(c"__register_atfork");
static REGISTER_OF_MUSL: Original = Original::new(c"pthread_atfork");
/// Functions that are called and not replaced.
pub(crate) static CALLED: &[&Original] = &[&REGISTER, &REGISTER_OF_MUSL];

/// Follows the forks of this process.
pub(crate) fn follow() {
    make_mark();
    type Register = unsafe extern "C" fn(
        Option<extern "C" fn()>,
        Option<extern "C" fn()>,
        Option<extern "C" fn()>,
        *const c_void,
    ) -> c_int;
    if let Some(register) = REGISTER.get() {
        // SAFETY: glibc's function of this name has this type.
        let register = unsafe { core::mem::transmute::<usize, Register>(register) };
        // SAFETY: the handler is a static function, and this library is never unloaded.
        unsafe { register(None, None, Some(in_child), ptr::null()) };
    } else if let Some(register) = REGISTER_OF_MUSL.get() {
        // SAFETY: the C library's function of this name has this type, without the last argument.
        let register = unsafe { core::mem::transmute::<usize, Register>(register) };
        // SAFETY: as above.
        unsafe { register(None, None, Some(in_child), ptr::null()) };
    }
}

fn make_mark() {
    // SAFETY: a new private mapping at an address that the kernel chooses.
    let made = unsafe {
        call(
            Call::MMAP,
            [
                0,
                PAGE,
                PROT_READ_WRITE,
                MAP_PRIVATE_ANONYMOUS,
                usize::MAX,
                0,
            ],
        )
    };
    if (-4095..0).contains(&made) {
        return;
    }
    // SAFETY: advises on the new mapping.
    let advised = unsafe { call3(Call::MADVISE, made as usize, PAGE, MADV_WIPEONFORK) };
    let mark = ptr::with_exposed_provenance_mut::<AtomicU32>(made as usize);
    // SAFETY: the new mapping is zeroed and aligned, and never unmapped.
    if let Some(mark) = unsafe { mark.as_ref() }.filter(|_| advised == 0) {
        mark.store(1, Ordering::Relaxed);
        MARK.store(ptr::from_ref(mark).cast_mut(), Ordering::Release);
    }
}

/// Begins anew if this process is a forked child that has not done so. Costs one load.
pub(crate) fn notice() {
    // SAFETY: null, or the page of `make_mark`, which is never unmapped.
    let mark = unsafe { MARK.load(Ordering::Acquire).as_ref() };
    if mark.is_some_and(|mark| mark.load(Ordering::Relaxed) == 0) {
        in_child();
    }
}

/// In a forked child, which has one thread: makes a file for it.
extern "C" fn in_child() {
    // SAFETY: null, or the page of `make_mark`, which is never unmapped.
    if let Some(mark) = unsafe { MARK.load(Ordering::Acquire).as_ref() } {
        mark.store(1, Ordering::Relaxed);
    }
    let file = process::file();
    if file.is_null() {
        return;
    }
    let stack = threads::stack_of_caller();
    threads::forget_all();
    if !process::may_call_system() {
        count_without_file();
        return process::set_file(ptr::null_mut());
    }
    let own = own_file::make(process::configuration(), text::len());
    let made = if own.is_some() {
        spares::forget();
        own
    } else {
        spares::take()
    };
    let Some(made) = made else {
        count_without_file();
        return leave(file);
    };
    process::set_file(made);
    process::set_has_recorder(false);
    if process_id() == 1 {
        crash_actions::remove(); // see `crash`
    }
    if let Some(header) = process::header() {
        text::write(made, header);
    }
    // SAFETY: the parent's file. This thread is the only one, no timer exists, and no reference to
    // the file lives beyond the function that made it.
    unsafe { own_file::unmap(file) };
    recording::begin(stack, 0);
}

/// Counts this process in the file of its parent.
fn count_without_file() {
    if let Some(header) = process::header() {
        header.forks_without_file.fetch_add(1, Ordering::Relaxed);
    }
}

/// Leaves the parent's file, and records nothing.
fn leave(file: *mut u8) {
    crash_actions::remove();
    process::set_file(ptr::null_mut());
    // SAFETY: as above.
    unsafe { own_file::unmap(file) };
}
