//! Work with known shares: half in a function whose loop is inlined, three tenths at the bottom of
//! a recursion, and two tenths in a C library that is loaded while the program runs and has no
//! frame pointers.
//!
//! All three loops are the same chain of dependent shifts, so equal numbers of steps take equal
//! time with any compiler. They use operators only, because functions of the standard library would
//! be inlined and get the samples. The lengths vary at random, because a fixed rhythm could fall
//! into step with the sampler.

use std::ffi::{CStr, CString};
use std::hint::black_box;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Average number of steps per tenth of the work: about 20 µs.
const STEPS: u64 = 20_000;
/// Depth of the recursion.
const DEPTH: u32 = 12;

/// Returns the number of the line that begins with `text`, and the number of the line that is
/// `more` lines below it.
pub(crate) fn lines_of(text: &str, more: u32) -> (u32, u32) {
    let line = (1..)
        .zip(include_str!("work.rs").lines())
        .find(|(_, line)| line.starts_with(text));
    let first = line.map_or(0, |(number, _)| number);
    (first, first + more)
}

#[inline(always)]
fn inlined_loop(mut x: u64, mut steps: u64) -> u64 {
    while steps > 0 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        steps -= 1;
    }
    x
}

#[inline(never)]
fn five_tenths(x: u64, steps: u64) -> u64 {
    black_box(inlined_loop(black_box(x), steps))
}

#[inline(never)]
fn three_tenths(mut x: u64, mut steps: u64, depth: u32) -> u64 {
    if depth > 0 {
        return black_box(three_tenths(x, steps, depth - 1));
    }
    while steps > 0 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        steps -= 1;
    }
    black_box(x)
}

type TwoTenths = extern "C" fn(u64, u64) -> u64;

/// Loads `two_tenths` from a library.
#[allow(unsafe_code)]
fn load(library: &Path) -> Result<TwoTenths> {
    let path = CString::new(library.as_os_str().as_encoded_bytes())?;
    // SAFETY: the library was compiled from `tenths.c`, which has no code that runs when it is
    // loaded.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    ensure!(!handle.is_null(), "cannot load {}", library.display());
    let name: &CStr = c"two_tenths";
    // SAFETY: `handle` refers to a loaded library, and `name` is a C string.
    let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
    ensure!(!symbol.is_null(), "no two_tenths in it");
    // SAFETY: `tenths.c` defines the function with this signature, and the library stays loaded.
    Ok(unsafe { std::mem::transmute::<*mut libc::c_void, TwoTenths>(symbol) })
}

/// Works until the process is killed.
pub(crate) fn work(library: &Path) -> Result<()> {
    let two_tenths = load(library).context("the C part")?;
    let mut x = u64::from(std::process::id());
    loop {
        let steps = STEPS / 2 + (x >> 33) % STEPS;
        x = five_tenths(x, 5 * steps);
        x = three_tenths(x, 3 * steps, DEPTH);
        x = two_tenths(x, 2 * steps);
    }
}
