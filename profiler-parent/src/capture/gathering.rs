//! The course of a capture in the Gecko format: children are asked for their parts, and the pools
//! of children that do not answer are read.
//!
//! Called by [`super::Capture`]. Passes the messages that the supervisor forwards, and the
//! session's time, to the pure state machine of [`crate::gather::state`], and carries out its
//! decisions.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use ipc_protocol::message::{GatherId, GatherOutcome};
use profiler_core::ids::PoolId;
use profiler_gecko::{ProcessSummary, ProfileSpec, ProfileSubject, ShownRange};
use profiler_json::JsonWriter;

use super::course::Course;
use super::lifetime;
use super::log::GatheringLog;
use super::own_part::OwnPart;
use super::participants;
use super::parts::{PartError, Parts};
use super::{CaptureError, CaptureEvent, CaptureSources, CapturedProcess, Selection};
use crate::gather::state::{Gather, Input, Millis, Output};
use crate::gather::verdict::{Verdict, Why};
use crate::process_table::ProcessForCapture;
use crate::session_time::{SessionNs, SessionTime};
use crate::supervisor::{CaptureRequest, SupervisorEvent, SupervisorHandle};

/// Capacity for children's messages while the capture handles one of the children.
const INPUTS: usize = 4096;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A running capture.
struct Gathering<'a, W> {
    sources: &'a CaptureSources,
    id: GatherId,
    spec: &'a ProfileSpec,
    members: &'a [ProcessForCapture],
    course: &'a Course,
    parts: Parts<'a, W>,
    log: GatheringLog,
    settled: Vec<(PoolId, CapturedProcess)>,
    shown: ShownRange,
    /// PartFile contents that children announced and that are not taken yet.
    announced: Vec<(PoolId, u64, ProcessSummary)>,
}

/// Why a capture ends early.
enum End {
    /// The file cannot be written any more.
    Output(io::Error),
    /// The session ended meanwhile.
    SessionOver,
    /// The profile is not wanted any more.
    Cancelled,
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Ends the capture at the supervisor when it is dropped.
struct SupervisorEnd<'a>(&'a SupervisorHandle, GatherId);

impl Drop for SupervisorEnd<'_> {
    fn drop(&mut self) {
        self.0
            .send(SupervisorEvent::Capture(CaptureRequest::End { id: self.1 }));
    }
}

/// Gathers all parts into `out`. Returns the outcome for every process, the parent first.
pub(super) fn run(
    sources: &CaptureSources,
    selection: &Selection,
    course: &Course,
    out: &mut impl Write,
    path: &Path,
) -> Result<Vec<CapturedProcess>, CaptureError> {
    let failed = |source: io::Error| CaptureError::Write {
        path: path.to_owned(),
        source,
    };
    let supervisor = &sources.supervisor;
    let members = participants::list(&sources.processes);
    let spec = participants::spec(sources, &members, selection.range);
    let id = GatherId::new(NEXT_ID.fetch_add(1, Ordering::Relaxed));
    let (inputs, incoming) = bounded(INPUTS);
    let (reply, asked) = bounded(1);
    supervisor.send(SupervisorEvent::Capture(CaptureRequest::Begin {
        id,
        spec: spec.clone(),
        inputs,
        asked: reply,
    }));
    let _end = SupervisorEnd(supervisor, id);
    let asked = asked.recv().map_err(|_| CaptureError::SessionOver)?;
    let parent = members
        .iter()
        .find(|member| member.is_parent)
        .ok_or(CaptureError::SessionOver)?;
    let subject = participants::subject(&members, &selection.focus).map(|(_, subject)| subject);
    // A process that records for another session has only its marker to show.
    let is_hidden = subject.is_some() || parent.own_verdict() != Verdict::Complete;
    let own = start_own(sources, parent, &spec, is_hidden)?;
    let mut gathering = Gathering {
        sources,
        id,
        spec: &spec,
        members: &members,
        course,
        parts: Parts::begin(out).map_err(failed)?,
        log: GatheringLog::new(sources.time.clock().converter(spec.later)),
        settled: Vec::new(),
        shown: ShownRange::default(),
        announced: Vec::new(),
    };
    gathering.log.note_restarted_counter();
    gathering
        .gather(&asked, &incoming)
        .map_err(|end| match end {
            End::Output(source) => failed(source),
            End::SessionOver => CaptureError::SessionOver,
            End::Cancelled => CaptureError::Cancelled,
        })?;
    gathering.recover_remaining(&asked).map_err(failed)?;
    participants::note_overdrawn(&sources.processes, &mut gathering.log);
    gathering.log.note_pushes(&sources.pushes);
    let observed = sources.processes.observed_time();
    gathering.log.note_observed(observed);
    gathering
        .log
        .note_unread(sources.processes.missed_arrivals());
    gathering
        .log
        .note_full_directory(sources.processes.had_full_directory());
    let Gathering {
        parts,
        log,
        settled,
        shown,
        ..
    } = gathering;
    parts.end().map_err(failed)?;
    finish(
        sources,
        &spec,
        parent,
        own,
        log,
        in_order(&members, settled),
        subject.as_ref(),
        shown,
        out,
        &failed,
    )
}

