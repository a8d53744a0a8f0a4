//! The times of the samples of a file, and what is lost of them.
//!
//! Called by [`super::import_cpuprofile`]. A sample lasts until the next one, the last sample until
//! the end. The format has times in several forms, and viewers read files without them, so a file
//! is read by the first of these rules that fits:
//!
//! 1. `timeDeltas`: the time of each sample since the previous one, the first since the start.
//! 2. `timestamps`: the time of each sample.
//! 3. Samples without times: equal shares of the time from the start to the end.
//! 4. No samples: the hits of the nodes, as equal shares.
//!
//! Samples after the last known time get equal shares of the rest. Without an end, the last sample
//! lasts as long as the others on average. Invariant: every sample of the file is in the result, and
//! each guess is a remark.

use super::format::{Document, Node};

/// Limit on times from the start, in microseconds (31 years).
const MAX_US: f64 = 1e15;
/// The time of a sample if the file has no time at all: V8's default interval.
const DEFAULT_US: f64 = 1000.0;

/// A sample with its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) struct TimedSample {
    pub(in super::super) node: u64,
    /// Microseconds from the start.
    pub(in super::super) at_us: f64,
    /// How long it lasts.
    pub(in super::super) us: f64,
}

/// The times of a file.
#[derive(Debug, Default, PartialEq)]
pub(in super::super) struct Timing {
    /// The start, in microseconds.
    pub(in super::super) start_us: f64,
    /// From the start to the end.
    pub(in super::super) length_us: f64,
    pub(in super::super) samples: Vec<TimedSample>,
}

impl Timing {
    pub(super) fn of(document: &Document, nodes: &[Node], remarks: &mut Vec<String>) -> Self {
        // The older form has these two in seconds, unlike the times of its samples.
        let is_older = document.head.is_some();
        let unit = if is_older { 1e6 } else { 1.0 };
        let finite = |time: Option<f64>| time.filter(|time| time.is_finite());
        let mut start = finite(document.start_time).map(|time| time * unit);
        let mut end = finite(document.end_time).map(|time| time * unit);
        let Some(samples) = document
            .samples
            .as_ref()
            .filter(|samples| !samples.is_empty())
        else {
            return Self::of_hits(nodes, (start, end), remarks);
        };
        let stamps = known(document.timestamps.as_ref()).filter(|_| document.time_deltas.is_none());
        let mut times = match (known(document.time_deltas.as_ref()), stamps) {
            (Some(deltas), _) => {
                let mut at = 0.0;
                let add = |delta: &f64| {
                    at += delta;
                    at
                };
                deltas.iter().map(add).collect()
            }
            (None, Some(stamps)) => {
                if is_older {
                    (start, end) = (stamps.first().copied(), None);
                }
                let first = start.or(stamps.first().copied()).unwrap_or(0.0);
                start = Some(first);
                stamps.iter().map(|time| time - first).collect()
            }
            (None, None) => Vec::new(),
        };
        if times.len() > samples.len() {
            let more = times.len() - samples.len();
            remarks.push(format!("{more} times belong to no sample and are left out"));
            times.truncate(samples.len());
        }
        in_order(&mut times);
        let length = end
            .zip(start)
            .map(|(end, start)| (end - start).clamp(0.0, MAX_US));
        let length = complete(&mut times, samples.len(), length, remarks);
        Self::with(start, length, samples.iter().copied().zip(times))
    }

    /// The hits of the nodes, one node after the other.
    fn of_hits(
        nodes: &[Node],
        (start, end): (Option<f64>, Option<f64>),
        remarks: &mut Vec<String>,
    ) -> Self {
        let hits = nodes.iter().fold(0.0, |sum, node| sum + node.hits as f64);
        if hits == 0.0 {
            let length = end
                .zip(start)
                .map_or(0.0, |(end, start)| (end - start).clamp(0.0, MAX_US));
            return Self::with(start, length, std::iter::empty());
        }
        let length = end
            .zip(start)
            .map(|(end, start)| (end - start).clamp(0.0, MAX_US));
        let length = length.filter(|length| *length > 0.0);
        remarks.push(match length {
            Some(_) => format!(
                "the file has no samples: its {hits} hits share the time from its start to its end, \
                 in no order of time"
            ),
            None => format!(
                "the file has no samples and no times: each of its {hits} hits is shown as 1 ms"
            ),
        });
        let length = length.unwrap_or_else(|| (hits * DEFAULT_US).min(MAX_US));
        let mut before = 0.0;
        let samples = nodes.iter().filter(|node| node.hits > 0).map(|node| {
            let at = length * (before / hits);
            before += node.hits as f64;
            (node.id, at)
        });
        Self::with(start, length, samples)
    }

    fn with(start: Option<f64>, length: f64, samples: impl Iterator<Item = (u64, f64)>) -> Self {
        let mut timed: Vec<TimedSample> = Vec::new();
        for (node, at_us) in samples {
            if let Some(last) = timed.last_mut() {
                last.us = at_us - last.at_us;
            }
            timed.push(TimedSample {
                node,
                at_us,
                us: (length - at_us).max(0.0),
            });
        }
        Self {
            start_us: start.unwrap_or(0.0),
            length_us: length,
            samples: timed,
        }
    }
}

/// The times up to the first that is missing; `None` without a time.
fn known(times: Option<&Vec<Option<f64>>>) -> Option<Vec<f64>> {
    let known: Vec<f64> = times?.iter().map_while(|time| *time).collect();
    (!known.is_empty()).then_some(known)
}

/// Limits times, and moves those that go back to the latest one before.
fn in_order(times: &mut [f64]) {
    let mut latest = 0.0_f64;
    for time in times {
        latest = latest.max(time.clamp(-MAX_US, MAX_US));
        *time = latest;
    }
}

/// Adds the times that are missing. Returns the time of the end.
fn complete(
    times: &mut Vec<f64>,
    count: usize,
    length: Option<f64>,
    remarks: &mut Vec<String>,
) -> f64 {
    let missing = count - times.len();
    let last = times.last().copied();
    let first = times.first().copied().unwrap_or(0.0);
    let gaps = times.len().saturating_sub(1);
    let average = last
        .filter(|_| gaps > 0)
        .map(|last| (last - first) / gaps as f64);
    let average = average.unwrap_or(DEFAULT_US);
    let begin = last.unwrap_or(0.0);
    // The last known sample shares the rest, too.
    let sharing = missing + usize::from(last.is_some());
    let rest = length
        .map(|length| length - begin)
        .filter(|rest| *rest > 0.0);
    let share = rest.map_or(average, |rest| rest / sharing.max(1) as f64);
    if missing > 0 {
        let from = begin + if last.is_some() { share } else { 0.0 };
        times.extend((0..missing).map(|place| from + share * place as f64));
        remarks.push(match rest {
            Some(_) => {
                format!("{missing} samples have no time: they share the time up to the end equally")
            }
            None => format!(
                "{missing} samples have no time: each is shown as {:.3} ms",
                share / 1e3
            ),
        });
    }
    match length {
        Some(length) if rest.is_some() || missing == 0 => length,
        _ => times.last().map_or(0.0, |last| last + share).min(MAX_US),
    }
}
