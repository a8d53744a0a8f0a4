//! A debugger that stops and continues all threads of a process: `tracer PID ROUNDS`.
//!
//! Run by the storm `traced`. Every second round attaches to each thread, which stops it with a
//! SIGSTOP (`PTRACE_ATTACH`). The others seize the threads, run them for some milliseconds, pass
//! their signals on, and interrupt them (`PTRACE_SEIZE`). Each round then keeps the whole process
//! stopped for some milliseconds, and detaches from all threads. Prints the number of stopped
//! threads and of signals that were passed on, or `left out` and the reason.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::io;
use std::ptr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use integration_tests::patience::Stopwatch;

const STOPPED: Duration = Duration::from_millis(5);
const RUNNING: Duration = Duration::from_millis(20);

/// What happened to a traced thread.
enum Event {
    /// It stopped for the tracer.
    Stopped,
    /// It stopped to receive this signal.
    Signal(libc::c_int),
    Ended,
}

#[derive(Default)]
struct Tracer {
    /// The traced threads, and the signal that each stopped with; `None` for a thread that runs.
    threads: BTreeMap<libc::pid_t, Option<libc::c_int>>,
    stopped: u64,
    passed_on: u64,
}

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let process: libc::pid_t = words.next().context("which process?")?.parse()?;
    let rounds: u64 = words.next().context("how many rounds?")?.parse()?;
    let mut tracer = Tracer::default();
    for round in 0..rounds {
        let traced = if round % 2 == 0 {
            tracer.seize(process)
        } else {
            tracer.attach(process)
        };
        match traced {
            Err(error) if round == 0 && is_refused(&error) => {
                println!("left out: {error:#}");
                return Ok(());
            }
            traced => traced?,
        }
        std::thread::sleep(STOPPED);
        tracer.detach();
        std::thread::sleep(RUNNING);
    }
    println!("{} {}", tracer.stopped, tracer.passed_on);
    Ok(())
}

impl Tracer {
    /// Traces all threads, lets them run, and stops them.
    fn seize(&mut self, process: libc::pid_t) -> Result<()> {
        for thread in threads_of(process)? {
            self.begin(libc::PTRACE_SEIZE, thread)?;
        }
        let watch = Stopwatch::start();
        while watch.elapsed() < RUNNING {
            match next_event(libc::WNOHANG) {
                Some((thread, event)) => self.continue_after(thread, &event),
                None => std::thread::sleep(Duration::from_micros(200)),
            }
        }
        for thread in self.threads.keys() {
            let _ = request(libc::PTRACE_INTERRUPT, *thread, 0);
        }
        self.wait_until_stopped(|event| match event {
            Event::Stopped => Some(0),
            Event::Signal(signal) => Some(*signal),
            Event::Ended => None,
        });
        Ok(())
    }

    /// Traces all threads, which stops them.
    fn attach(&mut self, process: libc::pid_t) -> Result<()> {
        for thread in threads_of(process)? {
            self.begin(libc::PTRACE_ATTACH, thread)?;
        }
        self.wait_until_stopped(|event| match event {
            Event::Signal(libc::SIGSTOP) => Some(0),
            _ => None,
        });
        Ok(())
    }

    fn begin(&mut self, how: libc::c_uint, thread: libc::pid_t) -> Result<()> {
        match request(how, thread, 0) {
            // The thread has ended, or is about to end.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EPERM)) => Ok(()),
            traced => {
                traced.with_context(|| format!("thread {thread} cannot be traced"))?;
                self.threads.insert(thread, None);
                Ok(())
            }
        }
    }

    /// Waits until every thread stops with an event for which `stop_of` returns the signal to pass
    /// on later. After other events, a thread continues.
    fn wait_until_stopped(&mut self, stop_of: impl Fn(&Event) -> Option<libc::c_int>) {
        while self.threads.values().any(Option::is_none) {
            let Some((thread, event)) = next_event(0) else {
                return;
            };
            match (stop_of(&event), self.threads.get_mut(&thread)) {
                (Some(signal), Some(stopped)) => {
                    *stopped = Some(signal);
                    self.stopped += 1;
                }
                _ => self.continue_after(thread, &event),
            }
        }
    }

    /// Lets a thread run after an event, with the signal that it stopped for.
    fn continue_after(&mut self, thread: libc::pid_t, event: &Event) {
        let signal = match event {
            Event::Stopped => 0,
            Event::Signal(signal) => *signal,
            Event::Ended => {
                self.threads.remove(&thread);
                return;
            }
        };
        self.passed_on += u64::from(signal != 0);
        let _ = request(libc::PTRACE_CONT, thread, signal);
    }

    fn detach(&mut self) {
        for (thread, signal) in std::mem::take(&mut self.threads) {
            let signal = signal.unwrap_or(0);
            self.passed_on += u64::from(signal != 0);
            let _ = request(libc::PTRACE_DETACH, thread, signal);
        }
    }
}

fn is_refused(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

fn threads_of(process: libc::pid_t) -> Result<Vec<libc::pid_t>> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task"))?;
    let number = |task: io::Result<std::fs::DirEntry>| -> Result<libc::pid_t> {
        Ok(task?.file_name().to_string_lossy().parse()?)
    };
    let numbers = tasks.map(number).collect::<Result<Vec<_>>>()?;
    ensure!(!numbers.is_empty(), "no threads");
    Ok(numbers)
}

/// Makes a request about a thread. The data is a signal or 0.
fn request(what: libc::c_uint, thread: libc::pid_t, data: libc::c_int) -> io::Result<()> {
    let none = ptr::null_mut::<libc::c_void>();
    let data = ptr::without_provenance_mut::<libc::c_void>(usize::try_from(data).unwrap_or(0));
    // SAFETY: none of the requests of this program reads or writes memory of this process.
    let failed = unsafe { libc::ptrace(what, thread, none, data) };
    if failed == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The next event of a traced thread; `None` if there is none at present, or no traced thread.
fn next_event(flags: libc::c_int) -> Option<(libc::pid_t, Event)> {
    let mut status = 0;
    // SAFETY: writes the status to a local.
    let thread = unsafe { libc::waitpid(-1, &raw mut status, flags | libc::__WALL) };
    if thread <= 0 {
        return None;
    }
    let event = if !libc::WIFSTOPPED(status) {
        Event::Ended
    } else if status >> 16 != 0 {
        Event::Stopped
    } else {
        Event::Signal(libc::WSTOPSIG(status))
    };
    Some((thread, event))
}
