//! The samples and markers of one trace of the application, for `profiler info --trace`.
//!
//! Reads the markers of all threads, unlike the rest of `info`. One thread is held at a time; of
//! the markers, only those of the trace are kept.

use std::path::Path;
use std::str::FromStr;

use profiler_files::WorkListener;
use profiler_parent::core::trace::TraceContext;
use profiler_reader::{
    NamedMarker, ReadError, SampleTraces, Survey, Thread, ThreadSink, TraceIds, bounded_ns,
    is_sample_context,
};

use super::blocks::Blocks;
use super::cost::{Cost, sum};
use super::functions::{Collection, Functions};
use super::{Wanted, top};
use crate::report::{OneTrace, Report, Samples, TraceMarker, TraceThread};

/// The digits of a trace id.
const DIGITS: usize = 32;

/// A trace, as the user names it: 32 hexadecimal digits, or a header `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceId(u128);

impl FromStr for TraceId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(context) = text.parse::<TraceContext>() {
            return Ok(Self(context.trace_id().get()));
        }
        let are_digits = text.len() == DIGITS && text.bytes().all(|one| one.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok();
        let number = number.filter(|number| are_digits && *number != 0);
        let wrong = "a trace has 32 hexadecimal digits that are not all zero";
        number.map(Self).ok_or(wrong)
    }
}

/// The data collected from the threads.
struct OfTrace {
    id: TraceId,
    functions: Functions,
    threads: Vec<TraceThread>,
    markers: Vec<TraceMarker>,
}

impl ThreadSink for OfTrace {
    type Error = ReadError;
    const WITH_MARKERS: bool = true;

    fn thread(&mut self, thread: &Thread<'_>, survey: &Survey) -> Result<(), ReadError> {
        let traces = SampleTraces::of(thread.raw);
        let is_its = |ids: TraceIds| ids.trace == self.id.0;
        let wanted = |ms: f64| traces.at(ms).is_some_and(is_its);
        let Cost {
            samples,
            wall_ms,
            cpu_ms,
        } = self.functions.add_wanted((thread, &wanted), survey);
        let before = self.markers.len();
        self.add_markers(thread, survey.shift_ms(thread.part));
        let markers = (self.markers.len() - before) as u64;
        if samples > 0.0 || markers > 0 {
            self.threads.push(TraceThread {
                process: thread.process.to_owned(),
                pid: thread.raw.pid.clone(),
                thread: thread.name.to_owned(),
                tid: thread.raw.tid,
                samples,
                wall_ms,
                cpu_ms,
                markers,
            });
        }
        Ok(())
    }
}

impl OfTrace {
    /// Adds the markers of a thread that belong to the trace.
    fn add_markers(&mut self, thread: &Thread<'_>, shift_ms: f64) {
        for marker in thread.raw.markers.iter() {
            let of_application = marker.data.filter(|data| !is_sample_context(data));
            let ids = of_application.and_then(TraceIds::of);
            let Some(ids) = ids.filter(|ids| ids.trace == self.id.0) else {
                continue;
            };
            let Some(named) = NamedMarker::of(marker, thread.texts) else {
                continue;
            };
            let known = |ms: f64| ms.is_finite().then_some(ms + shift_ms);
            let start_ms = known(named.start_ms).or(known(named.end_ms));
            self.markers.push(TraceMarker {
                name: named.name.to_owned(),
                process: thread.process.to_owned(),
                thread: thread.name.to_owned(),
                start_ms: start_ms.unwrap_or(shift_ms),
                duration_ms: Some(named.end_ms - named.start_ms).filter(|ms| ms.is_finite()),
                span: format!("{:016x}", ids.span),
            });
        }
    }
}

/// Reads a profile, and reports one trace of it.
pub(crate) fn read(
    path: &Path,
    id: TraceId,
    wanted: Wanted,
    listener: WorkListener,
) -> Result<Report, ReadError> {
    let reader = wanted.open(path, listener)?;
    let mut of_trace = OfTrace {
        id,
        functions: Functions::new(Collection {
            blocks: Blocks::ONE,
            by_library: true,
            with_tree: false,
        }),
        threads: Vec::new(),
        markers: Vec::new(),
    };
    reader.threads(&mut of_trace)?;
    let survey = reader.into_survey();
    let OfTrace {
        mut functions,
        threads,
        mut markers,
        ..
    } = of_trace;
    functions.finish(&survey.tables);
    markers.sort_by_key(|marker| bounded_ns(marker.start_ms));
    let samples = (sum(functions.all()).samples > 0.0).then(|| {
        let samples = top(&survey.meta, functions, wanted);
        Samples {
            nameless: survey.into_nameless(),
            ..samples
        }
    });
    Ok(Report {
        kind: "trace",
        samples,
        trace: Some(OneTrace {
            id: format!("{:032x}", id.0),
            threads,
            markers,
        }),
        ..Report::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_named_by_its_digits_or_by_a_header() {
        let digits = "4bf92f3577b34da6a3ce929d0e0e4736";
        let id: TraceId = digits.parse().unwrap();
        let header = format!("00-{digits}-00f067aa0ba902b7-01");
        assert_eq!(header.parse(), Ok(id));
        assert_eq!(digits.to_uppercase().parse(), Ok(id));
        for wrong in [
            "",
            "0",
            &"0".repeat(32),
            &digits[1..],
            "+bf92f3577b34da6a3ce929d0e0e4736",
        ] {
            assert!(wrong.parse::<TraceId>().is_err(), "{wrong}");
        }
    }
}
