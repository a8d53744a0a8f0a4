//! Whether threads of the profiler exist in this process, as the system sees it.
//!
//! Used by `shutdown`. A thread that another one has joined may still exist for the system, which
//! then refuses what it allows only to a process with one thread.

use std::fs;
use std::sync::{Mutex, PoisonError};

use profiler_sys::{QuietThread, Renewable, read_text};

/// How the name of each thread of the profiler begins.
const PREFIX: &str = "profiler-";

/// The control thread: it may not have its name yet.
static CONTROL: Renewable<Mutex<Option<QuietThread<()>>>> = Renewable::new(Mutex::new(None));

/// Notes the control thread.
pub(crate) fn set_control(thread: QuietThread<()>) {
    *CONTROL.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
}

/// In a forked child that begins anew: forgets the parent's thread. Its handle is not dropped,
/// because that would detach whichever thread of this process has the same number.
pub(crate) fn forget_parent() {
    CONTROL.renew(Mutex::new(None));
}

/// Whether a thread of the profiler exists; false if the system does not tell it.
pub(crate) fn are_there() -> bool {
    let control = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
    let serves = control.as_ref().is_some_and(|it| !it.is_finished());
    serves || fs::read_dir("/proc/self/task").is_ok_and(has_named)
}

/// Whether a thread in this directory has a name of the profiler.
fn has_named(threads: fs::ReadDir) -> bool {
    let name = |thread: fs::DirEntry| read_text(thread.path().join("comm")).unwrap_or_default();
    threads
        .flatten()
        .any(|thread| name(thread).starts_with(PREFIX))
}

/// Held by tests that start threads of the profiler, or look for them.
#[cfg(test)]
pub(crate) static ALONE_IN_TESTS: Mutex<()> = Mutex::new(());

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::mpsc;

    use profiler_sys::spawn_quiet;

    use super::*;

    #[test]
    fn a_thread_of_the_profiler_is_found_while_it_exists() {
        let _alone = ALONE_IN_TESTS.lock();
        let wait_until_none = || {
            while are_there() {
                std::thread::yield_now(); // a joined thread may still exist for the system
            }
        };
        wait_until_none();
        let (end, ended) = mpsc::channel::<()>();
        let (begin, begun) = mpsc::channel();
        let thread = spawn_quiet("profiler-test", move || {
            let _ = begin.send(());
            let _ = ended.recv();
        });
        begun.recv().unwrap();
        assert!(are_there());
        drop(end);
        thread.unwrap().join().unwrap();
        wait_until_none();
    }
}
