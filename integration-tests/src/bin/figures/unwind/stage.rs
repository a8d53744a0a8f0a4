//! A thread at a depth that is asked again and again, and what that took.
//!
//! The thread reads the clock all the time; when the number of answered signals has grown between two reads, the time
//! between them is what it was held for. Its frames are of different functions and sizes, about as those of
//! programs are.

#![allow(unsafe_code)]

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use profiler_core::time::Timestamp;

use super::handler::{self, DONE, Method};
use super::memory::{HandlerStack, empty_caches, own_stack_end};
use crate::measure::{median, monotonic_ns, ns_of};

/// Of each run, without the first ones.
const SAMPLES: usize = 150;
const FIRST: usize = 20;

const RUN: u32 = 0;
const EMPTY_CACHES: u32 = 1;
const STOP: u32 = 2;
/// What the thread is to do.
static ORDER: AtomicU32 = AtomicU32::new(RUN);

/// What is in the caches when the signal comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Warm,
    Cold,
    New,
}

impl State {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Cold => "cold",
            Self::New => "new",
        }
    }
}

/// What one or more runs took, in microseconds.
#[derive(Debug, Default)]
pub(super) struct Took {
    held: Vec<f64>,
    /// Of it, the copying or walking alone.
    inside: Vec<f64>,
    unwinding: Vec<f64>,
    /// Frames, and bytes of stack.
    pub(super) size: (usize, u64),
}

impl Took {
    pub(super) fn add(&mut self, more: Self) {
        self.held.extend(more.held);
        self.held.sort_by(f64::total_cmp);
        self.inside.extend(more.inside);
        self.unwinding.extend(more.unwinding);
        self.size = more.size;
    }

    /// The quantile of the times for which the thread was held.
    pub(super) fn held(&self, part: f64) -> Option<f64> {
        self.held.get((self.held.len() as f64 * part) as usize).copied()
    }

    /// What copying or walking took, in the middle.
    pub(super) fn inside_us(&self) -> f64 {
        median(&self.inside)
    }

    /// What the other thread took to unwind.
    pub(super) fn unwinding_us(&self) -> f64 {
        if self.unwinding.is_empty() { 0.0 } else { median(&self.unwinding) }
    }
}

/// A depth.
pub(super) struct Stage {
    depth: u32,
}

impl Stage {
    pub(super) const fn new(depth: u32) -> Self {
        Self { depth }
    }

    /// Asks a new thread some hundred times.
    pub(super) fn run(&self, method: Method, state: State) -> Result<Took> {
        ORDER.store(RUN, Ordering::Release);
        let (say, said) = mpsc::channel();
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                let stack = HandlerStack::install()?;
                let end = own_stack_end()?;
                let tid = rustix::thread::gettid().as_raw_nonzero().get();
                let held = a(self.depth, &mut || {
                    let _ = say.send((tid, end));
                    be_held()
                });
                handler::note_stack(method, stack.used());
                anyhow::Ok(held)
            });
            let asked = said
                .recv()
                .map_err(|_| anyhow!("no thread"))
                .and_then(|(tid, end)| ask_all(tid, end, method, state));
            ORDER.store(STOP, Ordering::Release);
            let held = thread.join().map_err(|_| anyhow!("the thread panicked"))??;
            let mut took = asked?;
            // Two signals are one gap where the thread did not get the processor in between.
            ensure!(held.len() > SAMPLES, "{} of {} gaps", held.len(), FIRST + SAMPLES);
            took.held = held.into_iter().skip(FIRST).collect();
            Ok(took)
        })
    }
}

