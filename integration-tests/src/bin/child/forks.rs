//! Commands that fork, that start a grandchild, or that start a process in the memory of this one
//! (`vfork`). Tests use them to check what such a process inherits, and that it does not harm this
//! one.

#![allow(unsafe_code)]

use std::os::fd::AsRawFd;
use std::process::Command;
use std::thread::Builder;

use anyhow::{Context, bail};
use integration_tests::marks;
use ipc_protocol::environment::VARIABLE;

use crate::end::quit;
use crate::{Words, number};

pub(crate) fn obey(name: &str, words: Words<'_>) -> Option<anyhow::Result<String>> {
    Some(match name {
        "fork" => fork_and_record(words, || quit(0)),
        "fork-exit" => fork_and_record(words, exit_after_a_thread),
        "fork-exec" => fork_and_record(words, exec_inventory),
        "fork-in-threads" => fork_in_threads(words),
        "daemon" => daemon(words),
        "vfork" => vfork(words, || ()),
        "vfork-exit" => vfork(words, exit_with_handlers),
        "grandchild" => grandchild(),
        _ => return None,
    })
}

/// `fork COUNT`, `fork-exit COUNT`, `fork-exec COUNT`: the forked process records COUNT markers as
/// thread 2000, and ends with `_exit`, `exit` or `exec`. Then this process records COUNT markers as
/// thread 2000.
fn fork_and_record(words: Words<'_>, end: fn() -> !) -> anyhow::Result<String> {
    let count = number(words, 0)?;
    let body = || {
        (0..count).for_each(|sequence| marks::record(2000, sequence));
        end()
    };
    let status = wait_for(fork(body)?);
    (0..count).for_each(|sequence| marks::record(2000, sequence));
    Ok(format!("ok {status}"))
}

/// Forks a process that runs `body`, and returns its number.
pub(crate) fn fork(body: impl FnOnce()) -> anyhow::Result<libc::pid_t> {
    // SAFETY: the forked process uses the allocator, which the C library keeps usable after a fork,
    // and the profiler, which must take no lock there. The tests check the latter.
    match unsafe { libc::fork() } {
        -1 => bail!("cannot fork"),
        0 => {
            body();
            quit(99)
        }
        pid => Ok(pid),
    }
}

pub(crate) fn wait_for(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: waits for a child, and writes its status to a local.
    unsafe { libc::waitpid(pid, &mut status, 0) };
    status
}

/// Starts and ends a thread in the fork, and then ends it with all exit handlers.
fn exit_after_a_thread() -> ! {
    let records = || (0..100).for_each(|sequence| marks::record(2001, sequence));
    let _ = Builder::new()
        .spawn(records)
        .map(std::thread::JoinHandle::join);
    std::process::exit(0)
}

/// Replaces the forked process with this program, in the mode `inventory` and without output.
fn exec_inventory() -> ! {
    let program = c"/proc/self/exe";
    let mode = c"inventory";
    let arguments = [program.as_ptr(), mode.as_ptr(), std::ptr::null()];
    if let Ok(quiet) = std::fs::File::options().write(true).open("/dev/null") {
        // SAFETY: both descriptors are open. The second is the standard output of this process.
        unsafe { libc::dup2(quiet.as_raw_fd(), 1) };
    }
    // SAFETY: the strings end with a zero, and the list ends with a null pointer.
    unsafe { libc::execv(program.as_ptr(), arguments.as_ptr()) };
    quit(98)
}

/// `fork-in-threads THREADS ROUNDS`: each of THREADS threads forks ROUNDS times, while other
/// threads continue to record. Answers how many forked processes ended with the expected status.
fn fork_in_threads(words: Words<'_>) -> anyhow::Result<String> {
    let threads = number(words, 0)?;
    let rounds = number(words, 1)?;
    let rounds = move || {
        let body = || (0..50).for_each(|sequence| marks::record(2002, sequence));
        (0..rounds)
            .map(|_| fork(body).map(wait_for))
            .collect::<anyhow::Result<Vec<_>>>()
    };
    let workers = (0..threads).map(|_| Builder::new().spawn(rounds));
    let workers: Vec<_> = workers.collect::<std::io::Result<_>>()?;
    let mut good = 0;
    for worker in workers {
        let statuses = worker
            .join()
            .map_err(|_| anyhow::anyhow!("a forking thread panicked"))??;
        good += statuses.iter().filter(|status| **status == 99 << 8).count();
    }
    Ok(format!("ok {good}"))
}

