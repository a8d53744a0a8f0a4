//! The supervisor's thread: it passes events to the controller and carries out the commands.
//!
//! Started by [`super::Supervisor`]. [`super::dead_processes`] handles processes that have ended.
//! Invariant: figures are published before a command that depends on them is carried out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use ipc_protocol::message::{GatherId, ToChild, ToParent};
use ipc_protocol::transport::TransportError;
use profiler_core::groups::Probes;
use profiler_core::ids::{ByteLimit, PoolId};
use profiler_core::internal::manager::update::{ManagerUpdate, Update};
use profiler_core::internal::pool::floor_bytes;
use profiler_core::internal::sys;
use profiler_core::internal::waits::{AskedWait, NamedWait};
use profiler_core::session;
use profiler_core::time::Timestamp;
use profiler_generated_code::ProcessFiles;

use super::events::{CaptureRequest, SupervisorEvent};
use super::link::{Control, Link, Worth};
#[cfg(naming_waits)]
use super::waits::{AskingProcess, WaitService};
use super::{NOT_WAITED, SupervisorContext, SupervisorHandle, local_process};
use crate::controller::{Command, Controller, Event, Policy, Refusal};
use crate::gather::state::Input;
use crate::spawn::watch::ExitWatcher;
use crate::sys::facts_of;

/// How often the pools of dead processes are searched for data that has left the duration window.
const WINDOW_CHECK: Duration = Duration::from_millis(100);
/// How often the pools of live processes are compared with their charged bytes.
const POOL_CHECK: Duration = Duration::from_millis(500);

/// Limit on the rounds of event and command for one event: far more than any event has needed.
const MAX_ROUNDS: usize = 100_000;

/// The state of the supervisor's thread.
pub(super) struct ControlLoop {
    pub(super) context: Arc<SupervisorContext>,
    watcher: Arc<ExitWatcher<PoolId>>,
    controller: Controller,
    pub(super) links: BTreeMap<PoolId, Link>,
    local: Option<PoolId>,
    joining: BTreeMap<PoolId, Sender<Result<ByteLimit, Refusal>>>,
    pub(super) capture: Option<(GatherId, Sender<Input<PoolId>>)>,
    /// The callers that wait until at most the limit is held.
    shrinking: Vec<Sender<()>>,
    /// An upper bound on the number of dead processes that have a pool.
    pub(super) dead_pools_at_most: usize,
    paused: Option<Control>,
    sampling_paused: Option<Control>,
    /// The probes that all children measure.
    probes: Probes,
    #[cfg(observing)]
    pub(super) observed: super::observed::ObservedPools,
    #[cfg(naming_waits)]
    waits: WaitService,
}

impl ControlLoop {
    pub(super) fn new(context: Arc<SupervisorContext>, handle: &SupervisorHandle) -> Self {
        let floor = floor_bytes();
        // On a busy machine a process takes time to give memory back.
        let reserve = floor.saturating_mul(4);
        let policy = Policy {
            reserve,
            // A process may begin with a large allowance: it can record much before the first
            // answer.
            initial: u64::MAX,
            ..Policy::new(floor, sys::page_size())
        };
        let controller = Controller::new(context.params.limit, policy);
        Self {
            context,
            watcher: Arc::clone(&handle.watcher),
            controller,
            links: BTreeMap::new(),
            local: None,
            joining: BTreeMap::new(),
            capture: None,
            shrinking: Vec::new(),
            dead_pools_at_most: 0,
            paused: None,
            sampling_paused: None,
            probes: Probes::NONE,
            #[cfg(observing)]
            observed: super::observed::ObservedPools::default(),
            #[cfg(naming_waits)]
            waits: WaitService::new(Arc::clone(&handle.wait_names), handle.events()),
        }
    }