fn start_own(
    sources: &CaptureSources,
    parent: &ProcessForCapture,
    spec: &ProfileSpec,
    is_hidden: bool,
) -> Result<OwnPart, CaptureError> {
    let failed = |error: io::Error| CaptureError::OwnPart(error.to_string());
    let pool = Arc::clone(parent.pool().ok_or(CaptureError::SessionOver)?);
    let clock = sources.time.clock();
    OwnPart::start(clock, pool, parent.pid, &parent.name, spec, is_hidden).map_err(failed)
}

impl<'a, W: Write> Gathering<'a, W> {
    /// Takes the parts of the children that were asked, in the order of their answers.
    fn gather(&mut self, asked: &[PoolId], incoming: &Receiver<Input<PoolId>>) -> Result<(), End> {
        let mut clock = Stopwatch::start(self.sources.time);
        let _ = self
            .course
            .events()
            .try_send(CaptureEvent::Asked(asked.len()));
        self.log.note(format!("asked {} processes", asked.len()));
        let mut state = Gather::new(clock.now(), self.sources.patience, asked.iter().copied());
        let mut outputs = state.step(clock.now(), Input::Tick);
        let mut finished = false;
        loop {
            let mut rejected = Vec::new();
            // The stopwatch stops while outputs are carried out, because no message of a child is
            // handled meanwhile.
            clock.hold();
            for output in outputs {
                match output {
                    Output::Finished => finished = true,
                    output => rejected.extend(self.carry_out(output)?),
                }
            }
            clock.go_on();
            outputs = if !rejected.is_empty() {
                // Comes before the check for the end: the part of the last child may be invalid.
                rejected
                    .into_iter()
                    .flat_map(|input| state.step(clock.now(), input))
                    .collect()
            } else if finished {
                return Ok(());
            } else {
                let input = self.next_input(incoming, clock.until(state.next_wakeup()))?;
                state.step(clock.now(), input)
            };
        }
    }

    fn next_input(
        &mut self,
        incoming: &Receiver<Input<PoolId>>,
        patience: Duration,
    ) -> Result<Input<PoolId>, End> {
        if self.course.is_cancelled() {
            return Err(End::Cancelled);
        }
        let input = match incoming.recv_timeout(patience) {
            Ok(input) => input,
            Err(RecvTimeoutError::Timeout) => return Ok(Input::Tick),
            Err(RecvTimeoutError::Disconnected) => return Err(End::SessionOver),
        };
        match &input {
            Input::Progress {
                child,
                proportion,
                location,
            } => {
                self.report_progress(*child, proportion.as_f64().unwrap_or(0.0), location);
            }
            Input::Profile {
                child,
                outcome: GatherOutcome::Written { length, summary },
            } => {
                self.announced.push((*child, *length, summary.clone()));
            }
            _ => {}
        }
        Ok(input)
    }

    fn report_progress(&self, child: PoolId, proportion: f64, location: &str) {
        if let Some(member) = self.member(child) {
            let location = location.to_owned();
            let _ = self.course.events().try_send(CaptureEvent::Progress {
                pid: member.pid,
                proportion,
                location,
            });
        }
    }

    fn carry_out(&mut self, output: Output<PoolId>) -> io::Result<Option<Input<PoolId>>> {
        match output {
            Output::RequestProgress(key) => {
                self.order(CaptureRequest::Progress { id: self.id, key })
            }
            Output::Accept(key) => return self.accept(key),
            Output::GiveUp { child, why } => {
                self.order(CaptureRequest::Cancel {
                    id: self.id,
                    key: child,
                });
                self.recover(child, why)?;
            }
            Output::Finished => {}
        }
        Ok(None)
    }

