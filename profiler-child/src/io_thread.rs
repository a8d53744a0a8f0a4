//! The thread that makes the profiler's connections and opens its files.
//!
//! It has a descriptor table of its own ([`leave_program_table`]), and so have the threads that it
//! starts, directly or not: all threads of the profiler in this process. So the program has no
//! descriptor of the profiler, and the two cannot close each other's files. It runs the steps in
//! which the process begins to record, and later what a thread of the program asks for that needs a
//! descriptor.
//!
//! ```text
//! program's thread:  init ── run(job) ─▶ waits … ◀─ result           shutdown ── run(job) ─▶ …
//! profiler-io:            starts ─▶ own table ─▶ job ─▶ sleeps ──────────────▶ job ─▶ sleeps
//! ```
//!
//! Invariants: there is at most one in a process, and a forked child does not use its parent's; no
//! lock is held while a thread waits; a thread of the program waits for a limited time; a job that
//! panics ends the thread, and the waiting one gets an error; where the system refuses a table, all
//! threads use that of the program.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use profiler_core::session;
use profiler_sys::{
    DescriptorTable, QuietThread, Renewable, end_profiler_table, leave_program_table, spawn_quiet,
};

type Job = Box<dyn FnOnce() + Send>;

/// The way to the running thread.
#[derive(Debug)]
struct IoThread {
    jobs: Sender<Job>,
    thread: QuietThread<()>,
}

/// Whether [`post`] may start the thread.
#[derive(Clone, Copy, Debug)]
enum IfAbsent<'a> {
    /// Start it. Its table then has these descriptors of the calling thread's table.
    StartWith(&'a [RawFd]),
    /// Return an error.
    Refuse,
}

static IO_THREAD: Renewable<Mutex<Option<IoThread>>> = Renewable::new(Mutex::new(None));
/// The process that uses [`IO_THREAD`]; 0 before its first use.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// How long a thread of the program waits for a thread of the profiler that does not run, for
/// example because `init` was called within a `dlopen` that blocks new threads.
const START_WAIT: Duration = Duration::from_secs(10);

thread_local! {
    /// Whether the calling thread is the I/O thread.
    static IS_IO_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Runs `job`, which itself may wait for `patience`, on the I/O thread, and waits for its result.
/// Starts the thread if there is none: its table then has the descriptors `kept` of the calling
/// thread's table.
///
/// # Errors
/// If the system cannot start a thread, if the job panics, or [`io::ErrorKind::TimedOut`] if it has
/// not ended [`START_WAIT`] after `patience`; then it may still run.
pub(crate) fn run<T: Send + 'static>(
    kept: &[RawFd],
    patience: Duration,
    job: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    run_or(
        IfAbsent::StartWith(kept),
        patience.saturating_add(START_WAIT),
        job,
    )
}

/// Runs `job` on the I/O thread, and waits for its result for at most `patience` from when it
/// begins. Starts the thread as [`run`] does. `None` if the job has not ended then: it goes on, and
/// `late` gets its result on that thread.
///
/// # Errors
/// As [`run`]; [`io::ErrorKind::TimedOut`] if the job has not begun within [`START_WAIT`].
pub(crate) fn run_for<T: Send + 'static>(
    kept: &[RawFd],
    patience: Duration,
    job: impl FnOnce() -> T + Send + 'static,
    late: impl FnOnce(T) + Send + 'static,
) -> io::Result<Option<T>> {
    let (begin, begun) = mpsc::channel();
    let (result, results) = mpsc::channel();
    // Set by the first of the two threads: the job has ended, or the other one waits no longer.
    let is_settled = Arc::new(AtomicBool::new(false));
    let settled = Arc::clone(&is_settled);
    let job = move || {
        let _ = begin.send(()); // an error: the other thread waits no longer
        let value = job();
        if settled.swap(true, Ordering::AcqRel) {
            late(value);
        } else {
            let _ = result.send(value); // the other thread receives it
        }
    };
    post(IfAbsent::StartWith(kept), Box::new(job))?;
    begun.recv_timeout(START_WAIT).map_err(missing)?;
    match results.recv_timeout(patience) {
        Ok(value) => Ok(Some(value)),
        Err(RecvTimeoutError::Disconnected) => Err(has_ended()),
        Err(RecvTimeoutError::Timeout) if !is_settled.swap(true, Ordering::AcqRel) => Ok(None),
        Err(RecvTimeoutError::Timeout) => results.recv().map(Some).map_err(|_| has_ended()),
    }
}

/// Runs `job`, which uses descriptors of the profiler: here if the calling thread can, otherwise on
/// the I/O thread, for which the calling thread waits for at most `patience`. Does nothing if that
/// thread has ended.
pub(crate) fn run_where_possible(patience: Duration, job: impl FnOnce() + Send + 'static) {
    if DescriptorTable::is_that_of_profiler() {
        job();
    } else {
        let _ = run_or(IfAbsent::Refuse, patience, job); // an error: no thread can do it
    }
}

/// Ends the thread after the jobs that wait. Threads that it has started go on.
pub(crate) fn end() {
    drop(current().take());
}

/// [`end`], and waits until the thread has ended, without a limit: no job runs or waits.
pub(crate) fn end_and_wait() {
    let ended = current().take();
    if let Some(IoThread { jobs, thread }) = ended
        && !IS_IO_THREAD.get()
    {
        drop(jobs);
        let _ = thread.join(); // an error: a job has panicked
    }
}