    /// Runs until the session ends.
    pub(super) fn run(mut self, events: &Receiver<SupervisorEvent>) {
        let windowed = self.context.params.window_ns > 0;
        let ticks = if windowed {
            crossbeam_channel::tick(WINDOW_CHECK)
        } else {
            crossbeam_channel::never()
        };
        let checks = crossbeam_channel::tick(POOL_CHECK);
        loop {
            // `select!` chooses at random between two that are ready, so ticks also come in a busy
            // session.
            crossbeam_channel::select! {
                recv(events) -> event => match event {
                    Ok(SupervisorEvent::End) | Err(_) => return,
                    Ok(event) => self.take_in(event),
                },
                recv(ticks) -> _ => self.expire_dead_pools(),
                recv(checks) -> _ => {
                    self.check_pools();
                    self.check_programs();
                    #[cfg(observing)]
                    self.check_observed();
                }
            }
            self.take_local_update();
            self.send_probes();
        }
    }

    fn take_in(&mut self, event: SupervisorEvent) {
        match event {
            SupervisorEvent::Join { key, reply } => {
                self.joining.insert(key, reply);
                self.account(Event::Join { key });
            }
            SupervisorEvent::Accounting(event) => self.account(event),
            SupervisorEvent::LocalProcessStarted { key } => {
                self.local = Some(key);
                self.account(Event::Connected { key });
            }
            SupervisorEvent::Connected { key, hello, sender } => {
                // Noted now: once the child has ended, the system no longer tells it.
                let files = ProcessFiles::note(
                    hello.pid,
                    self.context.processes.is_trusted(key) == Some(true),
                );
                let facts = facts_of(hello.pid);
                // It was not in the table when the figures of its admission were published.
                let admitted = self.controller.figures(key).map(|figures| (key, figures));
                self.context.processes.set_figures(admitted.into_iter());
                // The child may have ended before its `Hello` was handled.
                if self.context.processes.note_hello(key, &hello, files, facts) {
                    let mut link = Link::new(sender);
                    self.catch_up(key, &mut link);
                    self.links.insert(key, link);
                    self.account(Event::Connected { key });
                    #[cfg(observing)]
                    self.observed.records_itself(hello.pid);
                }
            }
            SupervisorEvent::Message {
                key,
                message,
                in_flight,
            } => {
                self.hear(key, message);
                drop(in_flight);
            }
            SupervisorEvent::Closed { key, error } => self.closed(key, &error),
            #[cfg(observing)]
            SupervisorEvent::Exited { key, status } if self.is_observed_until(key, status) => {}
            SupervisorEvent::Exited { key, status } => self.exited(key, status),
            #[cfg(observing)]
            SupervisorEvent::Observed(event) => self.take_in_observed(event),
            SupervisorEvent::Executed { key } => self.executed(key),
            SupervisorEvent::SetLimit { limit, obeyed } => {
                self.shrinking.push(obeyed);
                // So that the answer contains what is held against the rule at present.
                self.check_pools();
                self.account(Event::LimitChanged { limit });
            }
            SupervisorEvent::Control {
                control,
                confirm,
                asked,
            } => self.control_all(control, &confirm, &asked),
            #[cfg(naming_waits)]
            SupervisorEvent::OwnWaits(waits) => {
                if !self.waits.ask(AskingProcess::Own, waits) {
                    session::name_waits(Vec::new());
                }
            }
            #[cfg(naming_waits)]
            SupervisorEvent::WaitsNamed { key, waits } => {
                self.send(key, &ToChild::NamedWaits { waits });
            }
            SupervisorEvent::Capture(order) => self.serve_capture(order),
            SupervisorEvent::Woken | SupervisorEvent::End => {}
        }
    }

    /// Brings a newly connected child to the session's state.
    fn catch_up(&self, key: PoolId, link: &mut Link) {
        let allowance = self.allowance(key);
        let probes = Some(Control::SetProbes(self.probes)).filter(|_| self.probes != Probes::NONE);
        let all = [
            Some(Control::EnsureStarted),
            self.paused,
            self.sampling_paused,
            probes,
        ];
        for control in all.into_iter().flatten() {
            link.control(
                self.fit_for(key, control),
                None,
                &self.context.params,
                allowance,
            );
        }
    }

