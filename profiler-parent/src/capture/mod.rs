//! A capture: writes the data of all processes into one file.
//!
//! Created by the session. [`Capture::save`] does the work on another thread and waits for it,
//! because the caller's stack may be small; [`Capture::save_async`] is awaited instead (`saving`).
//! In the processed format, the default, this process reads all pools itself
//! ([`crate::processed`]). In the Gecko format all children are asked first; this process's own
//! part is written concurrently (by a separate thread, into an unlinked file); children's parts are
//! taken in the order of their answers; the memory of children that do not answer is read instead.
//! Invariants: no part is ever whole in memory; a part is copied into the file only after it was
//! found well-formed; the file appears under its name only when it is complete.
//!
//! ```text
//! {"processes":[ part, part, … ],        in the order of the answers
//!  "libs":…,"threads":…, …               the parent's own part, its main thread last
//!  "profileGatheringLog":{…},
//!  "meta":{…}}
//! ```

mod course;
mod gathering;
pub(crate) mod lifetime;
pub(crate) mod log;
pub(crate) mod names;
pub(crate) mod own_part;
mod participants;
pub(crate) mod parts;
pub(crate) mod processed_capture;
pub(crate) mod recover;
mod saving;
pub(crate) mod series;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use profiler_core::ids::{PoolId, ProcessId};
use profiler_core::session::EntryCounts;
use profiler_gecko::model::SlowRunMarker;

use crate::gather::state::Patience;
use crate::gather::verdict::Verdict;
use crate::process_table::{ObservedTime, ProcessTable};
use crate::processed::TickDetail;
#[doc(inline)]
pub use crate::processed::names::{CodeNames, InlineFrame, NoSymbols, Symbols};
use crate::push_sums::PushSums;
use crate::session_time::{SessionNs, SessionTime};
use crate::supervisor::SupervisorHandle;
use course::Course;
use lifetime::Lifetime;
use names::SessionSymbols;
use profiler_files::output::{GzipLevel, OutputError, ProfileFile};
use profiler_symbols::SymbolStore;
use profiler_symbols::stack::{SymbolStackError, on_symbol_stack};
pub use saving::SavingCapture;
use series::CaptureSeries;

/// The address space that a capture may need, without the debug information of modules.
const MEMORY: usize = 96 << 20;

thread_local! {
    /// The thread writes a profile, and calls the symbols of the capture.
    static IS_CAPTURING: Cell<bool> = const { Cell::new(false) };
}

/// The largest number of events that wait for the receiver; further events are dropped.
const EVENTS: usize = 1024;

/// An event in the course of a capture or a recovery.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CaptureEvent {
    /// The number of children that were asked for their parts. Only in the Gecko format.
    Asked(usize),
    /// Progress with the data of a process. In the Gecko format, a child reports it when it is
    /// asked, usually several times. In the processed format and in a recovery, this process begins
    /// to read the memory of the process: one event for each process, this one included.
    Progress {
        /// The process.
        pid: ProcessId,
        /// From 0 to 1: in the Gecko format, the part of the process's own work that is done;
        /// otherwise, the part of all processes that are done.
        proportion: f64,
        /// What is being done.
        location: String,
    },
    /// The outcome of a process is final: its part is in the file, or is missing.
    Settled {
        /// The process.
        pid: ProcessId,
        /// The outcome.
        verdict: Verdict,
    },
    /// Names are looked up in a module. The first look-up reads the module's debug information.
    Naming {
        /// The module's file.
        module: String,
        /// The number of addresses.
        addresses: usize,
        /// The number of modules that are done.
        modules_done: usize,
        /// The number of all modules.
        modules: usize,
    },
    /// The data of a process is written to the file. Only in the processed format, after all
    /// processes have been read.
    Writing {
        /// The process.
        pid: ProcessId,
        /// The number of processes that are done.
        processes_done: usize,
        /// The number of all processes.
        processes: usize,
    },
}

/// The events of a capture or a recovery, as an iterator that waits for the next event. It ends
/// when the capture or the recovery ends.
///
/// At most 1024 events wait; further events are dropped. Each event reaches only one of several
/// clones.
#[derive(Clone, Debug)]
pub struct CaptureEvents(Receiver<CaptureEvent>);

/// The two ends of the events of a capture or a recovery.
pub(crate) fn events() -> (Sender<CaptureEvent>, CaptureEvents) {
    let (sender, receiver) = bounded(EVENTS);
    (sender, CaptureEvents(receiver))
}

impl CaptureEvents {
    /// The next event, if one is available. Does not wait.
    pub fn try_next(&self) -> Option<CaptureEvent> {
        self.0.try_recv().ok()
    }

