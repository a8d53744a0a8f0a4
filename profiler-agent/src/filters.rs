//! Filters of system calls (seccomp) that apply to some threads only.
//!
//! Used by [`crate::later`] before a program is recorded: samples are taken on all threads, by
//! system calls that such a filter may forbid.

use std::fs;
use std::path::Path;

use profiler_sys::read_text;

/// Whether the system filters the calls of all threads in the same way as those of the calling
/// thread. True if the system does not tell it.
pub(crate) fn are_equal() -> bool {
    let Ok(threads) = fs::read_dir("/proc/self/task") else {
        return true;
    };
    let own = filters(Path::new("/proc/thread-self"));
    threads
        .flatten()
        .filter_map(|thread| filters(&thread.path()))
        .all(|filters| Some(filters) == own)
}

/// The lines about filters in a thread's state. `None` if it has ended.
fn filters(thread: &Path) -> Option<String> {
    let status = read_text(thread.join("status")).ok()?;
    let lines = status.lines().filter(|line| line.starts_with("Seccomp"));
    Some(lines.collect())
}

#[cfg(test)]
mod tests {
    use profiler_sys::spawn_quiet;

    use super::*;

    #[test]
    fn the_filter_of_another_thread_is_noticed() {
        assert!(are_equal());
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (begin, begun) = std::sync::mpsc::channel();
        let filtered = spawn_quiet("filtered", move || {
            allow_everything();
            let _ = begin.send(());
            let _ = ended.recv();
        });
        begun.recv().unwrap();
        assert!(!are_equal());
        drop(end);
        filtered.unwrap().join().unwrap();
    }

    /// Installs a filter for the calling thread that allows all calls.
    #[allow(unsafe_code)]
    fn allow_everything() {
        let mut allow = [libc::sock_filter {
            code: 6, // return
            jt: 0,
            jf: 0,
            k: libc::SECCOMP_RET_ALLOW,
        }];
        let program = libc::sock_fprog {
            len: 1,
            filter: allow.as_mut_ptr(),
        };
        // SAFETY: sets a flag of this thread.
        let failed = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        assert_eq!(failed, 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        // SAFETY: reads a program of one instruction, which lives during the call.
        let failed = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) };
        assert_eq!(failed, 0);
    }
}
