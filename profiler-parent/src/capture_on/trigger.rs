//! The triggers that an application chooses, and the start of their watches.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use profiler_core::ids::ByteLimit;

use super::CaptureOnError;
use super::flag::CaptureFlag;
use super::memory::{MemoryLine, MemoryWatch};
use super::watch::Watch;
use super::worker::SharedState;
use crate::alerts::{Alert, AlertRules, AlertTarget, Alerts, AlertsError};
use crate::gather::verdict::Why;
use crate::process_table::ProcessTable;
use crate::sys::chosen_signal::{ChosenSignal, Unusable};

/// The most collections of alerts that wait for the worker.
const QUEUE: usize = 16;

/// The deaths of processes that are signs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Deaths {
    /// Crashes: a signal about an error of the process itself (`SIGSEGV`, `SIGABRT`), or a panic
    /// that `profiler-panic` has noted.
    #[default]
    Crashes,
    /// Crashes, other signals such as `SIGKILL`, and exit codes other than 0.
    Failures,
    /// All.
    All,
}

impl Deaths {
    /// Whether a process that has ended like this is a sign.
    pub(super) const fn include(self, why: &Why) -> bool {
        match (self, why) {
            (Self::All, _) => true,
            (_, Why::Crashed { .. } | Why::CrashRecorded { .. } | Why::Panicked { .. }) => true,
            (Self::Failures, Why::Stopped { .. }) => true,
            (Self::Failures, Why::Exited { status }) => *status != 0,
            _ => false,
        }
    }
}

/// The signs of one kind.
#[derive(Clone, Debug)]
enum Kind {
    Flag(&'static CaptureFlag),
    Signal(i32),
    File(PathBuf),
    Alert(AlertRules),
    Deadlock,
    Death(Deaths),
    Memory(MemoryLine),
}

/// The signs on which a session captures a profile.
#[derive(Clone, Debug)]
#[must_use = "a trigger does nothing until it is given to Session::capture_on"]
pub struct CaptureTrigger(Vec<Kind>);

impl CaptureTrigger {
    /// The flag is raised, by any code of the application: also by its own handler of a signal or
    /// its own listener of alerts.
    pub fn flag(flag: &'static CaptureFlag) -> Self {
        Self(vec![Kind::Flag(flag)])
    }

    /// The signal arrives. Installs a handler that only counts, for a signal that has no handler
    /// and is not ignored: a handler of the program is never replaced. The handler stays when the
    /// captures end, and then has no effect. A program with a handler of its own raises a
    /// [`CaptureFlag`] in it.
    ///
    /// In a forked child, the signal has its default effect. Waits of the program (`poll`, `sleep`)
    /// that the signal interrupts end early, as for any signal with a handler. Requests to end or
    /// to stop (`SIGTERM`, `SIGINT`), `SIGCHLD`, and signals about errors (`SIGSEGV`) are refused.
    pub fn signal(number: i32) -> Self {
        Self(vec![Kind::Signal(number)])
    }

    /// The file appears, or is changed (`touch`). It is not removed. A file that exists at the
    /// beginning is no sign.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self(vec![Kind::File(path.into())])
    }

    /// A group of any process is slower than these rules allow. The profile has a marker for each
    /// slow run. It is written when the rules have collected alerts for their buffering time, one
    /// second by default. While the captures exist, all groups are read five times a second.
    pub fn alert(rules: AlertRules) -> Self {
        Self(vec![Kind::Alert(rules)])
    }

    /// A run of a group takes this long, or longer: an iteration of an event loop, or the work of a
    /// plugin or a tenant. As [`Self::alert`] with this threshold and otherwise the default rules.
    pub fn jank(threshold: Duration) -> Self {
        Self::alert(AlertRules::default().threshold(threshold))
    }

    /// Threads of the session's processes wait for each other, and none of them can go on.
    pub fn deadlock() -> Self {
        Self(vec![Kind::Deadlock])
    }

    /// A process of the session crashes. As [`Self::death`] with [`Deaths::Crashes`].
    pub fn crash() -> Self {
        Self::death(Deaths::Crashes)
    }

    /// A process of the session ends in this way. The profile has its last data. The end of a
    /// process that has joined by itself may have an unknown status, which only [`Deaths::All`]
    /// includes.
    pub fn death(deaths: Deaths) -> Self {
        Self(vec![Kind::Death(deaths)])
    }