    fn order(&self, order: CaptureRequest) {
        self.sources
            .supervisor
            .send(SupervisorEvent::Capture(order));
    }

    /// Takes the part that a child wrote. If it is not valid, returns an input for the state
    /// machine.
    fn accept(&mut self, key: PoolId) -> io::Result<Option<Input<PoolId>>> {
        let Some(member) = self.members.iter().find(|member| member.key == key) else {
            return Ok(None);
        };
        let announced = self.announced.iter().position(|(child, ..)| *child == key);
        let announced = announced.map(|at| self.announced.swap_remove(at));
        let (Some((_, length, summary)), Some(part_file)) = (announced, &member.part_file) else {
            return Ok(None);
        };
        // No part may take longer than the deadline of a whole capture, because all other children
        // wait meanwhile.
        let watch = Stopwatch::start(self.sources.time);
        let most = self.sources.patience.deadline;
        let taken = self.parts.take(part_file, length, || watch.now() < most);
        let _ = part_file.clear();
        match taken {
            Ok(()) => self.settle(member, &summary, Verdict::Complete),
            Err(PartError::Output(error)) => return Err(error),
            Err(PartError::Refused(message)) => {
                return Ok(Some(Input::Rejected {
                    child: key,
                    message,
                }));
            }
        }
        Ok(None)
    }

    /// Reads a process's memory, because it did not deliver its part.
    fn recover(&mut self, key: PoolId, why: Why) -> io::Result<()> {
        let Some(member) = self.member(key) else {
            return Ok(());
        };
        let verdict = if why.is_orderly() {
            Verdict::Complete
        } else {
            Verdict::Recovered { why: why.clone() }
        };
        self.log.note(format!(
            "reading the memory of {} ({}): {why}",
            member.name, member.pid
        ));
        self.read(member, why, verdict)
    }

    /// Reads the memory of an untrusted process, which gets no file to write its part to.
    fn read_unasked(&mut self, member: &ProcessForCapture) -> io::Result<()> {
        self.log.note(format!(
            "reading the memory of {} ({}): it is not trusted",
            member.name, member.pid
        ));
        self.read(member, Why::NeverConnected, Verdict::Complete)
    }

    /// Writes the part of a process from its memory. `why` is the reason that is reported if the
    /// memory cannot be read.
    fn read(&mut self, member: &ProcessForCapture, why: Why, verdict: Verdict) -> io::Result<()> {
        let died = self.sources.processes.death_of(member.key);
        match self
            .parts
            .recover(member, died, self.sources.time.clock(), self.spec)
        {
            Ok(Some(summary)) => self.settle(member, &summary, verdict),
            Ok(None) => {
                let why = member.why_missing(participants::why_untouched(why));
                let verdict = Verdict::Missing { why };
                self.push(
                    member.key,
                    member.settled(&ProcessSummary::default(), verdict),
                );
            }
            Err(PartError::Output(error)) => return Err(error),
            Err(PartError::Refused(message)) => {
                let verdict = Verdict::Missing {
                    why: Why::Unreadable { message },
                };
                self.settle(member, &ProcessSummary::default(), verdict);
            }
        }
        Ok(())
    }

    /// Reads the processes that were not asked: dead, not connected, or without a recording.
    fn recover_remaining(&mut self, asked: &[PoolId]) -> io::Result<()> {
        let rest = self
            .members
            .iter()
            .filter(|member| !member.is_parent && !asked.contains(&member.key));
        let rest: Vec<&ProcessForCapture> = rest.collect();
        participants::await_news(
            &self.sources.processes,
            rest.iter().map(|member| member.key),
        );
        for member in rest {
            if member.pool().is_some() {
                match self.sources.processes.why_unable(member.key) {
                    Some(why) => self.recover(member.key, why)?,
                    None if member.part_file.is_none() => self.read_unasked(member)?,
                    // Connected but not asked: it has not answered an earlier capture.
                    None => self.recover(member.key, Why::Frozen)?,
                }
            } else {
                let missing = member.missing();
                self.push(member.key, missing);
            }
        }
        for expired in participants::expired(&self.sources.processes) {
            self.push(PoolId::new(0), expired); // without a pool, so it comes last
        }
        Ok(())
    }

