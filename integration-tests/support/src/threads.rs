//! Threads that do a part of a test and then end.

use std::thread::Builder;

/// Runs `body` on a new thread, to its end. Returns its result.
///
/// # Panics
/// If `body` panics, or no thread can be started.
pub fn on_thread<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    Builder::new().spawn(body).unwrap().join().unwrap()
}

/// As [`on_thread`], on a thread of this name.
///
/// # Panics
/// As [`on_thread`].
pub fn on_named_thread<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> T {
    let named = Builder::new().name(name.to_owned());
    named.spawn(body).unwrap().join().unwrap()
}