    /// Waits at most `timeout` for the next event. `None` if none arrives, or if the capture has
    /// ended.
    pub fn next_within(&self, timeout: Duration) -> Option<CaptureEvent> {
        self.0.recv_timeout(timeout).ok()
    }
}

impl Iterator for CaptureEvents {
    type Item = CaptureEvent;

    fn next(&mut self) -> Option<CaptureEvent> {
        self.0.recv().ok()
    }
}

/// Why a capture failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The file cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The file could not be written completely.
    #[error("cannot write {path:?}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The system cannot start the thread that writes the profile. The calling thread cannot write
    /// it, because its stack may be too small.
    #[error("cannot start a thread to write the profile: {0}")]
    NoThread(#[source] std::io::Error),
    /// This process may not map as much memory as a capture may need. A capture that has begun and
    /// then gets no memory would end the process.
    #[error(
        "a capture may need {bytes} bytes of memory, which this process may not have: {source}"
    )]
    NoMemory {
        /// The bytes.
        bytes: u64,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The capture was begun by the [`Symbols`] of another one, which would wait for it.
    #[error("a capture cannot be saved by the symbols of another capture")]
    WithinCapture,
    /// Code of the application has panicked: the [`Symbols`] of a capture, or the
    /// [configuration](crate::CapturePolicy::configure) of a capture on a sign.
    #[error("code of the application has panicked during the capture")]
    Panicked,
    /// The future of [`Capture::save_async`] was dropped.
    #[error("the capture was cancelled")]
    Cancelled,
    /// This process's own part could not be written.
    #[error("cannot write this process's own part: {0}")]
    OwnPart(String),
    /// The session has ended.
    #[error("the session is over")]
    SessionOver,
}

/// The outcome of a capture for one process.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CapturedProcess {
    /// Shown name.
    pub name: String,
    /// System number.
    pub pid: ProcessId,
    /// The system number of the process that started it, if it is known.
    pub parent: Option<ProcessId>,
    /// Threads in the profile.
    pub threads: u32,
    /// The counts of its entries, by outcome.
    pub counts: EntryCounts,
    /// How its data came into the profile.
    pub verdict: Verdict,
    /// How long its part took to write, by the clock of the process that wrote it.
    pub writing: Duration,
    /// When it has lived, as far as that is known.
    pub(crate) lived: Lifetime,
    /// Its processor time, if it is observed.
    pub(crate) time: Option<ObservedTime>,
    /// Its entries in earlier profiles, if the profile continues a series.
    pub series: Option<series::ProcessInSeries>,
}

/// A saved profile.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CaptureReport {
    /// The path of the file.
    pub path: PathBuf,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// All processes of the session, the parent first. Of the processes that ended and left no
    /// data, the latest 1000 are listed. Of the processes that were too short to be recorded, the
    /// latest 1000 are listed, too. The last rows, such as `N earlier processes`, have the sums of
    /// the others.
    pub processes: Vec<CapturedProcess>,
    /// Descriptions of data that found no room in the profile, or is unnamed because of its amount.
    /// The profile's log contains the same texts. The profile has room for about 150,000 different
    /// texts of 80 bytes (names of code, labels, texts in markers), 131,070 different frames,
    /// 786,432 different pairs of frame and caller, and 8192 threads. Stacks and threads of
    /// ordinary recordings are within these bounds; texts exceed them if most markers have unique
    /// texts.
    pub left_out: Vec<String>,
    /// The number of observed programs that are not in the profile because the session has not read
    /// their files in time. The profile's log contains this number, too.
    pub unread_programs: u64,
}

/// The file format of a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// The format that viewers use internally: opens fast, and contains names, files and lines. The
    /// parent reads the memory of all processes; no child is asked.
    #[default]
    Processed,
    /// One object per process, as Firefox writes it. Every child writes its own object. The file
    /// contains addresses without names; the viewer looks up the names.
    Gecko,
}

/// A range of the session's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeRange {
    pub(crate) from: SessionNs,
    pub(crate) to: SessionNs,
}

/// The inputs that all captures of a session share.
#[derive(Debug)]
pub(crate) struct CaptureSources {
    pub(crate) processes: Arc<ProcessTable>,
    pub(crate) supervisor: SupervisorHandle,
    pub(crate) time: SessionTime,
    /// The length of the kept history, in nanoseconds; 0 for all of it.
    pub(crate) window_ns: u64,
    pub(crate) patience: Patience,
    /// Names of code, kept from capture to capture.
    pub(crate) symbols: SymbolStore,
    /// What pushers have sent and lost, for the profile's log.
    pub(crate) pushes: Arc<PushSums>,
    /// Held by the running capture; other captures wait for it.
    pub(crate) turn: Mutex<()>,
    /// Disconnected when the session ends.
    pub(crate) session_end: Receiver<()>,
}