fn ask_all(tid: libc::pid_t, end: u64, method: Method, state: State) -> Result<Took> {
    // SAFETY: no signal is on its way, and there is nobody else.
    let slot = unsafe { handler::slot() };
    (slot.method, slot.end) = (method, end);
    handler::forget(slot);
    let mut took = Took::default();
    let (begin_ns, begin) = (monotonic_ns(), Timestamp::now().raw());
    for number in 0..FIRST + SAMPLES {
        match state {
            State::Warm => std::thread::sleep(Duration::from_millis(1)),
            State::Cold => have_caches_emptied(),
            State::New => {
                // SAFETY: the thread has answered every signal so far.
                handler::forget(unsafe { handler::slot() });
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        handler::ask(tid)?;
        // SAFETY: it has answered.
        let slot = unsafe { handler::slot() };
        if method == Method::Copy {
            let ns = ns_of(|| slot.count = handler::walk_copy(slot));
            took.unwinding.extend((number >= FIRST).then_some(ns / 1e3));
        }
        took.inside.extend((number >= FIRST).then_some(slot.ticks as f64));
        took.size = (slot.count, slot.bytes);
    }
    let ticks_per_us = (Timestamp::now().raw() - begin) as f64 / ((monotonic_ns() - begin_ns) / 1e3);
    took.inside.iter_mut().for_each(|ticks| *ticks /= ticks_per_us);
    Ok(took)
}

fn have_caches_emptied() {
    ORDER.store(EMPTY_CACHES, Ordering::Release);
    while ORDER.load(Ordering::Acquire) == EMPTY_CACHES {
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Reads the clock until it is to stop; gives the microseconds that every signal took.
fn be_held() -> Vec<f64> {
    let (mut held, mut room) = (Vec::with_capacity(FIRST + SAMPLES), Vec::new());
    let mut known = DONE.load(Ordering::Acquire);
    let (begin_ns, begin) = (monotonic_ns(), Timestamp::now().raw());
    let mut is_emptied = false;
    loop {
        let start = Timestamp::now().raw();
        let (mut before, mut last) = (start, start);
        loop {
            let seen = DONE.load(Ordering::Acquire);
            let now = Timestamp::now().raw();
            if seen != known {
                known = seen;
                // The signal may have come between the two reads.
                held.push((now - last).max(last - before) as f64);
            }
            (before, last) = (last, now);
            match ORDER.load(Ordering::Acquire) {
                RUN => {}
                // Now that the clock is read again the signal may come.
                EMPTY_CACHES if is_emptied && before > start => {
                    is_emptied = false;
                    let _ = ORDER.compare_exchange(EMPTY_CACHES, RUN, Ordering::AcqRel, Ordering::Acquire);
                }
                EMPTY_CACHES if is_emptied => {}
                _ if DONE.load(Ordering::Acquire) == known => break,
                _ => {}
            }
        }
        if ORDER.load(Ordering::Acquire) != EMPTY_CACHES {
            break;
        }
        empty_caches(&mut room);
        is_emptied = true;
    }
    let ticks_per_us = (Timestamp::now().raw() - begin) as f64 / ((monotonic_ns() - begin_ns) / 1e3);
    held.into_iter().map(|ticks| ticks / ticks_per_us).collect()
}

/// Functions that call each other in a ring, with frames of these bytes besides what the compiler needs.
macro_rules! ring {
    ($($name:ident calls $next:ident with $bytes:literal;)*) => {$(
        #[inline(never)]
        fn $name(levels: u32, body: &mut dyn FnMut() -> Vec<f64>) -> Vec<f64> {
            let mut room = [0_u8; $bytes];
            black_box(&mut room);
            if levels == 0 {
                return body();
            }
            let result = $next(levels - 1, body);
            black_box(&mut room); // no tail call
            result
        }
    )*};
}

ring! {
    a calls b with 40;
    b calls c with 8;
    c calls d with 120;
    d calls e with 24;
    e calls f with 312;
    f calls g with 56;
    g calls h with 16;
    h calls i with 200;
    i calls j with 72;
    j calls k with 8;
    k calls l with 104;
    l calls m with 40;
    m calls n with 264;
    n calls o with 24;
    o calls p with 88;
    p calls a with 136;
}
