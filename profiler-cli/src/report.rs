//! The content of a profile or of pools, as `info` prints it: as a table or as JSON.

use std::collections::BTreeMap;

use profiler_reader::{Nameless, ObservedTimeLog, PushedBatches, PushedLog};
use serde::Serialize;

use crate::console::say;
use crate::crash_row::CrashRow;
use crate::plain::plain;
use crate::process_row::Row;
use crate::process_table::print_table;
use crate::remarks::{Remark, grouped};

/// The samples of a profile, and the functions in which they were taken.
#[derive(Debug, Serialize)]
pub(crate) struct Samples {
    /// Samples of all threads.
    pub(crate) count: f64,
    /// Milliseconds between two samples of a thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) interval_ms: Option<f64>,
    /// Where the samples come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<String>,
    /// The time by which the functions are ranked: `cpu` or `wall`.
    pub(crate) time: &'static str,
    /// The total time.
    pub(crate) all_ms: f64,
    /// The functions with the most own time.
    pub(crate) top: Vec<TopFunction>,
    /// Libraries whose addresses could not be named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) nameless: Vec<Nameless>,
}

/// One function, over all processes.
#[derive(Debug, Serialize)]
pub(crate) struct TopFunction {
    pub(crate) function: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) library: Option<String>,
    pub(crate) self_ms: f64,
    pub(crate) self_percent: f64,
    /// Including its callees.
    pub(crate) total_ms: f64,
    pub(crate) total_percent: f64,
    pub(crate) self_samples: f64,
    pub(crate) total_samples: f64,
}

/// What a profile has of one trace of the application.
#[derive(Debug, Serialize)]
pub(crate) struct OneTrace {
    /// 32 hexadecimal digits.
    pub(crate) id: String,
    /// The threads that worked for it.
    pub(crate) threads: Vec<TraceThread>,
    /// Its markers, in the order of time.
    pub(crate) markers: Vec<TraceMarker>,
}

/// What a thread did for a trace.
#[derive(Debug, Serialize)]
pub(crate) struct TraceThread {
    pub(crate) process: String,
    pub(crate) pid: String,
    pub(crate) thread: String,
    pub(crate) tid: u64,
    pub(crate) samples: f64,
    pub(crate) wall_ms: f64,
    pub(crate) cpu_ms: f64,
    pub(crate) markers: u64,
}

/// A marker of a trace.
#[derive(Debug, Serialize)]
pub(crate) struct TraceMarker {
    pub(crate) name: String,
    pub(crate) process: String,
    pub(crate) thread: String,
    /// Milliseconds since the session's start.
    pub(crate) start_ms: f64,
    /// The length of an interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) duration_ms: Option<f64>,
    /// The span in which it was recorded: 16 hexadecimal digits.
    pub(crate) span: String,
}

/// The content of a profile, or of a session's pools.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    /// `profile`, `pools` or `trace`.
    pub(crate) kind: &'static str,
    /// The crashes that processes have recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) crashes: Vec<CrashRow>,
    /// One trace of a profile; then there are no processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trace: Option<OneTrace>,
    pub(crate) processes: Vec<Row>,
    /// Its first and last time, in milliseconds since the session's start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) range_ms: Option<(f64, f64)>,
    /// Where the time went, if samples were taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) samples: Option<Samples>,
    /// Bytes of all pools together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) held_bytes: Option<u64>,
    /// The memory limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit_bytes: Option<u64>,
    /// What was pushed to other engines before the capture, and what was not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) pushed: Vec<PushedLog>,
    /// The processor time of the processes that were observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed: Option<ObservedTimeLog>,
    /// The remarks of processes about missing data.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) remarks: Vec<Remark>,
    /// Files that are not pools of the session, with the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) passed_over: BTreeMap<String, String>,
}

impl Report {
    /// Prints it as a table.
    pub(crate) fn print(&self) {
        for crash in &self.crashes {
            crash.lines().iter().for_each(|line| say(line));
            say("");
        }
        match &self.trace {
            Some(trace) => trace.print(),
            None => print_table(&self.processes),
        }
        if let Some((first, last)) = self.range_ms {
            say(&format!(
                "\nfrom {first:.3} ms to {last:.3} ms of the session"
            ));
        }
        if let (Some(held), Some(limit)) = (self.held_bytes, self.limit_bytes) {
            say(&format!("the pools hold {held} of {limit} bytes"));
        }
        if let Some(time) = self.observed {
            say(&observed_sentence(time));
        }
        for line in grouped(&self.remarks) {
            say(&plain(&line));
        }
        for pushed in &self.pushed {
            say(&pushed_sentence(pushed));
        }
        if let Some(samples) = &self.samples {
            samples.print();
        }
    }
}

