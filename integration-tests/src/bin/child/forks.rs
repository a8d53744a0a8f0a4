//! Forks, grandchildren and strangers in our memory, and what they have of us.

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
        "fork-exit" => fork_and_record(words, in_order),
        "fork-exec" => fork_and_record(words, become_another),
        "fork-in-threads" => fork_in_threads(words),
        "daemon" => daemon(words),
        "vfork" => vfork(words, || ()),
        "vfork-exit" => vfork(words, in_handlers_of_exit),
        "grandchild" => grandchild(),
        _ => return None,
    })
}

/// `fork COUNT`, `fork-exit COUNT`, `fork-exec COUNT`: both record so many markers as thread 2000, this process
/// after the other one has ended in its way.
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

/// The number of a new process that runs `body`.
fn fork(body: impl FnOnce()) -> anyhow::Result<libc::pid_t> {
    // SAFETY: the forked process uses the allocator, which the C library makes usable there, and
    // the profiler, which takes no lock there: that is what the tests are about.
    match unsafe { libc::fork() } {
        -1 => bail!("cannot fork"),
        0 => {
            body();
            quit(99)
        }
        pid => Ok(pid),
    }
}

fn wait_for(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: waits for a process made here, into a local.
    unsafe { libc::waitpid(pid, &mut status, 0) };
    status
}

/// Threads begin and end in the fork, and all handlers of an orderly exit run.
fn in_order() -> ! {
    let records = || (0..100).for_each(|sequence| marks::record(2001, sequence));
    let _ = Builder::new().spawn(records).map(std::thread::JoinHandle::join);
    std::process::exit(0)
}

fn become_another() -> ! {
    let (program, mode) = (c"/proc/self/exe", c"inventory");
    let arguments = [program.as_ptr(), mode.as_ptr(), std::ptr::null()];
    if let Ok(quiet) = std::fs::File::options().write(true).open("/dev/null") {
        // SAFETY: two open descriptors, of which the second is this process's output.
        unsafe { libc::dup2(quiet.as_raw_fd(), 1) };
    }
    // SAFETY: texts that end in zero, and a list that ends in null.
    unsafe { libc::execv(program.as_ptr(), arguments.as_ptr()) };
    quit(98)
}

/// `fork-in-threads THREADS ROUNDS`: each thread forks so often, while whoever records goes on.
fn fork_in_threads(words: Words<'_>) -> anyhow::Result<String> {
    let (threads, rounds) = (number(words, 0)?, number(words, 1)?);
    let rounds = move || {
        let body = || (0..50).for_each(|sequence| marks::record(2002, sequence));
        (0..rounds).map(|_| fork(body).map(wait_for)).collect::<anyhow::Result<Vec<_>>>()
    };
    let workers = (0..threads).map(|_| Builder::new().spawn(rounds));
    let workers: Vec<_> = workers.collect::<std::io::Result<_>>()?;
    let mut good = 0;
    for worker in workers {
        let statuses = worker.join().map_err(|_| anyhow::anyhow!("a forking thread panicked"))??;
        good += statuses.iter().filter(|status| **status == 99 << 8).count();
    }
    Ok(format!("ok {good}"))
}

/// `daemon`: a fork of a fork lives on with all that we have, and scribbles if told `daemon scribble`.
/// Says its number.
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

fn live_on(mut writer: std::io::PipeWriter, scribbles: bool) {
    let _ = std::io::Write::write_all(&mut writer, &std::process::id().to_ne_bytes());
    if scribbles {
        let _ = crate::pool_corruptor::scribble_for_ever();
    }
    loop {
        std::thread::sleep(std::time::Duration::from_secs(3600));
    }
}

/// Runs all exit handlers and ends.
fn in_handlers_of_exit() {
    // SAFETY: not formally safe in a process that shares our memory, but programs do it.
    unsafe { libc::exit(0) }
}

/// `vfork COUNT`: a process in our memory, which stands in for the calling thread until it ends,
/// records `COUNT` markers; then the thread continues to count. `vfork-exit COUNT`: the process
/// ends with `exit`.
fn vfork(words: Words<'_>, end: fn()) -> anyhow::Result<String> {
    extern "C" fn body(argument: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the value that is passed below, which lives until this process has ended.
        let (count, end) = unsafe { argument.cast::<(u64, fn())>().read() };
        (0..count).for_each(|sequence| marks::record(2000, sequence));
        end();
        0
    }
    let count = number(words, 0)?;
    let mut told = (count, end);
    let mut stack = vec![0_u128; 1 << 14];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let argument = (&raw mut told).cast();
    // SAFETY: the stack is ours alone and outlives the process, for which the call waits; the end
    // of the vector is its aligned top.
    let pid = unsafe { libc::clone(body, stack.as_mut_ptr_range().end.cast(), flags, argument) };
    anyhow::ensure!(pid > 0, "cannot make a process");
    let status = wait_for(pid);
    (count..2 * count).for_each(|sequence| marks::record(2000, sequence));
    Ok(format!("ok {status}"))
}

/// Starts this program again, to say what it got from us.
fn grandchild() -> anyhow::Result<String> {
    let program = std::env::current_exe()?;
    let output = Command::new(program).arg("inventory").output()?;
    let text = String::from_utf8(output.stdout)?;
    Ok(format!("ok {}", text.lines().next().context("it said nothing")?))
}

/// Prints whether the variable is set, and what the open descriptors are, on one line.
pub(crate) fn print_inventory() -> anyhow::Result<()> {
    let variable = if std::env::var_os(VARIABLE).is_some() { "variable" } else { "no-variable" };
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