    /// Removes the probes that this child cannot measure. Reading the processor clock of a thread
    /// is a system call, for which a sandbox may kill the child. A child that may have a sandbox is
    /// not asked for it.
    fn fit_for(&self, key: PoolId, control: Control) -> Control {
        match control {
            Control::SetProbes(probes)
                if probes.contains(Probes::CPU)
                    && self.context.processes.is_trusted(key) == Some(false) =>
            {
                Control::SetProbes(probes.without(Probes::CPU))
            }
            _ => control,
        }
    }

    fn hear(&mut self, key: PoolId, message: ToParent) {
        match self.links.get_mut(&key).map(|link| link.judge(&message)) {
            Some(Worth::Asked) => self.act_on(key, message),
            Some(Worth::Unasked) | None => {}
            Some(Worth::Flood) => {
                self.closed(
                    key,
                    &TransportError::PeerMisbehaved("answers to no request"),
                );
                self.context.processes.hang_up_one(key);
            }
        }
    }

    fn act_on(&mut self, key: PoolId, message: ToParent) {
        match message {
            ToParent::Hello(_) => {} // the receive thread lets only the first one through
            ToParent::Done { request } => {
                let allowance = self.allowance(key);
                if let Some(link) = self.links.get_mut(&key) {
                    link.done(request, &self.context.params, allowance);
                }
            }
            ToParent::ChunkManagerUpdate(update) => self.hear_update(key, update),
            ToParent::Profile { id, outcome } => {
                self.send_to_capture(
                    id,
                    Input::Profile {
                        child: key,
                        outcome,
                    },
                );
            }
            ToParent::GatherProgress {
                id,
                proportion,
                location,
            } => {
                self.send_to_capture(
                    id,
                    Input::Progress {
                        child: key,
                        proportion,
                        location,
                    },
                );
            }
            // The pool holds all data, and the exit status says how the process ended.
            ToParent::ShutdownProfile { .. } => {}
            ToParent::AskedWaits { waits } => self.look_up(key, waits),
        }
    }

    /// Passes a question about waits to the service. A child of `Session::spawn_untrusted` gets an
    /// answer without names. So does every child on a system where the session cannot look up
    /// waits.
    fn look_up(&mut self, key: PoolId, waits: Vec<AskedWait>) {
        match self.context.processes.pid_that_may_learn_names(key) {
            #[cfg(naming_waits)]
            Some(pid) => {
                if !self.waits.ask(AskingProcess::Child(key, pid), waits) {
                    self.send(key, &ToChild::NamedWaits { waits: Vec::new() });
                }
            }
            _ => self.send(key, &nothing_known(waits)),
        }
    }

    pub(super) fn hear_update(&mut self, key: PoolId, update: ManagerUpdate) {
        match update {
            ManagerUpdate::None => {}
            ManagerUpdate::Changed(update) => {
                let update = believable(update);
                self.account(Event::Update { key, update });
            }
            ManagerUpdate::Final => self.account(Event::Disconnected { key }),
        }
    }

    fn take_local_update(&mut self) {
        if let Some(key) = self.local {
            let update = local_process::take_updates();
            if update.is_some() && update != ManagerUpdate::Final {
                self.hear_update(key, update);
            }
        }
    }

    /// Makes every child measure the probes that are wanted now. A child that connects later gets
    /// them then.
    fn send_probes(&mut self) {
        let wanted = self.context.probes.wanted();
        if self.probes != wanted {
            let (confirm, _) = crossbeam_channel::bounded(1);
            let (asked, _) = crossbeam_channel::bounded(1);
            self.control_all(Control::SetProbes(wanted), &confirm, &asked);
        }
    }