    fn settle(&mut self, member: &ProcessForCapture, summary: &ProcessSummary, verdict: Verdict) {
        self.shown += summary.shown;
        self.push(member.key, member.settled(summary, verdict));
    }

    fn push(&mut self, key: PoolId, process: CapturedProcess) {
        self.log.note(format!(
            "{} ({}): {}",
            process.name, process.pid, process.verdict
        ));
        let event = CaptureEvent::Settled {
            pid: process.pid,
            verdict: process.verdict.clone(),
        };
        let _ = self.course.events().try_send(event);
        self.settled.push((key, process));
    }

    fn member(&self, key: PoolId) -> Option<&'a ProcessForCapture> {
        self.members.iter().find(|member| member.key == key)
    }
}

/// Sorts the outcomes into the order of `members`; outcomes without a member come last.
fn in_order(
    members: &[ProcessForCapture],
    mut settled: Vec<(PoolId, CapturedProcess)>,
) -> Vec<(PoolId, CapturedProcess)> {
    let places: HashMap<PoolId, usize> = members.iter().map(|member| member.key).zip(0..).collect();
    settled.sort_by_key(|(key, _)| places.get(key).copied().unwrap_or(usize::MAX));
    settled
}

/// Writes the parent's own part, the log, and the end of the file.
#[allow(clippy::too_many_arguments)] // one call, and each part of the end has its own owner
fn finish(
    sources: &CaptureSources,
    spec: &ProfileSpec,
    parent: &ProcessForCapture,
    own: OwnPart,
    log: GatheringLog,
    mut children: Vec<(PoolId, CapturedProcess)>,
    subject: Option<&ProfileSubject>,
    mut shown: ShownRange,
    out: &mut impl Write,
    failed: &impl Fn(io::Error) -> CaptureError,
) -> Result<Vec<CapturedProcess>, CaptureError> {
    for (key, child) in &mut children {
        child.lived.ended = sources.processes.death_of(*key);
        child.time = sources.processes.time_of(*key);
    }
    let unrecorded = parent.settled(&ProcessSummary::default(), parent.own_verdict());
    let all = std::iter::once(&unrecorded).chain(children.iter().map(|(_, child)| child));
    let incomplete = all
        .filter(|process| process.verdict != Verdict::Complete)
        .map(|process| lifetime::incomplete(process, spec.later.ticks));
    let mut written = own
        .finish(incomplete.collect())
        .map_err(CaptureError::OwnPart)?;
    written.append_to(out).map_err(failed)?;
    shown += written.summary.shown;
    let own = parent.settled(&written.summary, parent.own_verdict());
    let processes: Vec<_> = std::iter::once(own)
        .chain(children.into_iter().map(|(_, child)| child))
        .collect();
    out.write_all(b",").map_err(failed)?;
    let mut json = JsonWriter::new(&mut *out);
    log.write(parent.pid, &processes, &mut json);
    json.finish().map_err(failed)?;
    written
        .close(
            sources.time.clock(),
            spec,
            subject,
            &log.sections(),
            shown,
            out,
        )
        .map_err(failed)?;
    Ok(processes)
}

/// Measures how long the capture has waited, in milliseconds of session time.
struct Stopwatch {
    time: SessionTime,
    start: SessionNs,
    held: Option<SessionNs>,
}

impl Stopwatch {
    fn start(time: SessionTime) -> Self {
        Self {
            time,
            start: time.now(),
            held: None,
        }
    }

    /// Stops until [`Self::go_on`].
    fn hold(&mut self) {
        self.held = Some(self.time.now());
    }

    fn go_on(&mut self) {
        let held = self
            .held
            .take()
            .map_or(0, |since| self.time.now().0.saturating_sub(since.0));
        self.start = SessionNs(self.start.0.saturating_add(held));
    }

    fn now(&self) -> Millis {
        let ns = self
            .held
            .unwrap_or_else(|| self.time.now())
            .0
            .saturating_sub(self.start.0);
        Millis::new(u64::try_from(ns / 1_000_000).unwrap_or(0))
    }

    fn until(&self, at: Option<Millis>) -> Duration {
        let wait = at.map_or(0, |at| at.get().saturating_sub(self.now().get()));
        Duration::from_millis(wait.saturating_add(1))
    }
}
