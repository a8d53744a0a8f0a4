//! The percentage of stacks that are followed to their end: in Rust, in the C library, and in C
//! without frame pointers.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::hint::black_box;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};

use super::session::{Sampling, at_depth, beside, goes_on, samples_of};
use integration_tests::figure::{Figure, Promise, Report};

pub(super) fn measure(report: &mut Report) -> Result<()> {
    put(report, "rust", 99.0, sort_strings)?;
    put(report, "libc", 97.0, sort_by_libc)?;
    let call = c_function()?;
    put(report, "c_o2", 97.0, move |stop| {
        while goes_on(stop) {
            black_box(call(black_box(12)));
        }
    })
}

fn put(
    report: &mut Report,
    name: &str,
    promise: f64,
    work: impl Fn(&AtomicBool) + Send + Sync,
) -> Result<()> {
    let _sampling = Sampling::start()?;
    let (thread, ()) = beside(|stop| at_depth(10, &mut || work(stop)))?;
    let samples = samples_of(thread)?;
    let right = samples.iter().filter(|sample| !sample.failed).count();
    let percent = right as f64 * 100.0 / samples.len().max(1) as f64;
    let few = (samples.len() < 200).then(|| format!("only {} samples", samples.len()));
    let figure = Figure::new(format!("sample.unwind_ok_pct.{name}"), percent, "%");
    report.put(figure.promised(Promise::AtLeast(promise)).unless(few));
    Ok(())
}

fn sort_strings(stop: &AtomicBool) {
    while goes_on(stop) {
        let mut words: Vec<String> = (0..300_u32)
            .map(|number| format!("{:x}", number.wrapping_mul(2_654_435_761)))
            .collect();
        words.sort();
        black_box(words);
    }
}

extern "C" fn compare(a: *const libc::c_void, b: *const libc::c_void) -> libc::c_int {
    // SAFETY: `qsort` passes pointers to elements of the array, which are `u32`.
    let a = unsafe { *a.cast::<u32>() };
    // SAFETY: as above.
    let b = unsafe { *b.cast::<u32>() };
    a.cmp(&b) as libc::c_int
}

fn sort_by_libc(stop: &AtomicBool) {
    while goes_on(stop) {
        let mut numbers: Vec<u32> = (0..1000_u32)
            .map(|number| number.wrapping_mul(2_654_435_761))
            .collect();
        // SAFETY: the pointer, the length and the size of four bytes describe `numbers`, and
        // `compare` reads two of its elements.
        unsafe { libc::qsort(numbers.as_mut_ptr().cast(), numbers.len(), 4, Some(compare)) };
        black_box(numbers);
    }
}

const C: &str = r"
__attribute__((noinline)) static long leaf(long n) { volatile long sum = 0; for (long i = 0; i < 2000; i++) sum += i * n; return sum; }
__attribute__((noinline)) long nested(long n) { char room[64]; room[n & 63] = (char)n; long below = n > 0 ? nested(n - 1) : leaf(n); return below + room[n & 63]; }
";

/// Compiles and loads a C library with the flags that distributions use, and returns its function.
fn c_function() -> Result<extern "C" fn(libc::c_long) -> libc::c_long> {
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("nested.c");
    let library = folder.path().join("nested.so");
    std::fs::write(&source, C)?;
    let mut compiler = Command::new("cc");
    compiler
        .args(["-O2", "-fomit-frame-pointer", "-shared", "-fPIC", "-o"])
        .args([&library, &source]);
    ensure!(
        compiler.status().context("no C compiler")?.success(),
        "the C compiler failed"
    );
    let path = CString::new(library.to_str().context("the path is not UTF-8")?)?;
    // SAFETY: the library has no code that runs when it is loaded. It stays loaded after its file
    // is removed.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    ensure!(!library.is_null(), "the library does not load");
    // SAFETY: `library` is an open handle, and the name is a C string.
    let symbol = unsafe { libc::dlsym(library, c"nested".as_ptr()) };
    ensure!(!symbol.is_null(), "the function is not there");
    // SAFETY: `nested` takes a `long` and returns a `long`, see `C`. The library is never unloaded.
    Ok(unsafe {
        std::mem::transmute::<*mut libc::c_void, extern "C" fn(libc::c_long) -> libc::c_long>(
            symbol,
        )
    })
}
