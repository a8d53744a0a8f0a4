//! Storms that hold locks for which a careless sampler would wait: locks of the allocator, of the
//! loader and of unwinding.

#![allow(unsafe_code)]

use std::hint::black_box;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, ensure};

use crate::goes_on;

/// Allocates and frees memory of all sizes.
pub(crate) fn malloc(stop: &AtomicBool) -> Result<()> {
    let mut kept = Vec::new();
    for number in 0_usize.. {
        kept.push(black_box(vec![0_u8; number % 5000 + (number % 97) * 1000]));
        if kept.len() > 50 {
            kept.swap_remove(number % 50);
        }
        if !goes_on(stop) {
            break;
        }
    }
    Ok(())
}

/// Loads a library, calls a function of it, and unloads it.
pub(crate) fn dlopen(stop: &AtomicBool) -> Result<()> {
    while goes_on(stop) {
        // SAFETY: a library of the system, whose start-up code does nothing.
        let library = unsafe { libc::dlopen(c"libresolv.so.2".as_ptr(), libc::RTLD_NOW) };
        ensure!(!library.is_null(), "no libresolv");
        // SAFETY: the library is open, and the name ends with a zero.
        let symbol = unsafe { libc::dlsym(library, c"ns_get16".as_ptr()) };
        ensure!(!symbol.is_null(), "no ns_get16");
        // SAFETY: `ns_get16` takes a pointer to two bytes and returns a number.
        let get16 = unsafe {
            std::mem::transmute::<*mut libc::c_void, extern "C" fn(*const u8) -> u32>(symbol)
        };
        let sum: u32 = (0..10_000_u32)
            .map(|_| get16(black_box([1, 2]).as_ptr()))
            .sum();
        ensure!(sum == 10_000 * 258, "{sum}");
        // SAFETY: opened above, and nothing of it is used any more.
        unsafe { libc::dlclose(library) };
    }
    Ok(())
}

/// Panics, and catches the panic.
pub(crate) fn panic(stop: &AtomicBool) -> Result<()> {
    std::panic::set_hook(Box::new(|_| {}));
    fn descend(levels: u32) -> u32 {
        assert!(levels > 0, "on purpose");
        black_box(descend(levels - 1)) + 1
    }
    while goes_on(stop) {
        ensure!(
            std::panic::catch_unwind(|| descend(black_box(30))).is_err(),
            "no panic"
        );
    }
    Ok(())
}

/// Starts threads that end at once.
pub(crate) fn threads(stop: &AtomicBool) -> Result<()> {
    while goes_on(stop) {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..20_000_u64).for_each(|number| _ = black_box(number)));
            }
        });
    }
    Ok(())
}

/// Loads a library repeatedly, each time at another address. The profiler must define it once.
pub(crate) fn reloads(seconds: u64) -> Result<()> {
    let loads = usize::try_from(seconds)? * 300;
    let reloads = integration_tests::reloads::play(loads)?;
    ensure!(reloads.places > 5, "always at the same place: {reloads:?}");
    // Two more are allowed, for other files that are loaded meanwhile.
    ensure!(reloads.added <= 2, "of {loads} loads: {reloads:?}");
    println!("ok {reloads:?}");
    Ok(())
}
