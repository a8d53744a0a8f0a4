//! `index.json`: lists the file of each thread. Written by [`super::cpuprofile`].

use std::io::Write;

use profiler_json::JsonWriter;

use super::recording::Thread;
use super::{TimeKind, slices::Slice};
use profiler_reader::Survey;

/// A file in the index.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) file: String,
    process: String,
    pid: String,
    thread: String,
    tid: u64,
    is_main: bool,
    samples: u64,
    /// Start and end in microseconds, as in the file.
    pub(super) times_us: (i64, i64),
    idle_us: u64,
}

impl Listed {
    pub(super) fn new(thread: &Thread<'_>, file: String, times_us: (i64, i64)) -> Self {
        let idle: u64 = thread
            .slices
            .iter()
            .filter(|slice| slice.is_idle)
            .map(Slice::length)
            .sum();
        Self {
            file,
            process: thread.process.to_owned(),
            pid: thread.pid.to_owned(),
            thread: thread.name.to_owned(),
            tid: thread.tid,
            is_main: thread.is_main,
            samples: thread.slices.len() as u64,
            times_us,
            idle_us: idle / 1000,
        }
    }

    fn write<W: Write>(&self, out: &mut JsonWriter<W>) {
        out.begin_object();
        out.entry_str("file", &self.file);
        out.entry_str("process", &self.process);
        out.entry_str("pid", &self.pid);
        out.entry_str("thread", &self.thread);
        out.entry_u64("tid", self.tid);
        out.entry_bool("isMainThread", self.is_main);
        out.entry_u64("samples", self.samples);
        for (key, at) in [("startTime", self.times_us.0), ("endTime", self.times_us.1)] {
            out.key(key);
            out.i64(at);
        }
        out.entry_u64("idleTime", self.idle_us);
        out.end_object();
    }
}

/// Writes the index, with times in microseconds on one clock for all files.
pub(super) fn write<W: Write>(
    files: &[Listed],
    survey: &Survey,
    time: TimeKind,
    out: &mut JsonWriter<W>,
) {
    out.begin_object();
    out.entry_str(
        "product",
        survey.meta.product.as_deref().unwrap_or_default(),
    );
    out.key("startUnixTimeMs");
    // NaN is written as null.
    out.f64(survey.meta.start_time.unwrap_or(f64::NAN));
    out.entry_str("time", if time == TimeKind::Cpu { "cpu" } else { "wall" });
    out.key("profiles");
    out.begin_array();
    files.iter().for_each(|file| file.write(out));
    out.end_array();
    out.end_object();
}