/// The sentence that states how much of the processor time of the observed processes is in samples.
fn observed_sentence(time: ObservedTimeLog) -> String {
    let ObservedTimeLog {
        used_us,
        recorded_us,
        sampled_us,
    } = time;
    // Rounded down, so 100 % means that nothing is missing.
    let percent = |us: u64| us.saturating_mul(100) / used_us.max(1);
    let used = seconds(used_us);
    format!(
        "{} % of the {used} of processor time that the observed processes used is in samples, \
         {} % in samples with stacks",
        percent(recorded_us),
        percent(sampled_us)
    )
}

/// A time in seconds, or in milliseconds if it is short.
fn seconds(us: u64) -> String {
    if us < 100_000 {
        return format!("{:.1} ms", us as f64 / 1e3);
    }
    format!("{:.1} s", us as f64 / 1e6)
}

/// What a destination had got at the time of the capture.
fn pushed_sentence(log: &PushedLog) -> String {
    let batches = |PushedBatches { batches, entries }: PushedBatches| {
        let noun = if batches == 1 { "batch" } else { "batches" };
        format!("{batches} {noun} ({entries} entries)")
    };
    let mut parts = vec![format!(
        "pushed {} to {}",
        batches(log.sent),
        plain(&log.address)
    )];
    for (amount, what) in [
        (log.rejected, "rejected"),
        (log.lost, "lost before they were sent"),
    ] {
        if amount.batches > 0 {
            parts.push(format!("{} {what}", batches(amount)));
        }
    }
    for (number, what) in [
        (log.waiting_batches, "batches waited"),
        (
            log.missed_entries,
            "entries evicted before a batch had them",
        ),
        (log.failed_captures, "batches could not be written"),
    ] {
        if number > 0 {
            parts.push(format!("{number} {what}"));
        }
    }
    parts.join("; ")
}

impl OneTrace {
    fn print(&self) {
        say(&format!("trace {}", self.id));
        if self.threads.is_empty() {
            return say("no thread of the profile worked for it");
        }
        say(&format!(
            "{:>9} {:>12} {:>12} {:>9}  thread",
            "samples", "cpu ms", "wall ms", "markers"
        ));
        for one in &self.threads {
            let of = plain(&format!(
                "{} ({}), {} ({})",
                one.process, one.pid, one.thread, one.tid
            ));
            say(&format!(
                "{:>9} {:>12.1} {:>12.1} {:>9}  {of}",
                one.samples, one.cpu_ms, one.wall_ms, one.markers
            ));
        }
        if !self.markers.is_empty() {
            say(&format!("\n{:>12} {:>12}  marker", "from ms", "ms"));
        }
        for marker in &self.markers {
            let length = marker.duration_ms.map(|ms| format!("{ms:.3}"));
            let of = plain(&format!(
                "{}  ({}, {}; span {})",
                marker.name, marker.process, marker.thread, marker.span
            ));
            let length = length.unwrap_or_default();
            say(&format!("{:>12.3} {length:>12}  {of}", marker.start_ms));
        }
    }
}

impl Samples {
    fn print(&self) {
        let time = if self.time == "cpu" {
            "processor time"
        } else {
            "time, running or waiting"
        };
        say(&format!(
            "\n{} samples, {:.1} ms of {time} in all processes",
            self.count, self.all_ms
        ));
        if let (Some(interval), Some(source)) = (self.interval_ms, &self.source) {
            let source = plain(source);
            say(&format!("sampled every {interval} ms, source: {source}"));
        }
        for Nameless { library, why } in &self.nameless {
            let (library, why) = (plain(library), plain(why));
            say(&format!("no names for {library}: {why}"));
        }
        if self.top.is_empty() {
            return;
        }
        say(&format!(
            "{:>12} {:>6}  {:>12} {:>6}  function",
            "self ms", "%", "total ms", "%"
        ));
        for TopFunction {
            function,
            library,
            self_ms,
            self_percent,
            total_ms,
            total_percent,
            ..
        } in &self.top
        {
            let library = library
                .iter()
                .filter(|library| !function.starts_with(library.as_str()));
            let library = library
                .map(|library| format!("  ({library})"))
                .collect::<String>();
            let own = format!("{self_ms:>12.1} {self_percent:>6.1}");
            let function = plain(&format!("{function}{library}"));
            say(&format!(
                "{own}  {total_ms:>12.1} {total_percent:>6.1}  {function}"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_samples_and_time_in_samples_with_stacks_are_told_separately() {
        let time = |used_us, recorded_us, sampled_us| {
            observed_sentence(ObservedTimeLog {
                used_us,
                recorded_us,
                sampled_us,
            })
        };
        assert_eq!(
            time(3_400_000, 3_399_999, 3_230_000),
            "99 % of the 3.4 s of processor time that the observed processes used is in samples, \
             95 % in samples with stacks"
        );
        assert!(time(38_000, 38_000, 0).starts_with("100 % of the 38.0 ms of"));
    }
}
