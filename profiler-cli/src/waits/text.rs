//! Formats waits and critical paths as lines of text. Called by `profiler waits`.

use profiler_analysis::{
    Activity, CriticalPath, Meanwhile, PROCESSOR, PathPart, PathSegment, PathState, ThreadWaits,
    WaitReport, WaitRow,
};

use crate::plain::plain;

/// The share of its thread's life below which a wait is summed with the others, in percent.
const LEAST_PERCENT: f64 = 1.0;
/// The share of a path below which a segment is not listed, in percent.
const LEAST_SEGMENT: f64 = 0.5;
/// The life below which a thread is not listed, in milliseconds.
const LEAST_LIFE_MS: f64 = 10.0;
/// The number of segments of a path that are listed.
const MAX_SEGMENTS: usize = 40;

/// The lines of a report, with this number of waits for each thread.
pub(super) fn waits(report: &WaitReport, top: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let is_long = |thread: &&ThreadWaits| thread.life_ms >= LEAST_LIFE_MS;
    let shown: Vec<&ThreadWaits> = report.threads.iter().filter(is_long).collect();
    // If all are short, all are shown.
    let shown = if shown.is_empty() {
        report.threads.iter().collect()
    } else {
        shown
    };
    for thread in &shown {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.push(head(thread));
        add_rows(&mut lines, &thread.waits, top);
    }
    if lines.is_empty() {
        lines.push("The profile has no samples.".to_owned());
    }
    let short = report.threads.len() - shown.len();
    if short > 0 {
        lines.push(String::new());
        lines.push(format!(
            "Threads with less than {LEAST_LIFE_MS} ms of samples are not shown: {short}. --json has all."
        ));
    }
    lines
}

fn head(thread: &ThreadWaits) -> String {
    let ThreadWaits {
        process,
        pid,
        thread,
        life_ms,
        running_ms,
        ..
    } = thread;
    let percent = 100.0 * running_ms / life_ms.max(f64::MIN_POSITIVE);
    plain(&format!(
        "{process} [{pid}], thread {thread}: {}, of which it ran {} ({percent:.0} %)",
        time(*life_ms),
        time(*running_ms),
    ))
}

fn add_rows(lines: &mut Vec<String>, waits: &[WaitRow], top: usize) {
    let is_shown = |row: &&WaitRow| row.percent >= LEAST_PERCENT;
    let shown = waits.iter().filter(is_shown).take(top).count();
    for row in waits.iter().filter(is_shown).take(top) {
        let whom = match &row.whom {
            Some(whom) => format!("waits for {whom} ({})", row.kind),
            None if row.kind == PROCESSOR => format!("waits for a processor, in {}", row.place),
            None if row.kind == row.place => format!("waits in {}", row.place),
            None => format!("waits in {} ({})", row.place, row.kind),
        };
        let place = match &row.whom {
            Some(_) => format!(", in {}", row.place),
            None => String::new(),
        };
        lines.push(plain(&format!(
            "  {:>5.1} %  {:>9}  {whom}{place}",
            row.percent,
            time(row.ms),
        )));
        add_meanwhile(lines, &row.meanwhile, (row.ms, 1));
    }
    let rest: f64 = waits.iter().map(|row| row.percent).sum::<f64>()
        - waits
            .iter()
            .filter(is_shown)
            .take(top)
            .map(|row| row.percent)
            .sum::<f64>();
    let count = waits.len() - shown;
    if count > 0 && rest >= 0.05 {
        let waits = if count == 1 { "wait" } else { "waits" };
        lines.push(format!("  {rest:>5.1} %             {count} other {waits}"));
    }
}

fn add_meanwhile(lines: &mut Vec<String>, all: &[Meanwhile], (of_ms, depth): (f64, usize)) {
    let is_long = |one: &&Meanwhile| 100.0 * one.ms >= LEAST_PERCENT * of_ms;
    for one in all.iter().filter(is_long) {
        let indent = " ".repeat(18 + 4 * depth);
        let what = match &one.activity {
            Activity::Runs(function) => format!("runs {function}"),
            Activity::Ready(function) => format!("waits for a processor, in {function}"),
            Activity::Waits {
                place,
                whom: Some(whom),
            } => format!("waits for {whom}, in {place}"),
            Activity::Waits { place, whom: None } => format!("waits in {place}"),
            Activity::NotThere => "has no samples".to_owned(),
        };
        let cycle = if one.is_cycle { " (shown above)" } else { "" };
        lines.push(plain(&format!(
            "{indent}{} [{}] {what}: {}{cycle}",
            one.process,
            one.pid,
            time(one.ms),
        )));
        add_meanwhile(lines, &one.then, (one.ms, depth + 1));
    }
}

/// The lines of a path: the functions with the most time, and the segments in order.
pub(super) fn path(path: &CriticalPath, top: usize) -> Vec<String> {
    let mut lines = vec![
        format!(
            "The critical path takes {}. Making one of these parts shorter saves at most its time:",
            time(path.ms)
        ),
        String::new(),
    ];
    lines.extend(path.parts.iter().take(top.max(1)).map(part));
    let others = path.parts.iter().skip(top.max(1));
    let (count, rest) = others.fold((0, 0.0), |(count, sum), part| {
        (count + 1, sum + part.percent)
    });
    if count > 0 {
        lines.push(format!("  {rest:>5.1} %             {count} others"));
    }
    if path.parts.iter().any(|part| part.state == PathState::Waits) {
        lines.push(String::new());
        lines.push(
            "Where a part waits, the profile does not say which process or thread could end the wait."
                .to_owned(),
        );
    }
    lines.push(String::new());
    lines.push("From its start to its end:".to_owned());
    lines.push(String::new());
    let start = path.segments.first().map_or(0, |first| first.time.start_ns);
    let least = path.ms * LEAST_SEGMENT / 100.0;
    let is_long = |segment: &&PathSegment| segment.time.length_ns() as f64 / 1e6 >= least;
    let shown: Vec<_> = path.segments.iter().filter(is_long).collect();
    lines.extend(
        shown
            .iter()
            .take(MAX_SEGMENTS)
            .map(|one| segment(one, start)),
    );
    let hidden = path.segments.len() - shown.len().min(MAX_SEGMENTS);
    if hidden > 0 {
        lines.push(format!(
            "  {hidden} shorter or later segments are not listed."
        ));
    }
    lines
}

fn part(part: &PathPart) -> String {
    plain(&format!(
        "  {:>5.1} %  {:>9}  {} [{}] {}",
        part.percent,
        time(part.ms),
        part.process,
        part.pid,
        what(part.state, &part.function),
    ))
}

fn segment(segment: &PathSegment, start_ns: i64) -> String {
    let from = segment.time.start_ns.saturating_sub(start_ns) as f64 / 1e6;
    plain(&format!(
        "  at {:>9}  for {:>9}  {} [{}] {}",
        time(from),
        time(segment.time.length_ns() as f64 / 1e6),
        segment.process,
        segment.pid,
        what(segment.state, &segment.function),
    ))
}

fn what(state: PathState, function: &str) -> String {
    match state {
        PathState::Runs => format!("runs {function}"),
        PathState::Ready => format!("waits for a processor, in {function}"),
        PathState::Waits => format!("waits in {function}"),
        PathState::WaitsMutually => {
            format!("waits in {function} for a process that waits for it")
        }
        PathState::Unknown => "has no samples".to_owned(),
    }
}

/// Milliseconds as a text with a unit.
fn time(ms: f64) -> String {
    if ms >= 10_000.0 {
        format!("{:.1} s", ms / 1000.0)
    } else {
        format!("{ms:.1} ms")
    }
}