/// In a forked child that begins anew: forgets the parent's thread.
pub(crate) fn forget_parent() {
    IO_THREAD.renew(Mutex::new(None));
    PROCESS.store(std::process::id(), Ordering::Release);
}

/// The thread of this process. In a forked child, which does not have the parent's thread, and in
/// which the parent's lock may be held forever, the value is a new one.
fn current() -> MutexGuard<'static, Option<IoThread>> {
    let own = std::process::id();
    let before = PROCESS.swap(own, Ordering::AcqRel);
    if before != own && before != 0 {
        forget_parent();
    }
    IO_THREAD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run_or<T: Send + 'static>(
    if_absent: IfAbsent<'_>,
    patience: Duration,
    job: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    if IS_IO_THREAD.get() {
        return Ok(job());
    }
    let (result, results) = mpsc::channel();
    let job = move || _ = result.send(job()); // an error: the other thread no longer waits
    post(if_absent, Box::new(job))?;
    results.recv_timeout(patience).map_err(missing)
}

/// The error of a thread that has received nothing.
fn missing(error: RecvTimeoutError) -> io::Error {
    match error {
        RecvTimeoutError::Timeout => io::ErrorKind::TimedOut.into(),
        RecvTimeoutError::Disconnected => has_ended(),
    }
}

fn post(if_absent: IfAbsent<'_>, job: Job) -> io::Result<()> {
    let mut current = current();
    // A thread in which a job has panicked receives no more jobs.
    let running = current
        .take()
        .filter(|running| !running.thread.is_finished());
    let running = match (running, if_absent) {
        (Some(running), _) => running,
        (None, IfAbsent::StartWith(kept)) => start(kept)?,
        (None, IfAbsent::Refuse) => return Err(has_ended()),
    };
    let sent = running.jobs.send(job);
    *current = sent.is_ok().then_some(running);
    drop(current); // before a job that cannot be sent, which may use this module when it is dropped
    sent.map_err(|_| has_ended())
}

fn has_ended() -> io::Error {
    io::Error::other("the I/O thread of the profiler has ended")
}

/// Starts the thread.
fn start(kept: &[RawFd]) -> io::Result<IoThread> {
    let (jobs, received) = mpsc::channel::<Job>();
    let kept = kept.to_vec();
    let thread = spawn_quiet("profiler-io", move || {
        IS_IO_THREAD.set(true);
        unblock_sigsys();
        let _ = leave_program_table(&kept); // an error: it stays in that of the program
        let _ended = Ended;
        received.iter().for_each(|job| job());
    })?;
    Ok(IoThread { jobs, thread })
}

/// Notes when it is dropped that the thread has ended, also after a panic.
struct Ended;

impl Drop for Ended {
    fn drop(&mut self) {
        if !session::is_active() {
            end_profiler_table();
        }
    }
}

/// Lets a sandbox of the program answer the calls of this thread: its handler of `SIGSYS` turns
/// them into errors. The system sends the signal to the thread that has made the call, and ends the
/// process if this thread blocks it.
fn unblock_sigsys() {
    let mut sigsys = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: initialises a local set.
    unsafe { libc::sigemptyset(sigsys.as_mut_ptr()) };
    // SAFETY: the set is initialised.
    unsafe { libc::sigaddset(sigsys.as_mut_ptr(), libc::SIGSYS) };
    // SAFETY: reads the set, and writes no other.
    unsafe {
        libc::pthread_sigmask(libc::SIG_UNBLOCK, sigsys.as_ptr(), std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own_threads;

    const LONG: Duration = Duration::from_secs(600);

    fn thread() -> std::thread::ThreadId {
        std::thread::current().id()
    }

    /// One test, because the thread is that of the process.
    #[test]
    fn jobs_run_on_one_thread_until_it_ends() {
        let _alone = own_threads::ALONE_IN_TESTS.lock();
        let first = run(&[], LONG, thread).unwrap();
        assert_ne!(first, thread());
        let nested = run(&[], LONG, || run(&[], LONG, thread).unwrap()).unwrap();
        assert_eq!(nested, first);
        let (sender, receiver) = mpsc::channel();
        run_where_possible(LONG, move || _ = sender.send(thread()));
        // Where the profiler has no table of its own, every thread can use its descriptors.
        let has_own =
            run(&[], LONG, DescriptorTable::current).unwrap() == DescriptorTable::Profiler;
        let possible = if has_own { first } else { thread() };
        assert_eq!(receiver.recv().unwrap(), possible);
        end_and_wait();
        assert!(
            DescriptorTable::is_that_of_profiler(),
            "the table has ended"
        );

        assert_ne!(run(&[], LONG, thread).unwrap(), first, "a new thread");
        assert!(run(&[], LONG, || panic!("a job that panics")).is_err());
        end_and_wait();
        assert!(run(&[], LONG, thread).is_ok(), "a new thread");

        let (go_on, going_on) = mpsc::channel::<()>();
        let waits = run_or(IfAbsent::StartWith(&[]), Duration::ZERO, move || {
            going_on.recv()
        });
        assert_eq!(waits.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(go_on);
        end_and_wait();
    }
}
