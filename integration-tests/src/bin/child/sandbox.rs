//! A command that puts this process into a sandbox: the process can open nothing, and any other
//! system call that is not allowed kills it.
//!
//! `sandbox` is sent after the profiler has begun. [`RECORDER`] lists what the recorder needs on
//! all its threads. `sandbox sampled` also allows what samples need, [`SAMPLER`]; it then opens
//! files as well. `docs/security.md` contains the same lists.
//!
//! `compute NAME` starts a thread with this name that computes until the process ends.

use anyhow::{Context, ensure};

use crate::Words;

/// System calls for recording, obeying the parent and writing a part.
const RECORDER: &[i64] = &[
    // Recording: waking and waiting, the number of the thread, and giving pages back.
    libc::SYS_futex,
    libc::SYS_gettid,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_sched_yield,
    // A wait with a time-out goes on after SIGSTOP and SIGCONT.
    libc::SYS_restart_syscall,
    // Memory for any allocator.
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    // The channel.
    libc::SYS_sendto,
    libc::SYS_recvmsg,
    libc::SYS_getpid,
    libc::SYS_shutdown, // at the end of the session
    // A part of a profile: reading the pool and writing the part file, which are open.
    libc::SYS_fcntl,
    libc::SYS_statx,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_lseek,
    libc::SYS_ftruncate,
    libc::SYS_getrandom,
    libc::SYS_close,
    // The start and the end of the thread that writes the part.
    libc::SYS_clone3,
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
    libc::SYS_rt_sigprocmask,
    libc::SYS_sigaltstack,
    libc::SYS_sched_getaffinity,
    libc::SYS_prctl,
    libc::SYS_exit,
];

/// Further system calls for samples: files about threads and modules, clocks, the memory of threads
/// that wait, and signal handlers. No call for a timer: timers that exist are kept.
const SAMPLER: &[i64] = &[
    #[cfg(target_arch = "x86_64")] // other architectures do not have it
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_read,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_getdents64,
    libc::SYS_prlimit64,
    libc::SYS_process_vm_readv,
    libc::SYS_clock_gettime,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigreturn,
];

/// System calls that fail but do not kill the process. A part also describes the machine, and
/// leaves out what the process cannot find out.
const REFUSED: &[i64] = &[
    libc::SYS_openat,
    libc::SYS_uname,
    libc::SYS_newfstatat,
    libc::SYS_readlinkat,
    libc::SYS_faccessat2,
    libc::SYS_getdents64,
];

/// System calls of this program itself: it reads commands, pauses and ends.
const HOST: &[i64] = &[
    libc::SYS_read,
    libc::SYS_clock_nanosleep,
    libc::SYS_exit_group,
];

pub(crate) fn obey(name: &str, words: Words<'_>) -> Option<anyhow::Result<String>> {
    match (name, words) {
        ("sandbox", []) => Some(close(&[])),
        ("sandbox", ["sampled"]) => Some(close(SAMPLER)),
        ("compute", _) => Some(compute(words)),
        _ => None,
    }
}

fn compute(words: Words<'_>) -> anyhow::Result<String> {
    let name = words.first().context("which name?")?;
    let endlessly = || {
        loop {
            std::hint::black_box(0_u64);
        }
    };
    std::thread::Builder::new()
        .name((*name).to_owned())
        .spawn(endlessly)?;
    Ok("ok".to_owned())
}

/// `init-in-one-table`: begins where the system gives no descriptor table to a thread, as before
/// Linux 5.9. Returns `None` for another name.
pub(crate) fn begin(name: &str) -> Option<anyhow::Result<String>> {
    (name == "init-in-one-table").then(|| {
        refuse_tables()?;
        crate::begin::init()
    })
}

/// The system gives no descriptor table to a thread from now on.
pub(crate) fn refuse_tables() -> anyhow::Result<()> {
    let refused = &[libc::SYS_close_range];
    install(filter(&[], refused, libc::SECCOMP_RET_ALLOW)?)
}

/// Closes the sandbox, which also allows `more`.
fn close(more: &[i64]) -> anyhow::Result<String> {
    let allowed = [RECORDER, HOST, more].concat();
    install(filter(&allowed, REFUSED, libc::SECCOMP_RET_KILL_PROCESS)?)?;
    Ok(format!("ok {}", RECORDER.len()))
}

/// Filters the system calls of all threads.
fn install(mut program: Vec<libc::sock_filter>) -> anyhow::Result<()> {
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len())?,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: takes only numbers. Afterwards, no execve gives this process more rights.
    #[allow(unsafe_code)]
    let failed = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    ensure!(
        failed == 0,
        "no_new_privs: {}",
        std::io::Error::last_os_error()
    );
    let mode = libc::SECCOMP_SET_MODE_FILTER;
    let on_all_threads = libc::SECCOMP_FILTER_FLAG_TSYNC;
    // SAFETY: the pointer is to a filter of that length, which the kernel copies in the call.
    #[allow(unsafe_code)]
    let failed =
        unsafe { libc::syscall(libc::SYS_seccomp, mode, on_all_threads, &raw const filter) };
    ensure!(failed == 0, "seccomp: {}", std::io::Error::last_os_error());
    Ok(())
}

/// Returns a filter that allows and refuses these calls by their numbers, and does `otherwise` for
/// any other call. The first matching step decides.
fn filter(
    allowed: &[i64],
    refused: &[i64],
    otherwise: u32,
) -> anyhow::Result<Vec<libc::sock_filter>> {
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let equals = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    let step = |code: u32, k: u32, else_skip: u8| {
        let code = u16::try_from(code)?;
        anyhow::Ok(libc::sock_filter {
            code,
            jt: 0,
            jf: else_skip,
            k,
        })
    };
    let mut program = vec![step(load, 0, 0)?]; // the number is the first field
    let denied = libc::SECCOMP_RET_ERRNO | u32::try_from(libc::EACCES)?;
    let allowed = allowed
        .iter()
        .map(|number| (number, libc::SECCOMP_RET_ALLOW));
    for (number, action) in allowed.chain(refused.iter().map(|number| (number, denied))) {
        program.push(step(equals, u32::try_from(*number)?, 1)?);
        program.push(step(answer, action, 0)?);
    }
    program.push(step(answer, otherwise, 0)?);
    Ok(program)
}
