//! The beginning: the loader calls [`begin`] before the program's own constructors and `main`.
//!
//! In a process that is not recorded, the library only looks up the functions that it replaces.

use core::ffi::{CStr, c_char, c_int};
use core::ptr;

use crate::actions;
use crate::config;
use crate::crash;
use crate::ends;
use crate::filters;
use crate::forks;
use crate::handler;
use crate::masks;
use crate::own_action;
use crate::own_file;
use crate::process;
use crate::raw::{Call, Clock, call, process_id, valgrind};
use crate::recording;
use crate::replaced::{self, Original};
use crate::signal_set;
use crate::spares;
use crate::starts;
use crate::text;
use crate::threads::{self, ThreadStack};

type Texts = *const *const c_char;

static ENVIRONMENT: Original = Original::new(c"__environ");
const SIG_UNBLOCK: usize = 1;
/// The entry of the auxiliary vector for the path of the program, as it was executed.
const AT_EXECFN: usize = 31;
/// The maximum number of arguments that the interpreters of a script add before its path.
const INTERPRETER_ARGUMENTS: usize = 9;
/// The entry of the auxiliary vector for the bytes that a signal takes on a stack.
const AT_MINSIGSTKSZ: usize = 51;
/// The same where the kernel does not tell it: with the registers of AVX-512, without tiles.
const USUAL_SIGNAL_FRAME: usize = 4096;

/// The loader calls the functions of this section when it loads the library, and [`FINISH`] at
/// `exit`.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static START: unsafe extern "C" fn(c_int, *const *const c_char, *const *const c_char) = begin;
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".fini_array")]
static FINISH: extern "C" fn() = ends::at_exit;

/// Looks up the replaced functions, and begins to record this process if a session asks for it.
///
/// The look-up is not left to the first call of a function, also in a process that is not recorded:
/// the caller may be a child of `clone` that shares the memory and has no thread-locals, in which a
/// call of the C library ends with SIGSEGV.
///
/// # Safety
/// Called by the loader, with the arguments of `main` or, by musl, with none.
pub(crate) unsafe extern "C" fn begin(
    count: c_int,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) {
    look_up();
    let (arguments, environment) = given(count, arguments, environment);
    if environment.is_null() {
        return;
    }
    // SAFETY: the environment of the process, which ends with a null pointer.
    let Some(asked) = (unsafe { variable_of(environment, config::VARIABLE) }) else {
        return;
    };
    let Some(configuration) = config::parse(asked) else {
        return;
    };
    if valgrind::runs_this_process() {
        return;
    }
    // SAFETY: the process has one thread, and the loader calls this function once.
    unsafe { process::set_configuration(configuration) };
    // SAFETY: the arguments and the environment of the process.
    text::collect(unsafe { program(arguments, environment) });
    let Some(file) = own_file::make(process::configuration(), text::len()) else {
        return;
    };
    // SAFETY: the vector is behind the environment.
    let frame = unsafe { auxiliary(environment, AT_MINSIGSTKSZ) };
    threads::set_signal_frame(frame.unwrap_or(USUAL_SIGNAL_FRAME));
    if !handler::install() {
        // SAFETY: the file was mapped just now, and nothing refers to it.
        unsafe { own_file::unmap(file) };
        return;
    }
    process::set_file(file);
    if process::configuration().records_crashes {
        crash::install();
    }
    if let Some(header) = process::header() {
        text::write(file, header);
    }
    forks::follow();
    // Above the arguments there are no frames.
    let stack = ThreadStack::of_main_thread(arguments.expose_provenance());
    recording::begin(stack, Clock::PROCESS.now_ns());
    unblock();
    // The first process of a PID namespace may be the root of a sandbox.
    if process_id() == 1 {
        spares::prepare();
    }
}

/// Looks up all functions that this library replaces or calls.
fn look_up() {
    replaced::find_all(&[
        actions::ORIGINALS,
        ends::ORIGINALS,
        ends::LISTED,
        filters::ORIGINALS,
        forks::CALLED,
        masks::ORIGINALS,
        replaced::CALLED,
        starts::ORIGINALS,
        starts::CALLED,
    ]);
}

/// The arguments and the environment. musl passes nothing to the functions that its loader calls:
/// what is in their place does not fit together, and the environment is where the program finds it.
fn given(count: c_int, arguments: Texts, environment: Texts) -> (Texts, Texts) {
    let behind = arguments.wrapping_offset(count as isize).wrapping_add(1);
    if count >= 0 && !arguments.is_null() && environment == behind {
        return (arguments, environment);
    }
    let Some(place) = ENVIRONMENT.get() else {
        return (ptr::null(), ptr::null());
    };
    // SAFETY: the C library's variable of this name has this type.
    let environment = unsafe { ptr::with_exposed_provenance::<Texts>(place).read() };
    (environment, environment)
}

/// Our signal may be blocked by the program that has executed this one.
fn unblock() {
    let ours = signal_set::bit(process::configuration().signal);
    let mut before = 0_u64;
    // SAFETY: the kernel reads one word and writes one.
    unsafe {
        let (ours, before) = ((&raw const ours).addr(), (&raw mut before).addr());
        call(Call::RT_SIGPROCMASK, [SIG_UNBLOCK, ours, before, 8, 0, 0]);
    }
    if before & ours != 0 {
        own_action::hold();
    }
}

