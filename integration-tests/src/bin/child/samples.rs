//! Commands that record samples: with known stacks and times, or of real work.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use integration_tests::patience::until;
use profiler_core::groups::{Group, GroupKind};
use profiler_core::ids::DefinitionId;
use profiler_core::marker::category;
use profiler_core::sampler::{Frame, Sample, SampleWriter, define_label};
use profiler_core::time::Timestamp;

use crate::{Words, number};

/// Whether the thread of `compute` must end.
static REST: AtomicBool = AtomicBool::new(false);
/// Steps of one round of work: a few milliseconds.
const STEPS: u64 = 1_000_000;

pub(crate) fn obey(name: &str, words: Words<'_>) -> Option<anyhow::Result<String>> {
    Some(match name {
        "sample" => sample(words),
        "sample-for" => sample_for(words),
        "compute-shares" => compute(),
        "stop-computing" => {
            REST.store(true, Ordering::Relaxed);
            Ok("ok".to_owned())
        }
        _ => return None,
    })
}

/// `sample FUNCTION TIMES US`: records TIMES samples of this thread, each of US microseconds of
/// processor time, with the stack of FUNCTION, called by `main`.
fn sample(words: Words<'_>) -> anyhow::Result<String> {
    let function = words.first().context("which function?")?;
    let times = number(words, 1)?;
    let us = number(words, 2)?;
    let main = Frame::Label(label("main")?);
    let frames = [main, Frame::Label(label(function)?)];
    let mut writer = SampleWriter::new();
    for _ in 0..times {
        let sample = Sample {
            at: Timestamp::now(),
            cpu_ns: Some(us * 1000),
            frames: &frames,
            cut: false,
            failed: false,
        };
        // A sample is dropped while another thread holds the lock of the chunks.
        anyhow::ensure!(
            until(|| writer.sample(profiler_core::thread::current(), &sample)),
            "a sample was dropped"
        );
    }
    Ok(format!("ok {}", profiler_core::thread::current()))
}

/// `sample-for GROUP FUNCTION TIMES US`: the same while the thread works for a plugin. The run
/// takes at least a millisecond.
fn sample_for(words: Words<'_>) -> anyhow::Result<String> {
    let (group, rest) = words.split_first().context("which group?")?;
    let group = Group::register(GroupKind::Plugin, group);
    let _run = group.enter();
    std::thread::sleep(std::time::Duration::from_millis(1));
    let answer = sample(rest);
    std::thread::sleep(std::time::Duration::from_millis(1));
    answer
}

fn label(name: &str) -> anyhow::Result<DefinitionId> {
    define_label(name, &category::OTHER, "", 0).context("no room for a label")
}

/// `compute-shares`: starts a thread that computes until `stop-computing`, three quarters of its
/// steps in one function and one quarter in another.
fn compute() -> anyhow::Result<String> {
    REST.store(false, Ordering::Relaxed);
    let body = || {
        let mut x = 1;
        while !REST.load(Ordering::Relaxed) {
            x = three_quarters(x);
            x = one_quarter(x);
        }
        black_box(x)
    };
    std::thread::Builder::new()
        .name("computer".to_owned())
        .spawn(body)?;
    Ok("ok".to_owned())
}

#[inline(never)]
fn three_quarters(mut x: u64) -> u64 {
    for _ in 0..3 * STEPS {
        x = step(x);
    }
    black_box(x)
}

#[inline(never)]
fn one_quarter(mut x: u64) -> u64 {
    for _ in 0..STEPS {
        x = step(x);
    }
    black_box(x)
}

#[inline(always)]
const fn step(mut x: u64) -> u64 {
    x ^= x << 13;
    x ^= x >> 7;
    x ^ (x << 17)
}
