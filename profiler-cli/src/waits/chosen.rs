//! The end of a critical path: a process or a marker that the user names.

use anyhow::{Context, Result};
use profiler_analysis::{Interval, MarkerInterval, PathEnd, ProcessIndex, Timeline};

/// The end of the path of a process, or of the longest marker with a name. Without a name, the end
/// of the path of the process that began first.
pub(super) fn end_of_path(timeline: &Timeline, wanted: Option<&str>) -> Result<PathEnd> {
    let Some(wanted) = wanted else {
        return first(timeline).context("the profile has no samples");
    };
    let named = timeline
        .indexed()
        .filter(|(_, process)| process.name == wanted || process.pid == wanted);
    let of_process = named.filter_map(|(index, _)| of_process(timeline, index));
    let longest = of_process.max_by_key(|end| end.time.length_ns());
    longest
        .or_else(|| of_marker(timeline))
        .with_context(|| format!("the profile has no process or marker interval {wanted}"))
}

/// The process that began first, from its first program to the end of its last one.
fn first(timeline: &Timeline) -> Option<PathEnd> {
    let ends = timeline.indexed();
    let ends: Vec<PathEnd> = ends
        .filter_map(|(index, _)| of_process(timeline, index))
        .collect();
    let first = ends.iter().min_by_key(|end| end.time.start_ns)?;
    let number = |end: &PathEnd| timeline.process(end.process)?.system_pid;
    let pid = number(first);
    let programs = ends
        .iter()
        .filter(|end| pid.is_some() && number(end) == pid);
    let last = programs.max_by_key(|end| end.time.end_ns).unwrap_or(first);
    let time = Interval {
        start_ns: first.time.start_ns,
        ..last.time
    };
    Some(PathEnd { time, ..*last })
}

fn of_process(timeline: &Timeline, process: ProcessIndex) -> Option<PathEnd> {
    let lived = timeline.process(process)?;
    let thread = lived.main_thread()?;
    let time = timeline.thread(process, thread)?.life()?;
    Some(PathEnd {
        process,
        thread,
        time,
    })
}

fn of_marker(timeline: &Timeline) -> Option<PathEnd> {
    let length = |(_, marker): &&(ProcessIndex, MarkerInterval)| Interval::length_ns(marker.time);
    let (process, marker) = timeline.markers.iter().max_by_key(length)?;
    Some(PathEnd {
        process: *process,
        thread: marker.thread,
        time: marker.time,
    })
}