/// `daemon`: a fork of a fork lives on with everything that it inherits. Answers its process
/// number. With `daemon scribble`, it overwrites the pool.
fn daemon(words: Words<'_>) -> anyhow::Result<String> {
    let scribbles = words.first() == Some(&"scribble");
    let (mut reader, writer) = std::io::pipe()?;
    let body = || {
        let _ = fork(|| live_on(writer, scribbles));
        quit(0)
    };
    wait_for(fork(body)?);
    let mut number = [0; 4];
    std::io::Read::read_exact(&mut reader, &mut number)?;
    Ok(format!("ok {}", u32::from_ne_bytes(number)))
}

/// The seconds after which a process that a test leaves behind ends by itself.
const MAX_SECONDS: u32 = 900;

/// Goes on until the test kills this process. If the test itself is killed, the process ends after
/// [`MAX_SECONDS`].
fn live_on(mut writer: std::io::PipeWriter, scribbles: bool) {
    // SAFETY: the call has no preconditions.
    unsafe { libc::alarm(MAX_SECONDS) };
    let _ = std::io::Write::write_all(&mut writer, &std::process::id().to_ne_bytes());
    if scribbles {
        let _ = crate::pool_corruptor::scribble_forever();
    }
    loop {
        std::thread::sleep(std::time::Duration::from_secs(3600));
    }
}

/// Ends the process with all exit handlers.
fn exit_with_handlers() {
    // SAFETY: `exit` is not safe in a process that shares the memory of its parent, but some
    // programs call it there. The test checks that.
    unsafe { libc::exit(0) }
}

/// `vfork COUNT`: a process in the memory of this one, for which the calling thread waits, records
/// COUNT markers as thread 2000. Then the thread records the next COUNT markers. `vfork-exit
/// COUNT`: the same, but the process ends with `exit`.
fn vfork(words: Words<'_>, end: fn()) -> anyhow::Result<String> {
    extern "C" fn body(argument: *mut libc::c_void) -> libc::c_int {
        // SAFETY: points to `task` below, which lives until this process has ended.
        let (count, end) = unsafe { argument.cast::<(u64, fn())>().read() };
        (0..count).for_each(|sequence| marks::record(2000, sequence));
        end();
        0
    }
    let count = number(words, 0)?;
    let mut task = (count, end);
    let mut stack = vec![0_u128; 1 << 14];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let argument = (&raw mut task).cast();
    // SAFETY: nothing else uses the stack. It outlives the process, because the call waits for the
    // process. The end of the vector is the aligned top of the stack.
    let pid = unsafe { libc::clone(body, stack.as_mut_ptr_range().end.cast(), flags, argument) };
    anyhow::ensure!(pid > 0, "cannot make a process");
    let status = wait_for(pid);
    (count..2 * count).for_each(|sequence| marks::record(2000, sequence));
    Ok(format!("ok {status}"))
}

/// Starts this program again in the mode `inventory`, and answers what it inherited.
fn grandchild() -> anyhow::Result<String> {
    let program = std::env::current_exe()?;
    let output = Command::new(program).arg("inventory").output()?;
    let text = String::from_utf8(output.stdout)?;
    Ok(format!(
        "ok {}",
        text.lines().next().context("it said nothing")?
    ))
}

/// Prints on one line whether the variable is set, and what the open descriptors refer to.
pub(crate) fn print_inventory() -> anyhow::Result<()> {
    let variable = if std::env::var_os(VARIABLE).is_some() {
        "variable"
    } else {
        "no-variable"
    };
    let mut line = variable.to_owned();
    for entry in std::fs::read_dir("/proc/self/fd")?.flatten() {
        let number = entry.file_name();
        if let Ok(target) = std::fs::read_link(entry.path()) {
            line.push_str(&format!(
                " {}={}",
                number.to_string_lossy(),
                target.to_string_lossy().replace(' ', "_")
            ));
        }
    }
    println!("{line}");
    Ok(())
}
