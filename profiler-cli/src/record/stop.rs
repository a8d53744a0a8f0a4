//! What signals to this command do during a recording.
//!
//! Started by `record`. While the program runs, the signals are the program's: those that only this
//! command has got are passed on, and those that the whole process group has got have reached the
//! program already ([`GroupWitness`]). The third Ctrl-C within some seconds kills the program.
//! After the program has ended, a request to end ends the sending to engines, unless it may have
//! been meant for the program. A signal that asks for a profile (`--capture-on-signal`) is not
//! passed on. While the profile is written, the second request ends the command.
//!
//! A sender may send a signal to a process and then to its group (`timeout`), or to one process
//! after the other (a service manager). So the signals of a short time are examined together.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use profiler_parent::{CaptureFlag, ChildSignals};
use profiler_push::PushCanceller;
use profiler_sys::spawn_quiet;

use super::witness::{GroupWitness, is_in_group};
use crate::at_start;
use crate::console::tell;
use crate::signals::{Caught, Signals};

/// The time in which signals belong together.
const TOGETHER: Duration = Duration::from_millis(200);
/// The longest time for which signals are collected.
const LONGEST: Duration = Duration::from_secs(1);
/// The number of interrupts after which the program is killed, and the time between the first and
/// the last of them.
const PATIENCE: usize = 3;
const PATIENCE_TIME: Duration = Duration::from_secs(5);
const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGQUIT: i32 = 3;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;
/// The time after the end of the program in which a signal may have been meant for the program.
const LATE: Duration = Duration::from_secs(1);

/// What the command does.
#[derive(Clone, Debug)]
enum RecordPhase {
    /// The program runs.
    Running,
    /// The program has ended at this instant, and the command waits for the processes that it has
    /// left.
    Waiting(Instant),
    /// The program has ended, and the command sends its last batches since this instant.
    Sending(PushCanceller, Instant),
    /// The program has ended, and the command writes its profile.
    Saving,
}

/// The phase of the command, which decides what a signal means.
#[derive(Clone, Debug)]
struct SharedPhase(Arc<Mutex<RecordPhase>>);

impl SharedPhase {
    fn get(&self) -> RecordPhase {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set(&self, phase: RecordPhase) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = phase;
    }
}

/// Handles the signals of a recording.
#[derive(Debug)]
pub(super) struct Stopping {
    phase: SharedPhase,
}

impl Stopping {
    /// Handles signals from now on, on a thread that ends with the command. `program` is the
    /// process number of the program. `asked` is the signal that asks for a profile, which is not
    /// passed on, and the flag that it raises.
    pub(super) fn watch(
        signals: Signals,
        witness: Option<GroupWitness>,
        child: ChildSignals,
        program: u32,
        asked: Option<(i32, &'static CaptureFlag)>,
    ) -> io::Result<Self> {
        let phase = SharedPhase(Arc::new(Mutex::new(RecordPhase::Running)));
        let mut handler = Handler {
            signals,
            witness,
            early: BTreeMap::new(),
            child,
            program,
            asked,
            phase: phase.clone(),
            interrupts: Vec::new(),
            latest_request: None,
            has_cancelled: false,
            is_told: false,
        };
        spawn_quiet("profiler-stop", move || while handler.handle().is_ok() {})?;
        Ok(Self { phase })
    }

    /// Notes that the program has ended, and that the command waits for processes that it has left.
    pub(super) fn is_waiting(&self) {
        self.phase.set(RecordPhase::Waiting(now()));
    }

    /// Whether the command still waits for these processes: no signal has ended that.
    pub(super) fn still_waits(&self) -> bool {
        matches!(self.phase.get(), RecordPhase::Waiting(_))
    }

    /// Notes that the program has ended and that the command sends its last batches.
    pub(super) fn is_sending(&self, canceller: PushCanceller) {
        self.phase.set(RecordPhase::Sending(canceller, now()));
    }

    /// Notes that the program has ended and that only its profile is left to be written.
    pub(super) fn is_saving(&self) {
        self.phase.set(RecordPhase::Saving);
    }
}

/// The thread that handles signals.
struct Handler {
    signals: Signals,
    witness: Option<GroupWitness>,
    /// The signals that the group has got, and this command not yet.
    early: BTreeMap<i32, Instant>,
    child: ChildSignals,
    program: u32,
    /// The signal that asks for a profile, and the flag that it raises.
    asked: Option<(i32, &'static CaptureFlag)>,
    phase: SharedPhase,
    /// The times of the latest interrupts.
    interrupts: Vec<Instant>,
    /// The latest request after the end of the program.
    latest_request: Option<(i32, Instant)>,
    has_cancelled: bool,
    is_told: bool,
}

/// The signals that belong together.
struct Burst {
    caught: Vec<Caught>,
    /// Those that the group has got. `None` if that is not known.
    group: Option<Vec<i32>>,
}

impl Handler {
    /// Waits for signals, and handles those that belong together.
    fn handle(&mut self) -> io::Result<()> {
        let first = self.signals.next()?;
        self.note(&first);
        if matches!(self.phase.get(), RecordPhase::Running) {
            let burst = self.collect(first)?;
            self.pass_on(&burst);
        } else {
            self.take_request(first.signal);
        }
        Ok(())
    }