impl CaptureSources {
    /// Returns an error if the session has ended, because its pools are then removed.
    fn check_session(&self) -> Result<(), CaptureError> {
        match self.session_end.try_recv() {
            Err(TryRecvError::Disconnected) => Err(CaptureError::SessionOver),
            _ => Ok(()),
        }
    }
}

/// A capture that has not begun.
#[must_use = "a capture does nothing until it is saved"]
pub struct Capture {
    sources: Arc<CaptureSources>,
    course: Course,
    events: CaptureEvents,
    format: Format,
    selection: Selection,
    symbols: Box<dyn Symbols + Send>,
    series: Option<Arc<Mutex<CaptureSeries>>>,
}

/// What a profile shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    range: Option<TimeRange>,
    slow_runs: SlowRuns,
    focus: Focus,
    detail: TickDetail,
}

/// Which processes a profile is about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Focus {
    /// It is about the children, not about this process.
    is_on_children: bool,
    /// The command line that the profile shows.
    arguments: Option<String>,
}

/// The slow runs that a profile shows as markers: those of one process.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlowRuns {
    of: Option<PoolId>,
    markers: Vec<SlowRunMarker>,
}

impl SlowRuns {
    /// The markers of this process.
    fn of(&self, process: PoolId) -> &[SlowRunMarker] {
        match self.of {
            Some(of) if of == process => &self.markers,
            _ => &[],
        }
    }
}

impl std::fmt::Debug for Capture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Capture")
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

impl Capture {
    pub(crate) fn new(sources: Arc<CaptureSources>) -> Self {
        let (sender, events) = events();
        let symbols = Box::new(SessionSymbols::new(sources.symbols.clone(), sender.clone()));
        Self {
            sources,
            course: Course::new(sender),
            events,
            format: Format::default(),
            selection: Selection::default(),
            symbols,
            series: None,
        }
    }

    /// Returns the events of this capture, to watch on another thread.
    pub fn events(&self) -> CaptureEvents {
        self.events.clone()
    }

    /// Sets the file format.
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Limits the profile to data that overlaps the time from `from` to `to`. In the Gecko format,
    /// data after `to` is included.
    ///
    /// ```no_run
    /// # use profiler_parent::Session;
    /// # fn example(session: &Session) -> Result<(), Box<dyn std::error::Error>> {
    /// let from = session.now();
    /// // … what is to be seen
    /// session.capture().range(from, session.now()).save("load.json.gz")?;
    /// # Ok(())
    /// # }
    /// ```
    pub const fn range(mut self, from: SessionNs, to: SessionNs) -> Self {
        self.selection.range = Some(TimeRange { from, to });
        self
    }

    /// Limits the profile to data of the last `time` before this call.
    pub fn last(self, time: Duration) -> Self {
        let to = self.sources.time.now();
        let length = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        self.range(SessionNs(to.0.saturating_sub(length)), to)
    }

    /// Leaves this process out of the profile, and shows the first child that recorded as the main
    /// one, whose name is the profile's title: for programs that only start another one. If no
    /// child recorded, this process is in the profile.
    pub const fn only_children(mut self) -> Self {
        self.selection.focus.is_on_children = true;
        self
    }

    /// Shows these arguments as the command line of the main child, with
    /// [`Self::only_children`]. Arguments may contain secrets, so a profile has none by default.
    pub fn arguments(mut self, arguments: impl Into<String>) -> Self {
        self.selection.focus.arguments = Some(arguments.into());
        self
    }

    /// Adds a marker for each of these runs of groups to a profile in the processed format, in the
    /// threads of `process`. The first one's thread is selected in the viewer.
    pub(crate) fn slow_runs(mut self, process: PoolId, markers: Vec<SlowRunMarker>) -> Self {
        self.selection.slow_runs = SlowRuns {
            of: Some(process),
            markers,
        };
        self
    }

    /// Makes a batch of a pusher: leaves out what the profiles of this series contain, and adds
    /// this profile to the series when its file is complete. A sender reads a batch once, so the
    /// batch contains less of each tick and is compressed fast. Only for the processed format.
    #[doc(hidden)]
    pub fn in_series(mut self, series: &Arc<Mutex<CaptureSeries>>) -> Self {
        self.series = Some(Arc::clone(series));
        self.selection.detail = TickDetail::EachSecond;
        self
    }

    /// Takes the names of code from `symbols` instead of the debug information of the code's files.
    /// With [`NoSymbols`], code is shown as module and address. The Gecko format contains no names.
    pub fn symbols(mut self, symbols: impl Symbols + Send + 'static) -> Self {
        self.symbols = Box::new(symbols);
        self
    }