    fn closed(&mut self, key: PoolId, error: &TransportError) {
        self.links.remove(&key);
        self.account(Event::Disconnected { key });
        let why = error.to_string();
        self.context.processes.note_disconnect(key, &why);
        if let Some((_, inputs)) = &self.capture {
            forward(
                inputs,
                Input::HungUp {
                    child: key,
                    message: why,
                },
            );
        }
        if self.context.processes.executes_another_program(key) {
            self.executed(key);
        }
        self.take_back_unused(key);
    }

    /// Takes the memory of a process back that has joined and has left before it began to record.
    /// The process may run on without a profiler.
    fn take_back_unused(&mut self, key: PoolId) {
        let processes = &self.context.processes;
        if processes.has_joined_and_left(key) && !processes.has_begun(key) {
            let why = NOT_WAITED.to_owned();
            self.context.take_back(&self.watcher, key, why);
            self.account(Event::Forgotten { key });
        }
    }

    fn control_all(&mut self, control: Control, confirm: &Sender<()>, asked: &Sender<usize>) {
        match control {
            Control::Pause => self.paused = Some(control),
            Control::Resume => self.paused = None,
            Control::PauseSampling => self.sampling_paused = Some(control),
            Control::ResumeSampling => self.sampling_paused = None,
            Control::SetProbes(probes) => self.probes = probes,
            _ => {}
        }
        #[cfg(observing)]
        {
            let is_paused = self.paused.is_some()
                || matches!(self.sampling_paused, Some(Control::PauseSampling));
            self.observed.pause(is_paused);
        }
        let keys: Vec<PoolId> = self.links.keys().copied().collect();
        for key in &keys {
            let allowance = self.allowance(*key);
            let control = self.fit_for(*key, control);
            if let Some(link) = self.links.get_mut(key) {
                link.control(
                    control,
                    Some(confirm.clone()),
                    &self.context.params,
                    allowance,
                );
            }
        }
        let _ = asked.send(keys.len());
    }

    fn serve_capture(&mut self, order: CaptureRequest) {
        match order {
            CaptureRequest::Begin {
                id,
                spec,
                inputs,
                asked,
            } => {
                self.capture = Some((id, inputs));
                let writers = self.context.processes.writers();
                let able =
                    |key: &PoolId, link: &Link| link.gathering.is_none() && writers.contains(key);
                let able = self.links.iter_mut().filter(|(key, link)| able(key, link));
                let keys = able.map(|(key, link)| {
                    link.send(&ToChild::GatherProfile {
                        id,
                        spec: spec.clone(),
                    });
                    *key
                });
                let _ = asked.send(keys.collect());
            }
            CaptureRequest::Progress { id, key } => {
                self.send(key, &ToChild::GetGatherProfileProgress { id })
            }
            CaptureRequest::Cancel { id, key } => self.send(key, &ToChild::CancelGather { id }),
            CaptureRequest::End { id } => {
                if self
                    .capture
                    .as_ref()
                    .is_some_and(|(running, _)| *running == id)
                {
                    self.capture = None;
                }
            }
        }
    }

    fn send(&mut self, key: PoolId, message: &ToChild) {
        if let Some(link) = self.links.get_mut(&key) {
            link.send(message);
        }
    }

    fn send_to_capture(&self, id: GatherId, input: Input<PoolId>) {
        if let Some((_, inputs)) = self.capture.as_ref().filter(|(running, _)| *running == id) {
            forward(inputs, input);
        }
    }

    pub(super) fn allowance(&self, key: PoolId) -> ByteLimit {
        self.controller.allowance(key).unwrap_or_default()
    }

    /// Passes an event to the controller, and carries out its commands until there are no more. The
    /// loop is bounded: the sizes that dead pools claim to have freed are not trusted.
    pub(super) fn account(&mut self, event: Event) {
        let mut events = vec![event];
        let mut commands = Vec::new();
        for _ in 0..MAX_ROUNDS {
            let Some(event) = events.pop() else { break };
            self.controller.handle(event, &mut commands);
            if !commands.is_empty() {
                self.publish(); // before a process can use the grant
            }
            for command in std::mem::take(&mut commands) {
                events.extend(self.carry_out(command));
            }
        }
        self.publish();
    }

