//! A capture in the processed format: this process reads every pool itself, and asks no child.
//!
//! Used by [`super::Capture`]. Reading a pool does not involve its process, so a stopped child
//! costs no more than a running one. The capture waits only, and briefly, for new children to
//! connect and for ending children to exit. Invariant: the report and the profile's log list the
//! same processes with the same verdicts.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use crossbeam_channel::Sender;
use profiler_core::ids::ProcessId;
use profiler_gecko::{ProcessRole, ProcessSummary};
use profiler_json::JsonWriter;

use super::course::Course;
use super::lifetime;
use super::log::GatheringLog;
use super::participants;
use super::series::{CaptureSeries, ProcessInSeries};
use super::{CaptureError, CaptureEvent, CaptureSources, CapturedProcess, Selection};
use crate::gather::verdict::{Verdict, Why};
use crate::process_table::{ProcessForCapture, ProcessTable};
use crate::processed::names::Symbols;
use crate::processed::{LateProcess, ProcessedProfile};

/// A process and its verdict, before its summary exists.
struct Settled<'a> {
    participant: &'a ProcessForCapture,
    verdict: Verdict,
    /// Whether the profile contains data of it, and so a summary.
    is_there: bool,
    /// What the profile says about a process of a series whose data is gone.
    gone: Option<ProcessInSeries>,
}

impl Settled<'_> {
    /// Its row in the report.
    fn row(&self, table: &ProcessTable, summary: &ProcessSummary) -> CapturedProcess {
        let mut row = self.participant.settled(summary, self.verdict.clone());
        row.lived.ended = table.death_of(self.participant.key);
        row.time = table.time_of(self.participant.key);
        row
    }
}

/// Writes the profile of all processes to `out`. Returns the outcome for every process, the parent
/// first, and descriptions of the data that was left out.
pub(super) fn run(
    sources: &CaptureSources,
    selection: &Selection,
    series: &mut CaptureSeries,
    course: &Course,
    symbols: &mut dyn Symbols,
    out: &mut impl Write,
    path: &Path,
) -> Result<(Vec<CapturedProcess>, Vec<String>), CaptureError> {
    let Selection {
        range,
        slow_runs,
        focus,
        detail,
    } = selection;
    let events = course.events();
    let table = &*sources.processes;
    let clock = sources.time.clock();
    let unlisted = table.expired().counts;
    let mut all = participants::list(table);
    let listed: HashSet<_> = all.iter().map(|participant| participant.key).collect();
    series.keep(|process| listed.contains(&process), &unlisted);
    all.retain(|participant| participant.is_parent || !series.is_over(participant.key));
    all.sort_by_key(|participant| !participant.is_parent);
    participants::await_news(table, all.iter().map(|participant| participant.key));
    let spec = participants::spec(sources, &all, *range);
    let until = range.map(|range| sources.time.timestamp_of(range.to, spec.later));
    let root = all
        .first()
        .filter(|participant| participant.is_parent)
        .ok_or(CaptureError::SessionOver)?;
    let mut log = GatheringLog::new(clock.converter(spec.later));
    log.note_restarted_counter();
    let profile = ProcessedProfile::new(clock, &spec, all.len())
        .until(until)
        .detail(*detail)
        .arguments(focus.arguments.clone());
    let mut profile = profile.on_writing(|pid, done, of| send_writing(events, pid, done, of));
    let mut settled = Vec::new();
    let subject = participants::subject(&all, focus).map(|(child, _)| child);
    let mut order: Vec<&ProcessForCapture> = all.iter().collect();
    order.sort_by_key(|participant| subject.is_some() && participant.is_parent);
    for (number, participant) in order.into_iter().enumerate() {
        if subject.is_some() && participant.is_parent && !profile.is_empty() {
            continue;
        }
        course.check()?;
        report_participant(events, participant, number, all.len());
        let is_root = participant.is_parent || subject == Some(participant.key);
        let one = settle(table, participant, is_root, series, &mut profile)?;
        if one.is_there {
            profile.show_slow_runs(slow_runs.of(participant.key));
        }
        log.note(format!(
            "{} ({}): {}",
            participant.name, participant.pid, one.verdict
        ));
        let event = CaptureEvent::Settled {
            pid: participant.pid,
            verdict: one.verdict.clone(),
        };
        let _ = events.try_send(event);
        settled.push(one);
    }
    participants::note_overdrawn(table, &mut log);
    log.note_pushes(&sources.pushes);
    log.note_observed(table.observed_time());
    log.note_unread(table.missed_arrivals());
    log.note_full_directory(table.had_full_directory());
    profile.show_sections(log.sections());
    let incomplete = incomplete(table, &settled, spec.later.ticks);
    let mut processes = Vec::new();
    let mut remarks = Vec::new();
    let finish = |summaries: &[ProcessSummary], left_out: Vec<String>, json: &mut JsonWriter<_>| {
        left_out.iter().for_each(|remark| log.note(remark.as_str()));
        remarks = left_out;
        processes = report(table, &settled, summaries, series);
        processes.extend(participants::expired(table));
        log.write(root.pid, &processes, json);
    };
    let written = profile.write(symbols, &incomplete, finish, out);
    let failed = |source: io::Error| CaptureError::Write {
        path: path.to_owned(),
        source,
    };
    written.map_err(failed)?;
    Ok((processes, remarks))
}