/// The texts of a list.
///
/// # Safety
/// The list ends with a null pointer, and its texts with zeros. Both stay for `'a`.
unsafe fn texts<'a>(list: Texts) -> impl Iterator<Item = &'a [u8]> {
    let entries = (0..).map(move |at| {
        // SAFETY: the caller's promise; no entry behind the null pointer is read.
        unsafe { list.wrapping_add(at).read() }
    });
    // SAFETY: the caller's promise.
    let text = |entry| unsafe { CStr::from_ptr(entry) }.to_bytes();
    entries.take_while(|entry| !entry.is_null()).map(text)
}

/// The value of a variable, whose name has the sign behind it.
///
/// # Safety
/// As for [`texts`].
unsafe fn variable_of<'a>(environment: Texts, name: &[u8]) -> Option<&'a [u8]> {
    // SAFETY: the caller's promise.
    unsafe { texts(environment) }.find_map(|text| text.strip_prefix(name))
}

/// The path of the program, as it was executed. Reading `/proc/self/exe` instead takes 20 to 50 µs.
/// `None` if it is not known. For a script, the auxiliary vector contains the path of the script,
/// which is also an argument of its interpreter.
///
/// # Safety
/// As for [`texts`] and [`auxiliary`].
unsafe fn program<'a>(arguments: Texts, environment: Texts) -> Option<&'a CStr> {
    // SAFETY: the caller's promise.
    let path = unsafe { auxiliary(environment, AT_EXECFN) }.filter(|path| *path != 0)?;
    // SAFETY: the kernel has put this text above the arguments, and it stays there.
    let whole = unsafe { CStr::from_ptr(ptr::with_exposed_provenance(path)) };
    let path = whole.to_bytes();
    // SAFETY: the caller's promise.
    let mut after_name = unsafe { texts(arguments) }
        .skip(1)
        .take(INTERPRETER_ARGUMENTS);
    let is_unknown = arguments == environment || after_name.any(|argument| argument == path);
    let leads_to_descriptor = path.starts_with(b"/dev/") || path.starts_with(b"/proc/");
    (path.starts_with(b"/") && !leads_to_descriptor && !is_unknown).then_some(whole)
}

/// The value of an entry of the auxiliary vector.
///
/// # Safety
/// The auxiliary vector is behind this environment.
unsafe fn auxiliary(mut environment: Texts, kind: usize) -> Option<usize> {
    // SAFETY: the caller's promise; the list ends with a null pointer.
    while !unsafe { environment.read() }.is_null() {
        environment = environment.wrapping_add(1);
    }
    let mut entry: *const [usize; 2] = environment.wrapping_add(1).cast();
    loop {
        // SAFETY: the vector ends with an entry of kind 0.
        match unsafe { ptr::read_unaligned(entry) } {
            [0, _] => return None,
            [found, value] if found == kind => return Some(value),
            _ => entry = entry.wrapping_add(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loader_that_passes_no_arguments_is_not_believed() {
        let garbage = ptr::without_provenance(1);
        for (count, arguments) in [(0, ptr::null()), (7, garbage), (-1, garbage)] {
            let (_, environment) = given(count, arguments, garbage);
            // SAFETY: the environment of this process.
            let path = unsafe { variable_of(environment, b"PATH=") };
            assert_eq!(
                path,
                std::env::var("PATH").ok().as_deref().map(str::as_bytes)
            );
        }
    }

    #[test]
    fn the_program_path_is_in_the_auxiliary_vector_except_for_scripts() {
        let program = |path: &'static CStr, arguments: &[&'static CStr]| {
            let mut words: Vec<usize> = arguments.iter().map(|text| text.as_ptr().addr()).collect();
            let environment = words.len() + 1;
            words.extend([0, 0, 6, 4096, AT_EXECFN, path.as_ptr().addr(), 0, 0]);
            let list: Texts = words.as_ptr().cast();
            // SAFETY: the lists have the form that the kernel gives them.
            unsafe { super::program(list, list.wrapping_add(environment)) }
        };
        let path = c"/bin/program";
        assert_eq!(program(path, &[c"program", c"x"]), Some(path));
        assert_eq!(program(path, &[path]), Some(path));
        assert_eq!(program(path, &[c"/bin/sh", c"-e", path]), None, "a script");
        for relative in [c"program", c"./program", c"/dev/fd/3", c"/proc/self/fd/3"] {
            assert_eq!(program(relative, &[c"program"]), None, "{relative:?}");
        }
    }

    #[test]
    fn what_the_loader_passes_is_used() {
        let own = [
            c"program".as_ptr(),
            ptr::null(),
            c"PATH=x".as_ptr(),
            ptr::null(),
        ];
        let (arguments, environment) = given(1, own.as_ptr(), own[2..].as_ptr());
        assert_eq!((arguments, environment), (own.as_ptr(), own[2..].as_ptr()));
    }
}