    /// The resident memory of a process, this one included, rises above this line. It is a sign
    /// again after it has fallen below the line. Read once a second, and less often if that takes
    /// more than 0.3 % of a processor. Linux only.
    pub fn memory_of_a_process(line: impl Into<ByteLimit>) -> Self {
        let line = line.into();
        Self(vec![Kind::Memory(MemoryLine::OfProcess(line))])
    }

    /// The sum of the resident memory of all processes, this one included, rises above this line.
    /// Memory that processes share counts once for each of them. Otherwise as
    /// [`Self::memory_of_a_process`].
    pub fn memory_of_all(line: impl Into<ByteLimit>) -> Self {
        let line = line.into();
        Self(vec![Kind::Memory(MemoryLine::OfAll(line))])
    }

    /// Also captures on the signs of another trigger. If both have a sign at the same time, one
    /// profile is written, for the sign of the first.
    pub fn or(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Begins to watch for the signs.
    pub(super) fn start(self, context: &WatchContext<'_>) -> Result<Watches, CaptureOnError> {
        let (sender, receiver) = bounded(QUEUE);
        let mut watches = Watches {
            looked_at: Vec::new(),
            alerts: receiver,
            running: Vec::new(),
            _connected: sender.clone(),
        };
        for kind in self.0 {
            watches.add(kind, &sender, context)?;
        }
        Ok(watches)
    }
}

fn install(signal: i32) -> Result<ChosenSignal, CaptureOnError> {
    ChosenSignal::install(signal).map_err(|why| match why {
        Unusable::Reserved => CaptureOnError::SignalReserved { signal },
        Unusable::Taken => CaptureOnError::SignalTaken { signal },
        Unusable::System(source) => CaptureOnError::Signal { signal, source },
    })
}

/// Passes the worst alert of each collection to the worker, and does not wait for it.
fn listen(alerts: &Alerts, sender: Sender<Box<Alert>>, state: Arc<SharedState>) {
    let pass_on = move |alerts: &[Alert]| {
        let Some(worst) = alerts.first() else { return };
        if let Err(TrySendError::Full(_)) = sender.try_send(Box::new(worst.clone())) {
            state.skip(1);
        }
    };
    // The first listener of these alerts, so there is no duplicate.
    let _ = alerts.add(AlertTarget::All, "capture", pass_on);
}

/// What the start of a watch needs.
pub(super) struct WatchContext<'a> {
    pub(super) processes: &'a ProcessTable,
    pub(super) state: &'a Arc<SharedState>,
    pub(super) start_alerts: &'a dyn Fn(AlertRules) -> Result<Alerts, AlertsError>,
}

/// The watches of a trigger.
#[derive(Debug)]
pub(super) struct Watches {
    /// Those that the worker looks at.
    pub(super) looked_at: Vec<Watch>,
    /// The worst alerts of collections.
    pub(super) alerts: Receiver<Box<Alert>>,
    running: Vec<Alerts>,
    /// Keeps `alerts` connected.
    _connected: Sender<Box<Alert>>,
}

impl Watches {
    /// Begins to watch for signs of one kind.
    fn add(
        &mut self,
        kind: Kind,
        sender: &Sender<Box<Alert>>,
        context: &WatchContext<'_>,
    ) -> Result<(), CaptureOnError> {
        let watch = match kind {
            Kind::Alert(rules) => {
                let alerts = (context.start_alerts)(rules)?;
                listen(&alerts, sender.clone(), Arc::clone(context.state));
                self.running.push(alerts);
                return Ok(());
            }
            Kind::Flag(flag) => Watch::of_flag(flag),
            Kind::Signal(number) => Watch::of_signal(install(number)?),
            Kind::File(path) => Watch::of_file(path),
            Kind::Deadlock => Watch::of_deadlocks(context.processes),
            Kind::Death(deaths) => Watch::of_deaths(deaths, context.processes),
            Kind::Memory(line) => Watch::Memory(MemoryWatch::of(line)?),
        };
        self.looked_at.push(watch);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_filter_of_deaths_includes_the_ones_before_it() {
        let status = || "signal".to_owned();
        let crash = Why::Crashed { status: status() };
        let kill = Why::Stopped { status: status() };
        let [error, success] = [7, 0].map(|status| Why::Exited { status });
        let all = [&crash, &kill, &error, &success, &Why::Gone];
        let included = |deaths: Deaths| all.map(|why| deaths.include(why));
        let crashes = [true, false, false, false, false];
        assert_eq!(included(Deaths::default()), crashes);
        let failures = [true, true, true, false, false];
        assert_eq!(included(Deaths::Failures), failures);
        assert_eq!(included(Deaths::All), [true; 5]);
    }
}
