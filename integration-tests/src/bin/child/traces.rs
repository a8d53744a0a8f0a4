//! Commands that work for traces and for tenants.

use std::hint::black_box;
use std::time::Duration;

use anyhow::Context;
use profiler_core::groups::{Group, GroupKind};
use profiler_core::marker;
use profiler_core::trace::{TraceContext, TraceScope, current_trace};

use crate::{Words, number};

/// The rounds of `tenants`, and about how many milliseconds of processor time each tenant takes in
/// a round.
///
/// A run lasts many intervals of the sampler, also of one that samples less on a busy machine: at
/// each change, up to one interval is counted for the other tenant.
const ROUNDS: u64 = 4;
/// The milliseconds of processor time before the first round, until the sampler knows the thread:
/// until then samples are rare.
const BEFORE_MS: u64 = 500;
const TENANTS: [(&str, u64); 3] = [("acme", 370), ("globex", 170), ("initech", 530)];

pub(crate) fn obey(name: &str, words: Words<'_>) -> Option<anyhow::Result<String>> {
    Some(match name {
        "serve" => serve(words),
        "tenants" => tenants(),
        "wait-in-turn" => wait_in_turn(words),
        "keep-trace" => keep(words),
        _ => return None,
    })
}

/// `serve TRACEPARENT MS MARKERS`: works MS milliseconds of processor time for a trace, and records
/// MARKERS markers. Before and after, it records a marker that belongs to no trace.
fn serve(words: Words<'_>) -> anyhow::Result<String> {
    let header = words.first().context("which trace?")?;
    let trace: TraceContext = header.parse()?;
    let (ms, markers) = (number(words, 1)?, number(words, 2)?);
    marker!("not served");
    {
        let _scope = TraceScope::enter(trace);
        serve_busily(ms);
        for number in 0..markers {
            match number % 2 {
                0 => marker!("served"),
                _ => marker!("served", number = number),
            }
        }
    }
    marker!("not served");
    serve_nobody(ms);
    Ok(format!("ok {}", current_trace().is_none()))
}

/// `wait-in-turn MS TIMES TRACEPARENT…`: waits MS milliseconds for each of the traces in turn,
/// TIMES times, always at the same place.
fn wait_in_turn(words: Words<'_>) -> anyhow::Result<String> {
    let time = Duration::from_millis(number(words, 0)?);
    let times = number(words, 1)?;
    let headers = words.get(2..).context("which traces?")?;
    let traces = headers.iter().map(|header| header.parse::<TraceContext>());
    let traces: Vec<TraceContext> = traces.collect::<Result<_, _>>()?;
    for _ in 0..times {
        for trace in &traces {
            let _scope = TraceScope::enter(*trace);
            std::thread::sleep(time);
        }
    }
    Ok("ok".to_owned())
}

/// The calls are no tail calls, so that the functions are in stacks.
#[inline(never)]
fn serve_busily(ms: u64) -> u64 {
    work(ms);
    black_box(ms)
}

#[inline(never)]
fn serve_nobody(ms: u64) -> u64 {
    work(ms);
    black_box(ms)
}

/// The processor time of this thread.
fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

fn work(ms: u64) {
    work_us(ms * 1_000);
}

fn work_us(us: u64) {
    let end = thread_cpu_ns() + us * 1_000;
    while thread_cpu_ns() < end {
        black_box((0..1_000_u64).sum::<u64>());
    }
}

/// `tenants`: works in turn for tenants. Each run is an iteration of its own, so that the totals of
/// the groups have its exact processor time.
fn tenants() -> anyhow::Result<String> {
    let groups = TENANTS.map(|(name, ms)| (Group::register(GroupKind::Tenant, name), ms));
    work(BEFORE_MS);
    for round in 0..ROUNDS {
        for (tenant, ms) in &groups {
            let _tenant = tenant.enter();
            // No multiple of the time between two samples, or every change would be at the same
            // distance from a sample.
            work_us(ms * 1_000 + round * 7_919 % 9_973);
        }
    }
    Ok("ok".to_owned())
}

/// `keep-trace TRACEPARENT`: works for a trace from now on.
fn keep(words: Words<'_>) -> anyhow::Result<String> {
    let header = words.first().context("which trace?")?;
    std::mem::forget(TraceScope::enter(header.parse()?));
    Ok("ok".to_owned())
}
