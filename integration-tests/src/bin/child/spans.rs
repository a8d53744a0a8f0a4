//! Commands that record spans, flows, groups and slow runs, for the tests `observe*`.

use std::sync::{Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use anyhow::Context;
use profiler_core::flow::Flow;
use profiler_core::groups::{Group, GroupKind};
use profiler_core::marker::schema::{Format, MarkerSchema};
use profiler_core::marker::{MarkerOptions, MarkerSpan, ProfilerMarker, SpanOptions, category};
use profiler_core::{flow, marker, span};
use serde::Serialize;

use crate::{Words, number};

/// Spans that are open.
static OPEN: Mutex<Vec<MarkerSpan>> = Mutex::new(Vec::new());

#[derive(Serialize)]
struct Message {
    flow: u64,
}

impl ProfilerMarker for Message {
    const TYPE_NAME: &'static str = "Message";

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
            .key_format("flow", Format::TerminatingFlowId)
    }
}

/// - `open-span LABEL` opens a span. `close-span` ends the span that was opened last.
/// - `spans THREADS COUNT` records COUNT pairs of nested spans on each of THREADS threads.
/// - `inside GROUP COUNT` records COUNT markers in a span of GROUP.
/// - `receive NUMBER` records a marker that ends the flow NUMBER.
/// - `pass-flow FLOW` records that a flow passes and ends. FLOW is its text or a `traceparent`.
/// - `point` records a marker.
/// - `slow PLUGIN MS` sleeps for MS milliseconds in the group of PLUGIN.
pub(crate) fn obey(name: &str, words: Words<'_>) -> Option<anyhow::Result<String>> {
    Some(match name {
        "open-span" => open(words),
        "close-span" => {
            OPEN.lock().unwrap_or_else(PoisonError::into_inner).pop();
            Ok("ok".to_owned())
        }
        "spans" => spans(words),
        "inside" => inside(words),
        "receive" => receive(words),
        "pass-flow" => pass_flow(words),
        "slow" => slow(words),
        "point" => {
            marker!("point", &category::TEST);
            Ok("ok".to_owned())
        }
        _ => return None,
    })
}

fn open(words: Words<'_>) -> anyhow::Result<String> {
    let label = *words.first().context("no label")?;
    let span = span!("stays open", &category::TEST, label);
    OPEN.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(span);
    Ok("ok".to_owned())
}

fn spans(words: Words<'_>) -> anyhow::Result<String> {
    let threads = number(words, 0)?;
    let count = number(words, 1)?;
    let work = move || {
        for _ in 0..count {
            let _outer = span!("work", &category::TEST, "outer");
            let _inner = span!("work", &category::TEST, "inner");
        }
    };
    let workers = (0..threads).map(|n| Builder::new().name(format!("worker-{n}")).spawn(work));
    let workers: Vec<_> = workers.collect::<std::io::Result<_>>()?;
    workers.into_iter().for_each(|worker| drop(worker.join()));
    Ok("ok".to_owned())
}

fn inside(words: Words<'_>) -> anyhow::Result<String> {
    let group = *words.first().context("no group")?;
    let _span = span!(
        "unit of work",
        &category::TEST,
        SpanOptions::default().group(group)
    );
    (0..number(words, 1)?).for_each(|_| marker!("inside", &category::TEST));
    Ok("ok".to_owned())
}

fn receive(words: Words<'_>) -> anyhow::Result<String> {
    let payload = Message {
        flow: number(words, 0)?,
    };
    marker!(
        "received",
        &category::IPC,
        MarkerOptions::default(),
        &payload
    );
    Ok("ok".to_owned())
}

fn pass_flow(words: Words<'_>) -> anyhow::Result<String> {
    let text = *words.first().context("no flow")?;
    let flow = match text.contains('-') {
        true => Flow::from_traceparent(text)?,
        false => text.parse()?,
    };
    flow!(step flow, "request received");
    flow!(end flow, "request answered");
    Ok("ok".to_owned())
}

fn slow(words: Words<'_>) -> anyhow::Result<String> {
    let plugin = *words.first().context("no plugin")?;
    let _run = Group::register(GroupKind::Plugin, plugin).enter();
    std::thread::sleep(Duration::from_millis(number(words, 1)?));
    Ok("ok".to_owned())
}
