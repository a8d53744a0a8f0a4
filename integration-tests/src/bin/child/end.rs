//! Ends of all kinds: in order, by a signal, by a fault that really happens.
//!
//! A fault is left to the system: the runtime's handler sees that it was no stack overflow, puts
//! the system's own back and returns to the faulting instruction.

#![allow(unsafe_code)]

use std::fs::File;

use anyhow::Context;

use crate::{Words, number};

pub(crate) fn obey(name: &str, words: Words<'_>) -> Option<anyhow::Result<String>> {
    let code = || number(words, 0).ok().and_then(|code| i32::try_from(code).ok()).unwrap_or(0);
    Some(match name {
        "exit" => std::process::exit(code()),
        "quit" => quit(code()),
        "panic" => panic!("told to"),
        "panic-thread" => panic_in_thread(),
        "abort" => std::process::abort(),
        "kill" => kill(),
        "term" => raise(libc::SIGTERM),
        "segv" => touch_nothing(),
        "bus" => touch_what_is_gone(),
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

/// Ends without any handler of the C library.
pub(crate) fn quit(code: i32) -> ! {
    // SAFETY: ends the process; nothing of it is used afterwards.
    unsafe { libc::_exit(code) }
}

/// Ends as by the system's own hand.
pub(crate) fn kill() -> anyhow::Result<String> {
    raise(libc::SIGKILL)
}

pub(crate) fn raise(signal: i32) -> anyhow::Result<String> {
    // SAFETY: sends a signal to this process, whose handlers are the system's own.
    unsafe { libc::raise(signal) };
    Ok("ok".to_owned())
}

fn panic_in_thread() -> anyhow::Result<String> {
    let thread = std::thread::Builder::new().spawn(|| panic!("told to"))?;
    Ok(format!("ok {}", thread.join().is_err()))
}

/// Writes where nothing is mapped.
fn touch_nothing() -> anyhow::Result<String> {
    let nowhere = std::hint::black_box(16) as *mut u64;
    // SAFETY: there is none: this is the fault that the test wants.
    unsafe { nowhere.write_volatile(1) };
    Ok("ok".to_owned())
}

/// Reads a mapping whose file was cut.
fn touch_what_is_gone() -> anyhow::Result<String> {
    let file: File = tempfile::tempfile()?;
    file.set_len(4096)?;
    let map = memmap(&file)?;
    file.set_len(0)?;
    // SAFETY: mapped, but the file has no such page any more: the fault that the test wants.
    let byte = unsafe { map.read_volatile() };
    Ok(format!("ok {byte}"))
}

fn memmap(file: &File) -> anyhow::Result<*const u8> {
    use std::os::fd::AsRawFd;
    let (number, none) = (file.as_raw_fd(), std::ptr::null_mut());
    // SAFETY: a new mapping at a place of the system's choice.
    let map = unsafe { libc::mmap(none, 4096, libc::PROT_READ, libc::MAP_SHARED, number, 0) };
    (map != libc::MAP_FAILED).then_some(map.cast_const().cast()).context("cannot map")
}

fn illegal() -> anyhow::Result<String> {
    // SAFETY: an instruction that no processor has; it touches nothing.
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

/// Calls itself until the stack is used up.
#[allow(unconditional_recursion)] // which is the point
fn overflow(depth: u64) -> u64 {
    let room = std::hint::black_box([depth; 64]);
    overflow(depth + 1) + room[usize::try_from(depth % 64).unwrap_or(0)]
}

/// Takes memory and uses it until there is none.
fn hoard() -> anyhow::Result<String> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    loop {
        all.push(vec![1; 1 << 20]);
        std::hint::black_box(&all);
    }
}
