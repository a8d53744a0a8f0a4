//! Commands that record numbered markers: on threads, with acknowledgements, and without end.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use anyhow::Context;
use integration_tests::acks;
use integration_tests::marks::{self, record_paced};
use profiler_core::session::{self, Features, SessionParams, StartOptions};

use crate::{Words, number, stay_forever};

/// Whether the floods must end.
static CALM: AtomicBool = AtomicBool::new(false);

/// Threads of floods that were not joined yet.
static FLOODS: Mutex<Vec<JoinHandle<u64>>> = Mutex::new(Vec::new());

/// The next number of each thread. The numbers continue over several commands.
static NEXT: Mutex<BTreeMap<u32, u64>> = Mutex::new(BTreeMap::new());

pub(crate) fn obey(name: &str, words: Words<'_>) -> Option<anyhow::Result<String>> {
    Some(match name {
        "record" => record(words, false, true),
        "hold" => record(words, true, true),
        "burst" => record(words, false, false),
        "hold-burst" => record(words, true, false),
        "mark" => mark(words),
        "paused" => Ok(format!("ok {}", session::is_paused())),
        "active" => Ok(format!("ok {}", session::is_active())),
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

/// `record THREADS COUNT`: records COUNT markers on each of THREADS threads, which then end. No
/// entry is dropped: see [`record_paced`]. `hold THREADS COUNT`: the same, but the threads stay.
/// `burst THREADS COUNT` and `hold-burst THREADS COUNT`: the same, but at full speed and all at
/// once.
fn record(words: Words<'_>, stay: bool, is_paced: bool) -> anyhow::Result<String> {
    let threads = number(words, 0)?;
    let count = number(words, 1)?;
    let (done, finished) = std::sync::mpsc::channel();
    let workers: Vec<JoinHandle<()>> = (0..u32::try_from(threads)?)
        .map(|thread| {
            let done = done.clone();
            worker(thread, move || {
                let sequences = take(thread, count);
                if is_paced {
                    record_paced(thread, sequences);
                } else {
                    sequences.for_each(|sequence| marks::record(thread, sequence));
                }
                let _ = done.send(());
                if stay {
                    stay_forever();
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

/// The beginning `record-and-stay`: records a hundred markers on the main thread, and then waits
/// without end. The beginning `own-session`: starts a session of this process alone before `init`.
pub(crate) fn begin(name: &str) -> Option<anyhow::Result<String>> {
    Some(match name {
        "record-and-stay" => record_and_stay(),
        "own-session" => own_session(),
        _ => return None,
    })
}

fn record_and_stay() -> anyhow::Result<String> {
    crate::begin::begin("init")?;
    record_paced(1000, 0..100);
    stay_forever()
}

fn own_session() -> anyhow::Result<String> {
    let params = SessionParams {
        features: Features::NONE,
        ..SessionParams::default()
    };
    session::start(params, StartOptions::default())?;
    crate::begin::begin("init")
}

/// `mark COUNT`: records COUNT markers on the main thread, as thread 1000.
fn mark(words: Words<'_>) -> anyhow::Result<String> {
    record_paced(1000, take(1000, number(words, 0)?));
    Ok("ok".to_owned())
}

/// `flood THREADS [PAUSE]`: records markers on THREADS threads, with a pause of PAUSE microseconds
/// after every hundred, until `calm`.
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
        FLOODS
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(flood);
    }
    Ok("ok".to_owned())
}

/// `flooded`: waits for the floods that `calm` ended, and answers how many markers they recorded.
fn flooded() -> anyhow::Result<String> {
    let floods = std::mem::take(&mut *FLOODS.lock().unwrap_or_else(PoisonError::into_inner));
    let counts: Option<Vec<u64>> = floods.into_iter().map(|flood| flood.join().ok()).collect();
    Ok(format!(
        "ok {}",
        counts
            .context("a flooding thread panicked")?
            .iter()
            .sum::<u64>()
    ))
}

/// `churn THREADS COUNT`: starts THREADS threads, numbered from 100,000, eight at a time. Each
/// records COUNT markers and ends.
fn churn(words: Words<'_>) -> anyhow::Result<String> {
    let threads = u32::try_from(number(words, 0)?)?;
    let count = number(words, 1)?;
    for first in (0..threads).step_by(8) {
        let body = |thread| move || (0..count).for_each(|sequence| marks::record(thread, sequence));
        let few =
            (first..threads.min(first + 8)).map(|thread| worker(thread, body(100_000 + thread)));
        let few: Vec<JoinHandle<()>> = few.collect::<std::io::Result<_>>()?;
        few.into_iter().for_each(|worker| drop(worker.join()));
    }
    Ok("ok".to_owned())
}

/// `acknowledge THREADS`: records markers without end on THREADS threads. After each marker, writes
/// thread and number as 16 bytes to standard output.
fn acknowledge(words: Words<'_>) -> anyhow::Result<String> {
    let out = std::io::stdout().as_fd().try_clone_to_owned()?;
    acks::flood(u32::try_from(number(words, 0)?)?, &out.into())?;
    std::io::stdout().flush()?;
    stay_forever()
}

fn worker<T: Send + 'static>(
    thread: u32,
    body: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    Builder::new().name(format!("worker-{thread}")).spawn(body)
}

/// Reserves the next `count` numbers of a thread.
fn take(thread: u32, count: u64) -> std::ops::Range<u64> {
    let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
    let next = next.entry(thread).or_default();
    let first = *next;
    *next += count;
    first..*next
}
