//! Recording: numbered markers on threads, acknowledged ones, floods.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use anyhow::Context;
use integration_tests::{acks, marks};

use crate::{Words, number, stay_for_ever};

/// Pause of threads that record a given number of markers.
const BREATH: Duration = Duration::from_micros(100);

/// Ends the floods.
static CALM: AtomicBool = AtomicBool::new(false);

/// Floods that nobody has waited for.
static FLOODS: Mutex<Vec<JoinHandle<u64>>> = Mutex::new(Vec::new());

/// The next number of each thread; numbers go on over several commands.
static NEXT: Mutex<BTreeMap<u32, u64>> = Mutex::new(BTreeMap::new());

pub(crate) fn obey(name: &str, words: Words<'_>) -> Option<anyhow::Result<String>> {
    Some(match name {
        "record" => record(words, false, true),
        "hold" => record(words, true, true),
        "burst" => record(words, false, false),
        "mark" => mark(words),
        "paused" => Ok(format!("ok {}", profiler_core::session::is_paused())),
        "active" => Ok(format!("ok {}", profiler_core::session::is_active())),
        "flood" => flood(words),
        "calm" => {
            CALM.store(true, Ordering::Relaxed);
            Ok("ok".to_owned())
        }
        "flooded" => flooded(),
        "churn" => churn(words),
        "acknowledge" => acknowledge(words),
        _ => return None,
    })
}

/// `record THREADS COUNT`: so many markers on each of so many threads, which then end. With short
/// pauses: several threads at full speed on a busy machine may drop entries.
/// `hold THREADS COUNT`: the same, and the threads stay. `burst THREADS COUNT`: without pauses.
fn record(words: Words<'_>, stay: bool, breathe: bool) -> anyhow::Result<String> {
    let (threads, count) = (number(words, 0)?, number(words, 1)?);
    let (done, finished) = std::sync::mpsc::channel();
    let workers: Vec<JoinHandle<()>> = (0..u32::try_from(threads)?)
        .map(|thread| {
            let done = done.clone();
            worker(thread, move || {
                for sequence in take(thread, count) {
                    marks::record(thread, sequence);
                    if breathe && sequence % 50 == 49 {
                        std::thread::sleep(BREATH);
                    }
                }
                let _ = done.send(());
                if stay {
                    stay_for_ever();
                }
            })
        })
        .collect::<std::io::Result<_>>()?;
    workers.iter().try_for_each(|_| finished.recv())?;
    if !stay {
        workers.into_iter().for_each(|worker| drop(worker.join()));
    }
    Ok("ok".to_owned())
}

/// As a beginning: a hundred markers on the main thread, then nothing more, for ever.
pub(crate) fn begin(name: &str) -> Option<anyhow::Result<String>> {
    let stays = || {
        crate::begin::begin("init")?;
        (0..100).for_each(|sequence| marks::record(1000, sequence));
        stay_for_ever()
    };
    (name == "record-and-stay").then(stays)
}

/// `mark COUNT`: so many markers on the main thread, as thread 1000.
fn mark(words: Words<'_>) -> anyhow::Result<String> {
    take(1000, number(words, 0)?).for_each(|sequence| marks::record(1000, sequence));
    Ok("ok".to_owned())
}

/// `flood THREADS [PAUSE]`: markers without end, with a pause of so many microseconds after
/// every hundred. `calm` ends it.
fn flood(words: Words<'_>) -> anyhow::Result<String> {
    let pause = Duration::from_micros(number(words, 1).unwrap_or(0));
    CALM.store(false, Ordering::Relaxed);
    for thread in 0..u32::try_from(number(words, 0)?)? {
        let flood = worker(thread, move || {
            let mut count = 0;
            while !CALM.load(Ordering::Relaxed) {
                marks::record(thread, count);
                count += 1;
                if count % 100 == 0 && !pause.is_zero() {
                    std::thread::sleep(pause);
                }
            }
            count
        })?;
        FLOODS.lock().unwrap_or_else(PoisonError::into_inner).push(flood);
    }
    Ok("ok".to_owned())
}

/// `flooded`: waits for the floods that `calm` ended, and says how many markers they were.
fn flooded() -> anyhow::Result<String> {
    let floods = std::mem::take(&mut *FLOODS.lock().unwrap_or_else(PoisonError::into_inner));
    let counts: Option<Vec<u64>> = floods.into_iter().map(|flood| flood.join().ok()).collect();
    Ok(format!("ok {}", counts.context("a flooding thread panicked")?.iter().sum::<u64>()))
}

/// `churn THREADS COUNT`: so many threads, numbered from 100,000, a few at a time, each of which records
/// so many markers and ends.
fn churn(words: Words<'_>) -> anyhow::Result<String> {
    let (threads, count) = (u32::try_from(number(words, 0)?)?, number(words, 1)?);
    for first in (0..threads).step_by(8) {
        let body = |thread| move || (0..count).for_each(|sequence| marks::record(thread, sequence));
        let few = (first..threads.min(first + 8)).map(|thread| worker(thread, body(100_000 + thread)));
        let few: Vec<JoinHandle<()>> = few.collect::<std::io::Result<_>>()?;
        few.into_iter().for_each(|worker| drop(worker.join()));
    }
    Ok("ok".to_owned())
}

/// `acknowledge THREADS`: markers without end; after each one, thread and number as 16 bytes
/// on standard output.
fn acknowledge(words: Words<'_>) -> anyhow::Result<String> {
    let out = std::io::stdout().as_fd().try_clone_to_owned()?;
    acks::flood(u32::try_from(number(words, 0)?)?, &out.into())?;
    std::io::stdout().flush()?;
    stay_for_ever()
}

fn worker<T: Send + 'static>(
    thread: u32,
    body: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    Builder::new().name(format!("worker-{thread}")).spawn(body)
}

fn take(thread: u32, count: u64) -> std::ops::Range<u64> {
    let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
    let next = next.entry(thread).or_default();
    let first = *next;
    *next += count;
    first..*next
}
