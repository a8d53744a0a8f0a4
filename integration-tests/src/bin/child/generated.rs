//! Commands that run code which this process generates, as a just-in-time compiler does, with names
//! in a perf map.
//!
//! `generate`: writes the perf map, and starts a thread, `generated`, that runs the code until the
//! process ends. The code consists of two functions. `generated_trampoline` keeps no frame pointer,
//! as CPython's trampolines do, and calls `generatedLoop`, which keeps one. The command answers with
//! the path of the perf map.

#![allow(unsafe_code)]

use std::hint::black_box;

use anyhow::{Context, ensure};

use crate::Words;

/// `push %rbp; mov %rsp, %rbp; mov %rdi, %rax; 1: dec %rax; jnz 1b; pop %rbp; ret`
const LOOP: [u8; 14] = [
    0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0x5d, 0xc3,
];
/// `sub $8, %rsp; call *%rsi; add $8, %rsp; ret`
const TRAMPOLINE: [u8; 11] = [
    0x48, 0x83, 0xec, 0x08, 0xff, 0xd6, 0x48, 0x83, 0xc4, 0x08, 0xc3,
];
/// Where the trampoline is in the page.
const TRAMPOLINE_AT: usize = 64;
const PAGE: usize = 4096;
/// Rounds of the loop in one call: some milliseconds.
const ROUNDS: u64 = 10_000_000;

/// Calls the function at an address with a number. The number must not be 0.
type Loop = unsafe extern "C" fn(u64);
/// Passes the number on to the function.
type Trampoline = unsafe extern "C" fn(u64, Loop);

pub(crate) fn obey(name: &str, _: Words<'_>) -> Option<anyhow::Result<String>> {
    match name {
        "generate" => Some(generate()),
        _ => None,
    }
}

fn generate() -> anyhow::Result<String> {
    ensure!(
        cfg!(target_arch = "x86_64"),
        "the code is for another processor"
    );
    let page = code_page()?;
    let start = page.expose_provenance();
    let trampoline = start + TRAMPOLINE_AT;
    let map = format!("/tmp/perf-{}.map", std::process::id());
    let text = format!(
        "{start:x} {:x} JS:*generatedLoop file:///srv/shop.mjs:10:3\n\
         {trampoline:#x} {:#x} py::generated_trampoline:/srv/shop.py\n",
        LOOP.len(),
        TRAMPOLINE.len(),
    );
    std::fs::write(&map, text).with_context(|| map.clone())?;
    std::thread::Builder::new()
        .name("generated".to_owned())
        .spawn(move || {
            loop {
                run_generated(start, trampoline);
            }
        })?;
    Ok(format!("ok {map}"))
}

/// Maps a page with both functions.
fn code_page() -> anyhow::Result<*mut u8> {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: maps new memory, at an address that the system chooses.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, rights, kind, -1, 0) };
    ensure!(page != libc::MAP_FAILED, "no memory for code");
    // SAFETY: the page is mapped, writable and used by nothing else.
    let bytes = unsafe { std::slice::from_raw_parts_mut(page.cast::<u8>(), PAGE) };
    bytes[..LOOP.len()].copy_from_slice(&LOOP);
    bytes[TRAMPOLINE_AT..][..TRAMPOLINE.len()].copy_from_slice(&TRAMPOLINE);
    // SAFETY: the range is the page that was mapped above; it is not written to from here on.
    let failed = unsafe { libc::mprotect(page, PAGE, libc::PROT_READ | libc::PROT_EXEC) };
    ensure!(failed == 0, "the system forbids generated code");
    Ok(page.cast())
}

/// Runs the loop through the trampoline.
#[inline(never)]
fn run_generated(code: usize, trampoline: usize) {
    let at = std::ptr::with_exposed_provenance::<()>;
    // SAFETY: the address is that of `LOOP`, a function of this type in executable memory.
    let code = unsafe { std::mem::transmute::<*const (), Loop>(at(code)) };
    // SAFETY: the address is that of `TRAMPOLINE`, a function of this type in executable memory.
    let trampoline = unsafe { std::mem::transmute::<*const (), Trampoline>(at(trampoline)) };
    // SAFETY: the trampoline calls the loop, which uses only registers and its own frame, and ends
    // after `ROUNDS` rounds.
    unsafe { trampoline(black_box(ROUNDS), code) };
    black_box(trampoline); // so that the call is not the function's last step
}