    /// Asks for a profile, if that is what the signal means.
    fn note(&self, caught: &Caught) {
        if let Some((_, flag)) = self.asked.filter(|(signal, _)| *signal == caught.signal) {
            flag.raise();
        }
    }

    /// Handles a signal after the end of the program. The same signal twice within a short time is
    /// one request.
    fn take_request(&mut self, signal: i32) {
        let ends = matches!(signal, SIGINT | SIGTERM | SIGHUP | SIGQUIT);
        let is_same =
            |(known, since): (i32, Instant)| known == signal && since.elapsed() < TOGETHER;
        if !ends || at_start::ignored(signal) || self.latest_request.is_some_and(is_same) {
            return;
        }
        self.latest_request = Some((signal, now()));
        self.after_the_program(signal);
    }

    fn collect(&mut self, first: Caught) -> io::Result<Burst> {
        let mut caught = vec![first];
        let began = now();
        while let Some(next) = self.signals.next_within(TOGETHER)? {
            self.note(&next);
            caught.push(next);
            if began.elapsed() > LONGEST {
                break;
            }
        }
        // Asked after the last signal: the group has got each of them by now, if it gets it.
        let answer = self.witness.as_mut().and_then(GroupWitness::ask);
        if answer.is_none() {
            self.witness = None; // a late answer would be taken for that of the next question
        }
        let group = answer.map(|counts| {
            let sent = counts.iter().enumerate().filter(|(_, count)| **count > 0);
            let sent = sent.filter_map(|(signal, _)| i32::try_from(signal).ok());
            self.with_early(sent.collect(), &caught)
        });
        Ok(Burst { caught, group })
    }

    /// Adds the signals that the group got before this command did, and keeps those that this
    /// command has not got yet.
    fn with_early(&mut self, sent: Vec<i32>, caught: &[Caught]) -> Vec<i32> {
        let time = now();
        self.early.retain(|_, since| since.elapsed() < LONGEST);
        let is_caught = |signal: i32| caught.iter().any(|caught| caught.signal == signal);
        let mut group: Vec<i32> = Vec::new();
        for signal in sent {
            match is_caught(signal) {
                true => group.push(signal),
                false => drop(self.early.insert(signal, time)),
            }
        }
        let early: Vec<i32> = self.early.keys().copied().collect();
        for signal in early.into_iter().filter(|signal| is_caught(*signal)) {
            self.early.remove(&signal);
            group.push(signal);
        }
        group
    }

    /// Passes on the signals that the program has not got.
    fn pass_on(&mut self, burst: &Burst) {
        let in_group = is_in_group(self.program);
        let has_got = |caught: &Caught| {
            let group = burst.group.as_ref();
            let is_groups = group.map_or(caught.from_system, |all| all.contains(&caught.signal));
            is_groups && in_group
        };
        let own: Vec<&Caught> = burst.caught.iter().filter(|one| !has_got(one)).collect();
        let has_interrupt = burst.caught.iter().any(|one| one.signal == SIGINT);
        let interrupts = own.iter().filter(|one| one.signal == SIGINT).count();
        if self.is_out_of_patience(interrupts.max(usize::from(has_interrupt))) {
            tell("\nprofiler: killing the program");
            let _ = self.child.send(SIGKILL);
            return;
        }
        let is_asked =
            |caught: &&Caught| self.asked.is_some_and(|(asked, _)| asked == caught.signal);
        for caught in own.into_iter().filter(|caught| !is_asked(caught)) {
            let _ = self.child.send(caught.signal); // it may have ended meanwhile
        }
    }

    /// Notes interrupts. Returns whether these are too many.
    fn is_out_of_patience(&mut self, further: usize) -> bool {
        let time = now();
        self.interrupts
            .retain(|earlier| earlier.elapsed() < PATIENCE_TIME);
        self.interrupts.extend((0..further).map(|_| time));
        further > 0 && self.interrupts.len() >= PATIENCE
    }

    fn after_the_program(&mut self, signal: i32) {
        match self.phase.get() {
            RecordPhase::Running => {}
            RecordPhase::Waiting(since) | RecordPhase::Sending(_, since)
                if since.elapsed() < LATE => {}
            RecordPhase::Waiting(_) => {
                tell("\nprofiler: waiting for no further process");
                self.phase.set(RecordPhase::Saving);
            }
            RecordPhase::Sending(canceller, _) if !self.has_cancelled => {
                self.has_cancelled = true;
                tell("\nprofiler: stopped sending");
                canceller.cancel();
            }
            RecordPhase::Saving if !self.is_told => {
                self.is_told = true;
                tell("\nprofiler: writing the profile; another signal cancels it");
            }
            RecordPhase::Sending(..) | RecordPhase::Saving => crate::signals::end(signal),
        }
    }
}

#[allow(clippy::disallowed_methods)] // compared with itself only
fn now() -> Instant {
    Instant::now()
}