    fn carry_out(&mut self, command: Command) -> Option<Event> {
        match command {
            Command::Admit { key, allowance } => self.answer_join(key, Ok(allowance)),
            Command::Refuse { key, why } => self.answer_join(key, Err(why)),
            Command::Await { key, allowance } if self.local == Some(key) => {
                session::set_allowance(allowance)
            }
            #[cfg(observing)]
            Command::Await { key, allowance } if self.observed.set_allowance(key, allowance) => {}
            Command::Await { key, allowance } => {
                self.send(key, &ToChild::AwaitNextChunkManagerUpdate { allowance });
            }
            Command::Destroy { key, at_or_before } if self.local == Some(key) => {
                session::destroy_released_chunks_at_or_before(at_or_before);
            }
            #[cfg(observing)]
            Command::Destroy { key, at_or_before } if self.observed.destroy(key, at_or_before) => {}
            Command::Destroy {
                key,
                at_or_before: timestamp,
            } => {
                self.send(key, &ToChild::DestroyReleasedChunksAtOrBefore { timestamp });
            }
            Command::DestroyDead { key, at_or_before } => {
                let held_bytes = self.destroy_dead(key, at_or_before);
                return Some(Event::DeadDestroyed { key, held_bytes });
            }
            Command::DropDead { key } => {
                self.drop_dead(key);
                return Some(Event::Forgotten { key });
            }
        }
        None
    }

    fn answer_join(&mut self, key: PoolId, answer: Result<ByteLimit, Refusal>) {
        if let Some(reply) = self.joining.remove(&key) {
            let _ = reply.send(answer);
        }
    }

    /// Compares the bytes that the pools of live processes really occupy with the charged bytes.
    fn check_pools(&mut self) {
        let occupied = self.context.processes.occupied_by_the_living();
        for (key, true_bytes) in occupied {
            let figures = self.controller.figures(key);
            if figures.is_some_and(|figures| figures.excess > 0 || true_bytes > figures.charged) {
                self.account(Event::Occupies { key, true_bytes });
            }
        }
    }

    /// Ends the recordings of processes that execute another program since their channel closed.
    /// When it closes, the system may not yet show the new program.
    fn check_programs(&mut self) {
        for key in self.context.processes.newly_executed() {
            self.executed(key);
        }
    }

    /// Publishes the limit and the figures that have changed.
    fn publish(&mut self) {
        let charged = self.controller.charged();
        self.context.limit.publish(self.controller.limit(), charged);
        if self.controller.over() == 0 {
            for obeyed in self.shrinking.drain(..) {
                let _ = obeyed.try_send(());
            }
        }
        let changed = self.controller.take_changed_figures();
        self.context.processes.set_figures(changed);
    }
}

/// Forwards to the capture without waiting for it. Progress messages may fill only half of the
/// queue, so a child that floods with them cannot displace the answer of another child. Messages
/// without room are dropped; the capture's timeouts make up for them.
pub(super) fn forward(inputs: &Sender<Input<PoolId>>, input: Input<PoolId>) {
    let is_crowded = inputs
        .capacity()
        .is_some_and(|most| inputs.len() > most / 2);
    if !(is_crowded && matches!(input, Input::Progress { .. })) {
        let _ = inputs.try_send(input);
    }
}

/// The answer that no process or thread is known that can end these waits.
fn nothing_known(waits: Vec<AskedWait>) -> ToChild {
    let waits = waits.into_iter().map(|wait| NamedWait {
        number: wait.number,
        name: None,
    });
    ToChild::NamedWaits {
        waits: waits.collect(),
    }
}

/// Returns an update with plausible times: none lies in the future.
fn believable(mut update: Update) -> Update {
    let now = Timestamp::now();
    update.oldest_done = update.oldest_done.map(|done| done.min(now));
    for chunk in &mut update.newly_released {
        chunk.done = chunk.done.min(now);
    }
    update
}
