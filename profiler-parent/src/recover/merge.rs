//! Writes the profile of a dead session: the parts of the children first, then the part of the
//! parent, as in a capture.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;
use profiler_core::ids::ProcessId;
use profiler_core::internal::pool::{self, PoolSpec};
use profiler_core::time::Timestamp;
use profiler_gecko::gecko::IncompleteProcess;
use profiler_gecko::{ProcessSummary, ProfileSpec, ShownRange};
use profiler_json::JsonWriter;

use super::pool_recovery::send_reading;
use super::survey::{Survey, SurveyedProcess};
use super::{PassedOver, RecoverError, find, times};
use crate::capture::lifetime::Lifetime;
use crate::capture::log::GatheringLog;
use crate::capture::own_part::OwnPart;
use crate::capture::parts::{PartError, Parts, spool};
use crate::capture::recover::{Subject, write};
use crate::capture::{CaptureEvent, CapturedProcess};
use crate::gather::verdict::{Verdict, Why};
use crate::pools::PARENT;
use profiler_files::output::ProfileFile;

/// Display name of a parent whose pool is missing.
const LOST_PARENT: &str = "lost parent";

/// The result of a recovery.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recovery {
    /// The session's directory.
    pub directory: PathBuf,
    /// The path of the profile.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// All processes of the session that left a pool, the parent first.
    pub processes: Vec<CapturedProcess>,
    /// The files that are not pools of the session.
    pub passed_over: Vec<PassedOver>,
}

/// Writes the profile of a session in the Gecko format.
pub(super) fn recover(
    survey: Survey,
    target: &Path,
    events: &Sender<CaptureEvent>,
) -> Result<Recovery, RecoverError> {
    let mut file = ProfileFile::create(target)?;
    let failed = |source| RecoverError::Write {
        path: target.to_owned(),
        source,
    };
    let mut merge = Merge::begin(&survey, &mut file).map_err(failed)?;
    let all = survey.processes.iter().enumerate();
    for (number, child) in all.filter(|(_, process)| !process.is_parent) {
        send_reading(events, child, number, survey.processes.len());
        merge.take_child(child).map_err(failed)?;
    }
    let (processes, passed_over) = merge.end(target)?;
    let bytes = file.commit()?;
    Ok(Recovery {
        directory: survey.directory,
        path: target.to_owned(),
        bytes,
        processes,
        passed_over,
    })
}

/// The profile in the Gecko format while it is written.
struct Merge<'a, W> {
    survey: &'a Survey,
    spec: ProfileSpec,
    parts: Parts<'a, W>,
    log: GatheringLog,
    shown: ShownRange,
    incomplete: Vec<IncompleteProcess>,
    children: Vec<CapturedProcess>,
    passed_over: Vec<PassedOver>,
}

impl<'a, W: Write> Merge<'a, W> {
    fn begin(survey: &'a Survey, out: &'a mut W) -> io::Result<Self> {
        let spec = spec(survey);
        let mut log = GatheringLog::new(survey.clock.converter(spec.later));
        log.note("recovered from the session's pool directory");
        for over in &survey.passed_over {
            log.note(format!("passed over {}: {}", over.name, over.why));
        }
        Ok(Self {
            survey,
            spec,
            parts: Parts::begin(out)?,
            log,
            shown: ShownRange::default(),
            incomplete: Vec::new(),
            children: Vec::new(),
            passed_over: survey.passed_over.clone(),
        })
    }

    fn take_child(&mut self, child: &SurveyedProcess) -> io::Result<()> {
        let (summary, verdict) = match self.write_child(child) {
            Ok(Some(summary)) => (summary, child.verdict()),
            Ok(None) => (ProcessSummary::default(), missing(child)),
            Err(PartError::Output(error)) => return Err(error),
            Err(PartError::Refused(message)) => (
                ProcessSummary::default(),
                Verdict::Missing {
                    why: Why::Unreadable { message },
                },
            ),
        };
        self.shown += summary.shown;
        let settled = settled(&child.name, child.pid, &summary, verdict);
        self.note(&settled, child.died());
        self.children.push(settled);
        Ok(())
    }

    fn write_child(
        &mut self,
        child: &SurveyedProcess,
    ) -> Result<Option<ProcessSummary>, PartError> {
        let refused = |error: io::Error| PartError::Refused(error.to_string());
        let pool = find::open(&child.path).map_err(refused)?;
        let mut private = spool().map_err(PartError::Output)?;
        let subject = Subject {
            pid: child.pid,
            name: &child.name,
            died: child.died(),
        };
        let written = write(&subject, &pool, self.survey.clock, &self.spec, &mut private);
        let summary = written.map_err(PartError::Refused)?;
        if summary.is_some() {
            self.parts.append(private)?;
        }
        Ok(summary)
    }

