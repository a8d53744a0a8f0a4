//! A forked child of a process that knows groups and never had a session. Alone in its process for that.

#![cfg(all(target_os = "linux", not(loom)))]
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use profiler_core::groups::{Group, GroupKind, InGroups};

const PATIENCE: Duration = Duration::from_secs(10);

/// Waits for a child; ends it if it does not end by itself. Whether it came to a good end.
fn ends_well(pid: i32) -> bool {
    #[allow(clippy::disallowed_methods)] // a stopwatch
    let begin = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: asks for a child of ours that nobody else waits for.
        if unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } == pid {
            return status == 0;
        }
        if begin.elapsed() > PATIENCE {
            // SAFETY: it has not been waited for, so the number is still its own.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            // SAFETY: as above; it ends now.
            unsafe { libc::waitpid(pid, &raw mut status, 0) };
            return false;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_forked_child_does_not_wait_for_a_registry_that_another_thread_had() {
    static STATIC: Group = Group::named("plugin:in the child");
    let stop = AtomicBool::new(false);
    let mut bad = 0;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    drop(Group::register(GroupKind::Plugin, "registers all the time"));
                }
            });
        }
        for _ in 0..200 {
            // SAFETY: the child registers, which allocates by the C library's allocator, and ends.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                drop(Group::register(GroupKind::Plugin, "in the child"));
                drop(async {}.in_group(&STATIC));
                drop(STATIC.clone());
                // SAFETY: ends the process at once.
                unsafe { libc::_exit(0) };
            }
            bad += u32::from(!ends_well(pid));
            if bad > 0 {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(bad, 0, "a child hung");
}
