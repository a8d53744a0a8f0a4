//! What was pushed, in sentences for the user.
//!
//! Used by [`super`] and [`super::options`].

use profiler_push::{DestinationReport, PushReport};

use crate::console::tell;
use crate::plain::plain;

/// Says what stays in a spool and does not belong to a destination.
pub(super) fn tell_left(report: &PushReport) {
    let PushReport {
        used_directories,
        unreadable_directories,
        kept_batches,
        ..
    } = report;
    if *kept_batches > 0 {
        tell(&format!(
            "profiler: {kept_batches} batches stay in the spool for other engines of the recording \
             (--replace removes such batches)"
        ));
    }
    if *used_directories > 0 {
        tell(&format!(
            "profiler: {used_directories} directories of the spool are in use"
        ));
    }
    if *unreadable_directories > 0 {
        tell(&format!(
            "profiler: {unreadable_directories} directories of the spool cannot be read, or are those of \
             an earlier version"
        ));
    }
}

/// Says on standard error what was pushed.
pub(super) fn tell_report(report: &PushReport) {
    for destination in &report.destinations {
        tell(&format!("profiler: {}", sentence(destination)));
    }
    if report.missed_entries > 0 {
        let missed = report.missed_entries;
        tell(&format!(
            "profiler: {missed} entries were evicted before they could be pushed"
        ));
    }
    if let Some(error) = &report.capture_error {
        let failed = report.failed_captures;
        tell(&format!(
            "profiler: {failed} batches could not be written: {}",
            plain(error)
        ));
    }
}

/// Whether the spool has no batches for the destinations.
pub(super) fn is_empty(report: &PushReport) -> bool {
    let mut destinations = report.destinations.iter();
    report.used_directories + report.kept_batches == 0
        && is_complete(report)
        && destinations.all(|destination| destination.sent.batches == 0)
}

/// Whether every destination has got everything.
pub(super) fn is_complete(report: &PushReport) -> bool {
    let mut destinations = report.destinations.iter();
    report.unreadable_directories == 0
        && destinations.all(|destination| {
            let left_out = destination.lost.batches + destination.rejected.batches;
            left_out + destination.waiting_batches == 0
        })
}

/// What a destination has got, in a sentence.
pub(super) fn sentence(destination: &DestinationReport) -> String {
    let DestinationReport {
        address,
        sent,
        lost,
        rejected,
        waiting_batches,
        requests,
        sent_bytes,
        error,
        without_profiles,
        ..
    } = destination;
    let number = |count: u64, one: &str, more: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {more}"),
    };
    let mut parts = vec![format!(
        "pushed {} in {} ({sent_bytes} bytes) to {address}",
        number(sent.batches, "batch", "batches"),
        number(*requests, "request", "requests"),
    )];
    let counts = [
        (rejected.batches, "refused"),
        (lost.batches, "lost: the spool was full"),
        (*waiting_batches, "not sent"),
    ];
    for (batches, what) in counts {
        if batches > 0 {
            parts.push(format!("{batches} {what}"));
        }
    }
    match error {
        Some(error) if parts.len() > 1 => parts.push(plain(error)),
        None if *waiting_batches > 0 && *requests == 0 => {
            parts.push("no request had an answer".to_owned());
        }
        _ => {}
    }
    if let Some(why) = without_profiles {
        parts.push(format!("it does not take profiles ({})", plain(why)));
    }
    parts.join("; ")
}
