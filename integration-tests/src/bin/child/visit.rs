//! A command that records while a function of a library is on the stack. A test builds the library:
//! see `integration_tests::hostile_library`.

#![allow(unsafe_code)]

use std::ffi::{CString, c_void};
use std::time::Duration;

use anyhow::{Context, ensure};
use profiler_core::groups::{Group, GroupKind};
use profiler_core::marker;
use profiler_core::marker::{MarkerOptions, MarkerStack, category};

use crate::Words;

/// Time in the library before and after the marker: long enough for an alert and for samples.
const STAY: Duration = Duration::from_millis(150);

/// The library's function, which calls its argument.
type Visit = unsafe extern "C" fn(extern "C" fn());

/// `visit PATH`: loads the library, enters the group of a plugin, calls a function of the library,
/// and records a marker with its stack from there.
pub(crate) fn obey(name: &str, words: Words<'_>) -> Option<anyhow::Result<String>> {
    (name == "visit").then(|| visit(words.first().context("which library?")?))
}

fn visit(path: &str) -> anyhow::Result<String> {
    let path = CString::new(path)?;
    // SAFETY: the path ends with a zero, and the library runs no code when it is loaded.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    ensure!(!library.is_null(), "cannot load {path:?}");
    // SAFETY: the library stays loaded, and the name ends with a zero.
    let function = unsafe { libc::dlsym(library, c"visit".as_ptr()) };
    ensure!(!function.is_null(), "no function in {path:?}");
    // SAFETY: the library's source gives the function this type.
    let function = unsafe { std::mem::transmute::<*mut c_void, Visit>(function) };
    let _run = Group::register(GroupKind::Plugin, "visitor").enter();
    // SAFETY: the function calls `within` once and returns.
    unsafe { function(within) };
    Ok("ok".to_owned())
}

extern "C" fn within() {
    std::thread::sleep(STAY);
    marker!(
        "visited",
        &category::OTHER,
        MarkerOptions::default().with_stack(MarkerStack::Full)
    );
    std::thread::sleep(STAY);
}
