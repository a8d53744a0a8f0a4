//! A capture in the processed format: this process reads every pool itself and asks nobody.
//!
//! Reading a pool needs no help of the process that it belongs to, so a child that stands still costs no more than
//! one that runs, and nothing is waited for but the news of deaths that are under way. Invariant: who is
//! in the report is in the profile's log, with the same verdict.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use crossbeam_channel::Sender;
use profiler_core::profile::gecko::IncompleteProcess;
use profiler_core::profile::{JsonWriter, ProcessSummary};

use super::log::GatheringLog;
use super::participants::{self as roster, Member};
use super::{CaptureError, CaptureEvent, CapturedProcess, TimeRange};
use crate::gather::verdict::{Verdict, Why};
use crate::processed::names::Symbols;
use crate::processed::{ProcessedProfile, Role};
use crate::supervisor::Shared;

/// A process and what is known of it before its summary is.
struct Settled<'a> {
    member: &'a Member,
    verdict: Verdict,
    /// Whether the profile has a summary of it.
    is_there: bool,
}

/// Writes the profile of all processes to `out`; says what became of every process, the parent first, and what
/// was left out.
pub(super) fn run(
    shared: &Shared,
    (range, events): (Option<TimeRange>, &Sender<CaptureEvent>),
    symbols: &mut dyn Symbols,
    out: &mut impl Write,
    path: &Path,
) -> Result<(Vec<CapturedProcess>, Vec<String>), CaptureError> {
    let mut members = roster::call(shared);
    members.sort_by_key(|member| !member.is_parent);
    roster::await_news(shared, members.iter().map(|member| member.key));
    let spec = roster::spec(shared, &members, range);
    let until = range.map(|range| roster::instant(shared, spec.later, range.to));
    let root = members.first().filter(|member| member.is_parent).ok_or(CaptureError::SessionOver)?;
    let mut log = GatheringLog::new(shared.clock.converter(spec.later));
    log.note_restarted_counter();
    let mut profile = ProcessedProfile::new(shared.clock, &spec, members.len()).until(until);
    let mut settled = Vec::new();
    for (number, member) in members.iter().enumerate() {
        tell(events, member, number, members.len());
        let one = settle(shared, member, &mut profile)?;
        log.note(format!("{} ({}): {}", member.name, member.pid, one.verdict));
        let event = CaptureEvent::Settled { pid: member.pid, verdict: one.verdict.clone() };
        let _ = events.try_send(event);
        settled.push(one);
    }
    roster::note_overdrawn(shared, &mut log);
    let incomplete = incomplete(shared, &settled, spec.later.ticks);
    let (mut processes, mut remarks) = (Vec::new(), Vec::new());
    let finish = |summaries: &[ProcessSummary], left_out: Vec<String>, json: &mut JsonWriter<_>| {
        left_out.iter().for_each(|remark| log.note(remark.as_str()));
        remarks = left_out;
        processes = report(&settled, summaries);
        processes.extend(roster::earlier(shared));
        log.write(root.pid, &processes, json);
    };
    let written = profile.write(symbols, &incomplete, finish, out);
    let failed = |source: io::Error| CaptureError::Write { path: path.to_owned(), source };
    written.map_err(failed)?;
    Ok((processes, remarks))
}

fn tell(events: &Sender<CaptureEvent>, member: &Member, number: usize, of: usize) {
    let proportion = number as f64 / of.max(1) as f64;
    let location = "reading its memory".to_owned();
    let _ = events.try_send(CaptureEvent::Progress { pid: member.pid, proportion, location });
}

/// Adds a process to the profile, if there is anything to add.
fn settle<'a>(
    shared: &Shared,
    member: &'a Member,
    profile: &mut ProcessedProfile<'a>,
) -> Result<Settled<'a>, CaptureError> {
    let Some(pool) = member.pool() else {
        if member.is_parent {
            return Err(CaptureError::SessionOver);
        }
        return Ok(Settled { member, verdict: member.missing().verdict, is_there: false });
    };
    let ended = roster::death_of(shared, member.key);
    let role = Role { pid: member.pid, name: member.name.clone(), is_root: member.is_parent, ended };
    let added = profile.add(role, Box::new(move || Ok(Arc::clone(pool))));
    let why = roster::unable_now(shared, member.key);
    let (verdict, is_there) = match (added, why) {
        (Err(message), _) if member.is_parent => return Err(CaptureError::OwnPart(message)),
        (Err(message), _) => (Verdict::Missing { why: Why::Unreadable { message } }, false),
        (Ok(false), why) => {
            let why = roster::why_untouched(why.unwrap_or(Why::NeverConnected));
            (Verdict::Missing { why }, false)
        }
        (Ok(true), None) => (Verdict::Complete, true),
        (Ok(true), Some(why)) if why.is_orderly() => (Verdict::Complete, true),
        (Ok(true), Some(why)) => (Verdict::Recovered { why }, true),
    };
    Ok(Settled { member, verdict, is_there })
}

/// What the parent's main thread shows of those that are not complete.
fn incomplete(
    shared: &Shared,
    settled: &[Settled<'_>],
    capture: profiler_core::time::Timestamp,
) -> Vec<IncompleteProcess> {
    let incomplete = settled.iter().filter(|one| one.verdict != Verdict::Complete);
    let all = incomplete.map(|one| IncompleteProcess {
        pid: one.member.pid,
        name: one.member.name.clone(),
        since: roster::death_of(shared, one.member.key).unwrap_or(capture),
        verdict: one.verdict.to_string(),
    });
    let earlier = roster::earlier(shared).map(|earlier| IncompleteProcess {
        pid: earlier.pid,
        name: earlier.name,
        since: capture,
        verdict: earlier.verdict.to_string(),
    });
    all.chain(earlier).collect()
}

/// All processes with their books. Summaries are of those that are there, in the same order.
fn report(settled: &[Settled<'_>], summaries: &[ProcessSummary]) -> Vec<CapturedProcess> {
    let mut summaries = summaries.iter();
    let all = settled.iter().map(|one| {
        let summary = if one.is_there { summaries.next() } else { None };
        match summary {
            Some(summary) => one.member.settled(summary, one.verdict.clone()),
            // Also of one that has nothing left the final books are known.
            None => CapturedProcess { verdict: one.verdict.clone(), ..one.member.missing() },
        }
    });
    all.collect()
}
