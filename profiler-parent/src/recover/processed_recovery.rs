//! Writes the profile of a dead session in the processed format, from all pools with one writer.
//!
//! Used by [`super::recover`]. Pools are opened one at a time, twice each.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crossbeam_channel::Sender;
use profiler_gecko::gecko::IncompleteProcess;
use profiler_gecko::{ProcessRole, ProcessSummary, ProfileSpec};
use profiler_json::JsonWriter;

use super::merge::{Recovery, Root, missing, settled, spec};
use super::pool_recovery::send_reading;
use super::survey::{Survey, SurveyedProcess};
use super::{RecoverError, find};
use crate::capture::log::GatheringLog;
use crate::capture::names::SessionSymbols;
use crate::capture::processed_capture::send_writing;
use crate::capture::{CaptureEvent, CapturedProcess};
use crate::gather::verdict::{Verdict, Why};
use crate::processed::{EarlierEntries, LateProcess, ProcessedProfile};
use profiler_files::output::ProfileFile;
use profiler_symbols::SymbolStore;

/// A process whose summary is not known yet.
struct Settled {
    process: CapturedProcess,
    since: profiler_core::time::Timestamp,
    /// The process is in the profile.
    is_there: bool,
}

/// Writes the profile of a session.
pub(super) fn recover(
    survey: Survey,
    target: &Path,
    events: &Sender<CaptureEvent>,
) -> Result<Recovery, RecoverError> {
    let spec = spec(&survey);
    let mut file = ProfileFile::create(target)?;
    let mut log = begin_log(&survey, &spec);
    let profile = ProcessedProfile::new(survey.clock, &spec, survey.processes.len() + 1);
    let mut profile = profile.on_writing(|pid, done, of| send_writing(events, pid, done, of));
    let (pid, root) = add_root(&survey, &spec, &mut profile)?;
    let children = survey.processes.iter().enumerate();
    let children = children.filter(|(_, process)| !process.is_parent);
    let children = children.map(|(number, child)| {
        send_reading(events, child, number, survey.processes.len());
        add_child(child, &spec, &mut profile)
    });
    let all: Vec<Settled> = std::iter::once(root).chain(children).collect();
    for one in &all {
        log.note(format!(
            "{} ({}): {}",
            one.process.name, one.process.pid, one.process.verdict
        ));
    }
    let mut processes = Vec::new();
    let finish = |summaries: &[ProcessSummary], left_out: Vec<String>, json: &mut JsonWriter<_>| {
        left_out.into_iter().for_each(|remark| log.note(remark));
        processes = report(&all, summaries);
        log.write(pid, &processes, json);
    };
    let written = profile.write(
        &mut SessionSymbols::new(SymbolStore::default(), events.clone()),
        &incomplete(&all),
        finish,
        &mut file,
    );
    written.map_err(|source| RecoverError::Write {
        path: target.to_owned(),
        source,
    })?;
    let bytes = file.commit()?;
    let directory = survey.directory;
    let passed_over = survey.passed_over;
    Ok(Recovery {
        directory,
        path: target.to_owned(),
        bytes,
        processes,
        passed_over,
    })
}

fn begin_log(survey: &Survey, spec: &ProfileSpec) -> GatheringLog {
    let mut log = GatheringLog::new(survey.clock.converter(spec.later));
    log.note("recovered from the session's pool directory");
    for over in &survey.passed_over {
        log.note(format!("passed over {}: {}", over.name, over.why));
    }
    log
}

fn add_root(
    survey: &Survey,
    spec: &ProfileSpec,
    profile: &mut ProcessedProfile<'_>,
) -> Result<(profiler_core::ids::ProcessId, Settled), RecoverError> {
    let failed = |error: io::Error| RecoverError::Root(error.to_string());
    let Root {
        pool,
        pid,
        name,
        verdict,
        died,
    } = Root::find(survey).map_err(failed)?;
    let process = settled(&name, pid, &ProcessSummary::default(), verdict);
    let pool = Arc::new(pool.into());
    let role = ProcessRole {
        pid,
        name,
        is_root: true,
    };
    profile
        .add(
            role,
            died,
            &EarlierEntries::default(),
            Box::new(move || Ok(Arc::clone(&pool))),
        )
        .map_err(RecoverError::Root)?;
    Ok((
        pid,
        Settled {
            process,
            since: died.unwrap_or(spec.later.ticks),
            is_there: true,
        },
    ))
}

fn add_child<'a>(
    child: &'a SurveyedProcess,
    spec: &ProfileSpec,
    profile: &mut ProcessedProfile<'a>,
) -> Settled {
    let role = ProcessRole {
        pid: child.pid,
        name: child.name.clone(),
        is_root: false,
    };
    let open = || find::open(&child.path).map(|pool| Arc::new(pool.into()));
    let all = EarlierEntries::default();
    let (verdict, is_there) = match profile.add(role, child.died(), &all, Box::new(open)) {
        Ok(Some(_)) => (child.verdict(), true),
        Ok(None) => (missing(child), false),
        Err(message) => (
            Verdict::Missing {
                why: Why::Unreadable { message },
            },
            false,
        ),
    };
    let process = settled(&child.name, child.pid, &ProcessSummary::default(), verdict);
    Settled {
        process,
        since: child.died().unwrap_or(spec.later.ticks),
        is_there,
    }
}

fn incomplete(all: &[Settled]) -> Vec<LateProcess> {
    let incomplete = all
        .iter()
        .filter(|one| one.process.verdict != Verdict::Complete);
    let incomplete = incomplete.map(|one| LateProcess {
        parent: one.process.parent,
        marker: IncompleteProcess {
            pid: one.process.pid,
            name: one.process.name.clone(),
            since: one.since,
            until: None,
            verdict: one.process.verdict.to_string(),
        },
    });
    incomplete.collect()
}

/// Adds the summaries, which exist only for the processes in the profile, in the same order.
fn report(all: &[Settled], summaries: &[ProcessSummary]) -> Vec<CapturedProcess> {
    let mut summaries = summaries.iter();
    let report = all.iter().map(|one| {
        let CapturedProcess {
            name, pid, verdict, ..
        } = &one.process;
        let summary = if one.is_there { summaries.next() } else { None };
        match summary {
            Some(summary) => settled(name, *pid, summary, verdict.clone()),
            None => one.process.clone(),
        }
    });
    report.collect()
}
