//! Commands that end the process: in order, by a signal, or by a real fault.
//!
//! The system's default action ends the process after a fault: the handler of the Rust runtime
//! finds that the fault is not a stack overflow, restores the default action, and returns to the
//! faulting instruction.

#![allow(unsafe_code)]

use std::fs::File;

use anyhow::Context;

use crate::{Words, number};

pub(crate) fn obey(name: &str, words: Words<'_>) -> Option<anyhow::Result<String>> {
    let code = || {
        number(words, 0)
            .ok()
            .and_then(|code| i32::try_from(code).ok())
            .unwrap_or(0)
    };
    Some(match name {
        "exit" => std::process::exit(code()),
        "quit" => quit(code()),
        "panic" => panic!("told to"),
        "panic-thread" => panic_in_thread(),
        "crash-handlers" => profiler_crash::install()
            .map(|()| "ok".to_owned())
            .map_err(Into::into),
        "panic-hook" => {
            profiler_panic::install();
            Ok("ok".to_owned())
        }
        "panic-caught" => panic_and_catch(),
        "panic-abort" => panic_without_unwinding(),
        "abort" => std::process::abort(),
        "kill" => kill(),
        "term" => raise(libc::SIGTERM),
        "segv" => write_to_unmapped(),
        "bus" => read_truncated_file(),
        "ill" => illegal(),
        "overflow" => Ok(format!("ok {}", overflow(0))),
        "hoard" => hoard(),
        "stop" => raise(libc::SIGSTOP),
        "shutdown" => {
            profiler_child::shutdown();
            Ok("ok".to_owned())
        }
        _ => return None,
    })
}

/// Ends the process without the exit handlers of the C library.
pub(crate) fn quit(code: i32) -> ! {
    // SAFETY: ends the process, so nothing is used afterwards.
    unsafe { libc::_exit(code) }
}

/// Ends the process with SIGKILL.
pub(crate) fn kill() -> anyhow::Result<String> {
    raise(libc::SIGKILL)
}

pub(crate) fn raise(signal: i32) -> anyhow::Result<String> {
    // SAFETY: takes only a number. This program installs no handlers for signals.
    unsafe { libc::raise(signal) };
    Ok("ok".to_owned())
}

/// Panics in a function that cannot unwind, so that the process aborts.
extern "C" fn panic_without_unwinding() -> ! {
    panic!("told to abort");
}

fn panic_and_catch() -> anyhow::Result<String> {
    let caught = std::panic::catch_unwind(|| panic!("told to\n   be caught"));
    Ok(format!("ok {}", caught.is_err()))
}

fn panic_in_thread() -> anyhow::Result<String> {
    let thread = std::thread::Builder::new().spawn(|| panic!("told to"))?;
    Ok(format!("ok {}", thread.join().is_err()))
}

/// Writes to an address where nothing is mapped.
fn write_to_unmapped() -> anyhow::Result<String> {
    let nowhere = std::hint::black_box(16) as *mut u64;
    // SAFETY: not safe: the write causes the fault that the test needs.
    unsafe { nowhere.write_volatile(1) };
    Ok("ok".to_owned())
}

/// Reads a mapping whose file was truncated.
fn read_truncated_file() -> anyhow::Result<String> {
    let file: File = tempfile::tempfile()?;
    file.set_len(4096)?;
    let map = memmap(&file)?;
    file.set_len(0)?;
    // SAFETY: mapped. The file no longer has this page, so the read causes the fault that the test
    // needs.
    let byte = unsafe { map.read_volatile() };
    Ok(format!("ok {byte}"))
}

fn memmap(file: &File) -> anyhow::Result<*const u8> {
    use std::os::fd::AsRawFd;
    let number = file.as_raw_fd();
    let none = std::ptr::null_mut();
    // SAFETY: a new mapping at an address that the system chooses.
    let map = unsafe { libc::mmap(none, 4096, libc::PROT_READ, libc::MAP_SHARED, number, 0) };
    (map != libc::MAP_FAILED)
        .then_some(map.cast_const().cast())
        .context("cannot map")
}

fn illegal() -> anyhow::Result<String> {
    // SAFETY: an invalid instruction, which accesses no memory.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("ud2")
    };
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("udf #0")
    };
    raise(libc::SIGILL)
}

/// Recurses until the stack is used up.
#[allow(unconditional_recursion)] // on purpose
fn overflow(depth: u64) -> u64 {
    let room = std::hint::black_box([depth; 64]);
    overflow(depth + 1) + room[usize::try_from(depth % 64).unwrap_or(0)]
}

/// Allocates and writes memory until none is left.
fn hoard() -> anyhow::Result<String> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    loop {
        all.push(vec![1; 1 << 20]);
        std::hint::black_box(&all);
    }
}
