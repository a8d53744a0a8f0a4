//! Records on threads with small stacks, with every allocation sampled. Run by
//! `tests/small_stacks.rs`.
//!
//! * `small_stacks crowd KIND BYTES COUNT TIMES` records on `COUNT` threads with stacks of `BYTES`
//!   bytes, while they are sampled.
//! * `small_stacks depths KIND BYTES` records on one thread with decreasing amounts of its stack
//!   left.
//! * `small_stacks painted KIND` prints how many bytes of its stack a thread used, and how many of
//!   them below its own function: for no entry, for the first such entry of the process, for the
//!   first entry of a thread, and for two entries of a thread.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use integration_tests::patience::HeldUp;
use integration_tests::small_stacks::{Kind, fixture, thread};
use profiler_core::alloc::ProfilingAllocator;

/// Bytes of stack that recording may use after the first entry of a thread, without walking the
/// stack.
const LEAST: usize = 4096;

#[global_allocator]
static ALLOCATOR: ProfilingAllocator = ProfilingAllocator::new().sampling_every(1);

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let kind = |name| Kind::of_name(name).context("no such kind");
    match words.as_slice() {
        ["crowd", name, bytes, count, times] => {
            let (kind, bytes) = (kind(name)?, bytes.parse()?);
            let (count, times) = (count.parse()?, times.parse()?);
            let play = || fixture::play(kind, bytes, count, times);
            let is_held_up =
                |played: &Result<_>| matches!(played, Err(error) if error.is::<HeldUp>());
            let mut plays = std::iter::repeat_with(play).take(3).skip_while(is_held_up);
            let played = plays
                .next()
                .context("most entries were dropped in each of three tries")??;
            println!("ok {played:?}");
        }
        ["depths", name, bytes] => depths(kind(name)?, bytes.parse()?)?,
        ["painted", name] => painted(kind(name)?)?,
        _ => bail!(
            "usage: small_stacks crowd KIND BYTES COUNT TIMES | depths KIND BYTES | painted KIND"
        ),
    }
    Ok(())
}

/// Prints the stack use of threads. They are not sampled, because they block the signal.
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

/// Records with decreasing amounts of stack left, down to [`LEAST`] bytes.
fn depths(kind: Kind, bytes: usize) -> Result<()> {
    fixture::start(Duration::from_millis(1))?;
    block_all_signals();
    thread::at_every_depth(kind, bytes, LEAST)?;
    let recorded = fixture::recorded()?;
    ensure!(recorded.count > 0, "nothing was recorded");
    println!("{} {}", recorded.count, recorded.with_stack);
    Ok(())
}

/// Blocks all signals in the calling thread. New threads inherit the mask.
fn block_all_signals() {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the call initialises the local set.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: the set is initialised, and the old mask may be null.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), ptr::null_mut()) };
}