/// Sends the event of a process that is about to be written.
pub(crate) fn send_writing(
    events: &Sender<CaptureEvent>,
    pid: ProcessId,
    processes_done: usize,
    processes: usize,
) {
    let _ = events.try_send(CaptureEvent::Writing {
        pid,
        processes_done,
        processes,
    });
}

fn report_participant(
    events: &Sender<CaptureEvent>,
    participant: &ProcessForCapture,
    number: usize,
    of: usize,
) {
    let proportion = number as f64 / of.max(1) as f64;
    let location = "reading its memory".to_owned();
    let _ = events.try_send(CaptureEvent::Progress {
        pid: participant.pid,
        proportion,
        location,
    });
}

/// Adds a process to the profile, if it has data.
fn settle<'a>(
    table: &ProcessTable,
    participant: &'a ProcessForCapture,
    is_root: bool,
    series: &mut CaptureSeries,
    profile: &mut ProcessedProfile<'a>,
) -> Result<Settled<'a>, CaptureError> {
    let ended = table.death_of(participant.key);
    let began = participant.began;
    let Some(pool) = participant.pool() else {
        if participant.is_parent {
            return Err(CaptureError::SessionOver);
        }
        let key = (participant.key, participant.pid);
        let gone = participant.final_counts();
        let gone = gone.and_then(|counts| series.note_gone(key, began, counts));
        if ended.is_some() {
            series.note_end(participant.key);
        }
        return Ok(Settled {
            participant,
            verdict: participant.missing().verdict,
            is_there: false,
            gone,
        });
    };
    let ProcessForCapture { pid, name, .. } = participant;
    let role = ProcessRole {
        pid: *pid,
        name: name.clone(),
        is_root,
    };
    let earlier = series.entries_of(participant.key, began);
    let open = Box::new(move || Ok(Arc::clone(pool)));
    let added = profile.add(role, ended, &earlier, open).map(|entries| {
        let is_there = entries.is_some();
        if let Some(entries) = entries {
            series.note_entries(participant.key, entries);
        }
        // If a pool cannot be read, the next capture tries again.
        if ended.is_some() {
            series.note_end(participant.key);
        }
        is_there
    });
    if added == Ok(true) {
        let deadlocks = table.deadlocks();
        let notices = deadlocks
            .iter()
            .filter_map(|deadlock| deadlock.notice(*pid));
        notices.for_each(|notice| profile.add_notice(notice));
    }
    let why = table.why_unable(participant.key);
    let (verdict, is_there) = match (added, why) {
        (Err(message), _) if participant.is_parent => return Err(CaptureError::OwnPart(message)),
        (Err(message), _) => (
            Verdict::Missing {
                why: Why::Unreadable { message },
            },
            false,
        ),
        (Ok(false), why) => {
            let why = participants::why_untouched(why.unwrap_or(Why::NeverConnected));
            let why = participant.why_missing(why);
            (Verdict::Missing { why }, false)
        }
        (Ok(true), _) if participant.is_parent => (participant.own_verdict(), true),
        (Ok(true), None) => (Verdict::Complete, true),
        (Ok(true), Some(why)) if why.is_orderly() => (Verdict::Complete, true),
        (Ok(true), Some(why)) => (Verdict::Recovered { why }, true),
    };
    if is_there {
        profile.life(series.life_of(participant.key, *pid));
        profile.name_generated_code(
            participant.forked_from,
            participant.files.clone(),
            participant.is_trusted,
        );
    }
    Ok(Settled {
        participant,
        verdict,
        is_there,
        gone: None,
    })
}

/// The incomplete processes, for the markers in the parent's main thread.
fn incomplete(
    table: &ProcessTable,
    settled: &[Settled<'_>],
    capture: profiler_core::time::Timestamp,
) -> Vec<LateProcess> {
    let incomplete = settled
        .iter()
        .filter(|one| one.verdict != Verdict::Complete);
    let rows = incomplete.map(|one| one.row(table, &ProcessSummary::default()));
    rows.chain(participants::expired(table))
        .map(|row| LateProcess {
            parent: row.parent,
            marker: lifetime::incomplete(&row, capture),
        })
        .collect()
}

/// All processes with their entry counts, which `series` notes. `summaries` has the processes that
/// are in the profile, in the same order.
fn report(
    table: &ProcessTable,
    settled: &[Settled<'_>],
    summaries: &[ProcessSummary],
    series: &mut CaptureSeries,
) -> Vec<CapturedProcess> {
    let mut summaries = summaries.iter();
    let all = settled.iter().map(|one| {
        let summary = if one.is_there { summaries.next() } else { None };
        match summary {
            Some(summary) => {
                let ProcessForCapture { key, pid, .. } = one.participant;
                CapturedProcess {
                    series: series.note_counts(*key, *pid, &summary.counts),
                    ..one.row(table, summary)
                }
            }
            // The final entry counts of a process without data are known, too.
            None => CapturedProcess {
                counts: one.participant.missing().counts,
                series: one.gone.clone(),
                ..one.row(table, &ProcessSummary::default())
            },
        }
    });
    all.collect()
}
