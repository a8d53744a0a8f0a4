//! A program whose threads have small stacks: run by `tests/small_stacks.rs`, with every allocation
//! sampled.
//!
//! `small_stacks crowd KIND BYTES COUNT TIMES` records on `COUNT` threads with stacks of `BYTES`
//! bytes, while they are sampled. `small_stacks depths KIND BYTES` records on one thread with less
//! and less of its stack left. `small_stacks painted KIND` prints how many bytes of its stack a
//! thread used, and how many of them below its own function: for no entry, for the first such entry
//! of the process, for the first of a thread, and for two of a thread.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use integration_tests::small_stacks::{Kind, fixture, thread};
use profiler_core::alloc::ProfilingAllocator;

/// The stack that recording may use after the first entry of a thread, without walking the stack.
const LEAST: usize = 4096;

#[global_allocator]
static ALLOCATOR: ProfilingAllocator = ProfilingAllocator::new().sampling_every(1);

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let kind = |name| Kind::of_name(name).context("no such kind");
    match words.as_slice() {
        ["crowd", name, bytes, count, times] => {
            let played = fixture::play(kind(name)?, bytes.parse()?, count.parse()?, times.parse()?)?;
            println!("ok {played:?}");
        }
        ["depths", name, bytes] => depths(kind(name)?, bytes.parse()?)?,
        ["painted", name] => painted(kind(name)?)?,
        _ => bail!("usage: small_stacks crowd KIND BYTES COUNT TIMES | depths KIND BYTES | painted KIND"),
    }
    Ok(())
}

/// These threads are not sampled: they block the signal.
fn painted(kind: Kind) -> Result<()> {
    let _ = thread::bytes_used(Kind::Nothing, 1)?;
    fixture::start(Duration::from_millis(1))?;
    block_all_signals();
    let used = [(Kind::Nothing, 1), (kind, 1), (kind, 1), (kind, 2)];
    for (kind, times) in used {
        let (all, own) = thread::bytes_used(kind, times)?;
        print!("{all} {own} ");
    }
    println!();
    Ok(())
}

/// Records with less and less stack left, down to [`LEAST`].
fn depths(kind: Kind, bytes: usize) -> Result<()> {
    fixture::start(Duration::from_millis(1))?;
    block_all_signals();
    thread::at_every_depth(kind, bytes, LEAST)?;
    let (entries, with_stack) = fixture::recorded()?;
    ensure!(entries > 0, "nothing was recorded");
    println!("{entries} {with_stack}");
    Ok(())
}

/// Blocks the signal here; new threads inherit that.
fn block_all_signals() {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: initialises the set, which is ours.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: an initialised set.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), ptr::null_mut()) };
}