    /// Writes the data of all processes to `path`: compressed if the name ends in `.gz`, and
    /// readable only for its owner. The file appears when it is complete. Takes at most about as
    /// long as the overall deadline.
    ///
    /// # Errors
    /// [`CaptureError`]; a previous file under that name is unchanged.
    ///
    /// # Panics
    /// If the [`Symbols`] that were given to [`Self::symbols`] panic.
    pub fn save(self, path: impl AsRef<Path>) -> Result<CaptureReport, CaptureError> {
        if is_capturing() {
            return Err(CaptureError::WithinCapture);
        }
        check_memory()?;
        let path = path.as_ref();
        match on_symbol_stack(|| self.save_here(path)) {
            Ok(saved) => saved,
            Err(SymbolStackError::NoThread(error)) => Err(CaptureError::NoThread(error)),
            Err(SymbolStackError::Panicked(panic)) => std::panic::resume_unwind(panic),
        }
    }

    /// Does what [`Self::save`] does, for asynchronous code on any executor: a thread of the
    /// profiler does the work, and wakes the task when it is done. The first poll starts it; no
    /// poll waits for it.
    ///
    /// If the future is dropped before that, the capture ends early and leaves no file, unless the
    /// file was complete already.
    ///
    /// ```no_run
    /// # async fn capture() -> Result<(), Box<dyn std::error::Error>> {
    /// let session = profiler_parent::Session::builder().start()?;
    /// let report = session.capture().save_async("profile.json.gz").await?;
    /// println!("{} bytes", report.bytes);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Self::save`].
    ///
    /// # Panics
    /// A poll panics if the [`Symbols`] that were given to [`Self::symbols`] have panicked.
    pub fn save_async(self, path: impl AsRef<Path>) -> SavingCapture {
        SavingCapture::new(self, path.as_ref().to_owned())
    }

    /// Writes the profile on the current thread. Needs more stack than a thread of the host may
    /// have.
    fn save_here(self, path: &Path) -> Result<CaptureReport, CaptureError> {
        let cancelled = self.course.cancel_flag();
        self.write(path).map_err(|error| match error {
            // The output of a capture that is cancelled fails.
            CaptureError::Write { .. } if cancelled.is_cancelled() => CaptureError::Cancelled,
            other => other,
        })
    }

    fn write(mut self, path: &Path) -> Result<CaptureReport, CaptureError> {
        let _capturing = Capturing::begin();
        let turn = self
            .sources
            .turn
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.sources.check_session()?;
        self.course.check()?;
        let level = match self.series {
            Some(_) => GzipLevel::Fast,
            None => GzipLevel::Small,
        };
        let mut file = ProfileFile::create_with(path, level)?;
        let mut out = self.course.output(&mut file);
        let continued = self.series.as_ref();
        let mut series = continued.map_or_else(CaptureSeries::default, |series| {
            lock_series(series).clone().continued()
        });
        let (processes, mut left_out) = match self.format {
            Format::Processed => processed_capture::run(
                &self.sources,
                &self.selection,
                &mut series,
                &self.course,
                &mut self.course.symbols(&mut *self.symbols),
                &mut out,
                path,
            )?,
            Format::Gecko => {
                let Self {
                    sources,
                    selection,
                    course,
                    ..
                } = &self;
                let processes = gathering::run(sources, selection, course, &mut out, path)?;
                (processes, Vec::new())
            }
        };
        if self.sources.processes.had_full_directory() {
            left_out.push(log::FULL_DIRECTORY.to_owned());
        }
        // If the session has ended meanwhile, its pools may have been removed before they were
        // read.
        self.sources.check_session()?;
        self.course.check()?;
        let bytes = file.commit()?;
        if let Some(continued) = continued {
            *lock_series(continued) = series;
        }
        drop(turn);
        Ok(CaptureReport {
            path: path.to_owned(),
            bytes,
            processes,
            left_out,
            unread_programs: self.sources.processes.missed_arrivals(),
        })
    }
}

/// Whether the calling thread writes a profile: another capture would wait for this one.
fn is_capturing() -> bool {
    IS_CAPTURING.get()
}

/// Marks the calling thread as one that captures.
struct Capturing;

impl Capturing {
    fn begin() -> Self {
        IS_CAPTURING.set(true);
        Self
    }
}

impl Drop for Capturing {
    fn drop(&mut self) {
        IS_CAPTURING.set(false);
    }
}

/// Whether this process may map the memory that a capture may need.
fn check_memory() -> Result<(), CaptureError> {
    profiler_sys::check_address_space(MEMORY).map_err(|source| CaptureError::NoMemory {
        bytes: MEMORY as u64,
        source,
    })
}

fn lock_series(series: &Mutex<CaptureSeries>) -> MutexGuard<'_, CaptureSeries> {
    series.lock().unwrap_or_else(PoisonError::into_inner)
}