    fn note(&mut self, process: &CapturedProcess, died: Option<Timestamp>) {
        self.log.note(format!(
            "{} ({}): {}",
            process.name, process.pid, process.verdict
        ));
        if process.verdict != Verdict::Complete {
            self.incomplete.push(IncompleteProcess {
                pid: process.pid,
                name: process.name.clone(),
                since: died.unwrap_or(self.spec.later.ticks),
                until: None,
                verdict: process.verdict.to_string(),
            });
        }
    }

    /// Writes the parent's part and the end of the file.
    fn end(
        mut self,
        target: &Path,
    ) -> Result<(Vec<CapturedProcess>, Vec<PassedOver>), RecoverError> {
        let failed = |source| RecoverError::Write {
            path: target.to_owned(),
            source,
        };
        let root =
            Root::find(self.survey).map_err(|error| RecoverError::Root(error.to_string()))?;
        let mut parent = settled(
            &root.name,
            root.pid,
            &ProcessSummary::default(),
            root.verdict,
        );
        self.note(&parent, root.died);
        let own = OwnPart::start(
            self.survey.clock,
            Arc::new(root.pool.into()),
            root.pid,
            &root.name,
            &self.spec,
            false,
        );
        let own = own.map_err(|error| RecoverError::Root(error.to_string()))?;
        let mut written = own.finish(self.incomplete).map_err(RecoverError::Root)?;
        let out = self.parts.end().map_err(failed)?;
        written.append_to(out).map_err(failed)?;
        self.shown += written.summary.shown;
        (parent.threads, parent.counts) = (written.summary.threads, written.summary.counts);
        let processes: Vec<_> = std::iter::once(parent).chain(self.children).collect();
        out.write_all(b",").map_err(failed)?;
        let mut json = JsonWriter::new(&mut *out);
        self.log.write(root.pid, &processes, &mut json);
        json.finish().map_err(failed)?;
        written
            .close(self.survey.clock, &self.spec, None, &[], self.shown, out)
            .map_err(failed)?;
        Ok((processes, self.passed_over))
    }
}

/// The root process of the profile.
pub(super) struct Root {
    pub(super) pool: File,
    pub(super) pid: ProcessId,
    pub(super) name: String,
    pub(super) verdict: Verdict,
    pub(super) died: Option<Timestamp>,
}

impl Root {
    /// Returns the parent. If its pool is missing, returns an empty pool with a verdict that says
    /// so.
    pub(super) fn find(survey: &Survey) -> io::Result<Self> {
        if let Some(parent) = survey.processes.first().filter(|process| process.is_parent) {
            return Ok(Self {
                pool: find::open(&parent.path)?,
                pid: parent.pid,
                name: parent.name.clone(),
                verdict: parent.verdict(),
                died: parent.died(),
            });
        }
        let said = survey.passed_over.iter().find(|over| over.name == PARENT);
        let message = said.map_or_else(|| format!("there is no {PARENT}"), |over| over.why.clone());
        let params = survey
            .processes
            .first()
            .and_then(|process| process.header.params.clone());
        let id = pool::new_id()?;
        let limit = survey.limit;
        let params = params.unwrap_or_default();
        let name = LOST_PARENT.to_owned();
        let spec = PoolSpec {
            id,
            limit,
            allowance: limit,
            clock: survey.clock,
            params,
            name: name.clone(),
        };
        let verdict = Verdict::Missing {
            why: Why::Unreadable { message },
        };
        Ok(Self {
            pool: spec.create_pool()?,
            pid: ProcessId::new(0),
            name,
            verdict,
            died: None,
        })
    }
}

pub(super) fn spec(survey: &Survey) -> ProfileSpec {
    let later = times::end(&survey.clock, &survey.processes);
    let params = survey
        .processes
        .first()
        .and_then(|process| process.header.params.clone());
    let window = params.map_or(0, |params| params.window_ns);
    let since = (window > 0).then(|| {
        let ticks = survey.clock.converter(later).ticks_in(window);
        Timestamp::from_raw(later.ticks.raw().saturating_sub(ticks))
    });
    ProfileSpec {
        later,
        since,
        categories: survey.categories.clone(),
    }
}

/// The verdict on a child that left no data.
pub(super) fn missing(child: &SurveyedProcess) -> Verdict {
    match child.verdict() {
        Verdict::Complete => Verdict::Missing {
            why: Why::RecordedNothing,
        },
        Verdict::Recovered { why } | Verdict::Partial { why } | Verdict::Missing { why } => {
            Verdict::Missing { why }
        }
    }
}

pub(super) fn settled(
    name: &str,
    pid: ProcessId,
    summary: &ProcessSummary,
    verdict: Verdict,
) -> CapturedProcess {
    CapturedProcess {
        name: name.to_owned(),
        pid,
        parent: None,
        threads: summary.threads,
        counts: summary.counts,
        verdict,
        writing: Duration::from_nanos(summary.writing_ns),
        lived: Lifetime::default(),
        time: None,
        series: None,
    }
}
