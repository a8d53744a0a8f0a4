//! The hub's thread: events in, controller asked, commands carried out.

use std::collections::BTreeMap;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use ipc_protocol::message::{GatherId, Hello, ToChild, ToParent};
use ipc_protocol::transport::TransportError;
use profiler_core::grave::Grave;
use profiler_core::groups::Probes;
use profiler_core::ids::{ByteLimit, PoolId, ProcessId, ProcessKey, ProcessStart};
use profiler_core::manager::update::{ManagerUpdate, Update};
use profiler_core::pool::FLOOR_PAGES;
use profiler_core::reader::PoolReader;
use profiler_core::time::{Anchor, Timestamp};
use profiler_core::{session, sys};

use super::Shared;
use super::events::{CaptureOrder, HubEvent};
use super::link::{Control, Link, Worth};
use super::local_process as own;
use crate::controller::{Command, Controller, DeadPool, Event, Policy, Refusal};
use crate::gather::state::Input;
use crate::gather::verdict::Why;
use crate::process_table::{Process, ProcessState, Remains};

/// How often dead pools are looked through for what has left the duration window.
const WINDOW_CHECK: Duration = Duration::from_millis(100);
/// The part of the limit that a process may get at first.
const FIRST_PART: u64 = 64;
/// How often the pools of live processes are held against the books.
const LOOK: Duration = Duration::from_millis(500);

/// Far more rounds of event and command than one event was ever seen to need.
const MOST_ROUNDS: usize = 100_000;

/// What the hub's thread owns.
pub(super) struct Hub {
    shared: Arc<Shared>,
    controller: Controller,
    links: BTreeMap<PoolId, Link>,
    own: Option<PoolId>,
    joining: BTreeMap<PoolId, Sender<Result<ByteLimit, Refusal>>>,
    capture: Option<(GatherId, Sender<Input<PoolId>>)>,
    /// Who waits until no more than the limit is held.
    shrinking: Vec<Sender<()>>,
    paused: Option<Control>,
    sampling_paused: Option<Control>,
    /// What all children were told to measure.
    probes: Probes,
}

/// The controller's name for a process: its pool alone tells it from all others, and is known
/// before the process exists.
const fn key_of(pool: PoolId) -> ProcessKey {
    ProcessKey { pid: ProcessId::new(0), start: ProcessStart::new(0), pool }
}

impl Hub {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let page = sys::page_size();
        let floor = FLOOR_PAGES.saturating_mul(page);
        // On a busy machine it takes a while until somebody gives memory back.
        let reserve = floor.saturating_mul(4);
        let usual = Policy::new(floor, page);
        // Under a large limit a process need not begin small: what it does not use is taken back.
        let initial = usual.initial.max(shared.params.limit.get() / FIRST_PART);
        let policy = Policy { reserve, initial, ..usual };
        let controller = Controller::new(shared.params.limit, policy);
        Self {
            shared,
            controller,
            links: BTreeMap::new(),
            own: None,
            joining: BTreeMap::new(),
            capture: None,
            shrinking: Vec::new(),
            paused: None,
            sampling_paused: None,
            probes: Probes::NONE,
        }
    }

    /// Runs until the session ends.
    pub(super) fn run(mut self, events: &Receiver<HubEvent>) {
        let windowed = self.shared.params.window_ns > 0;
        let ticks = if windowed { crossbeam_channel::tick(WINDOW_CHECK) } else { crossbeam_channel::never() };
        let looks = crossbeam_channel::tick(LOOK);
        loop {
            // Of two that are ready either may come, so ticks are heard in a busy session, too.
            crossbeam_channel::select! {
                recv(events) -> event => match event {
                    Ok(HubEvent::End) | Err(_) => return,
                    Ok(event) => self.take_in(event),
                },
                recv(ticks) -> _ => self.expire_graves(),
                recv(looks) -> _ => self.look_at_pools(),
            }
            self.take_own_update();
            self.take_wishes();
        }
    }

    fn take_in(&mut self, event: HubEvent) {
        match event {
            HubEvent::Join { key, reply } => {
                self.joining.insert(key, reply);
                self.tell(Event::Join { key: key_of(key) });
            }
            HubEvent::Forget { key } => self.tell(Event::Forgotten { key: key_of(key) }),
            HubEvent::OwnStarted { key } => {
                self.own = Some(key);
                self.tell(Event::Connected { key: key_of(key) });
            }
            HubEvent::Connected { key, hello, sender } => {
                // It may have ended before its hello was heard: then nobody is there to speak to.
                if self.shared.processes.change(key, |process| greet(process, &hello)) == Some(true) {
                    let mut link = Link::new(sender);
                    self.catch_up(key, &mut link);
                    self.links.insert(key, link);
                    self.tell(Event::Connected { key: key_of(key) });
                }
            }
            HubEvent::Message { key, message, in_flight } => {
                self.hear(key, message);
                drop(in_flight);
            }
            HubEvent::Closed { key, error } => self.closed(key, &error),
            HubEvent::Exited { key, status } => self.exited(key, status),
            HubEvent::SetLimit { limit, obeyed } => {
                self.shrinking.push(obeyed);
                self.tell(Event::LimitChanged { limit });
            }
            HubEvent::Overdue => self.tell(Event::Overdue),
            HubEvent::Control { control, confirm, asked } => self.control_all(control, &confirm, &asked),
            HubEvent::Capture(order) => self.serve_capture(order),
            HubEvent::OwnUpdate | HubEvent::Rung | HubEvent::End => {}
        }
    }

    /// Brings a child that has just connected to where the session is.
    fn catch_up(&self, key: PoolId, link: &mut Link) {
        let allowance = self.allowance(key);
        let probes = Some(Control::SetProbes(self.probes)).filter(|_| self.probes != Probes::NONE);
        let all = [Some(Control::EnsureStarted), self.paused, self.sampling_paused, probes];
        for control in all.into_iter().flatten() {
            link.control(self.fit_for(key, control), None, &self.shared.params, allowance);
        }
    }

    /// What this child is told instead. Reading a thread's processor clock is a system call, for which a sandbox may
    /// kill: a child that may be in one is not asked for it.
    fn fit_for(&self, key: PoolId, control: Control) -> Control {
        let may_call = || self.shared.processes.lock().get(&key).is_none_or(|process| process.is_trusted);
        match control {
            Control::SetProbes(probes) if probes.contains(Probes::CPU) && !may_call() => {
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
                self.closed(key, &TransportError::PeerMisbehaved("answers that nobody asked for"));
                self.shared.processes.change(key, |process| process.hang_up());
            }
        }
    }

    fn act_on(&mut self, key: PoolId, message: ToParent) {
        match message {
            ToParent::Hello(_) => {} // the receive thread lets only the first one through
            ToParent::Done { request } => {
                let allowance = self.allowance(key);
                if let Some(link) = self.links.get_mut(&key) {
                    link.done(request, &self.shared.params, allowance);
                }
            }
            ToParent::ChunkManagerUpdate(update) => self.hear_update(key, update),
            ToParent::Profile { id, outcome } => {
                self.tell_capture(id, Input::Profile { child: key, outcome });
            }
            ToParent::GatherProgress { id, proportion, location } => {
                self.tell_capture(id, Input::Progress { child: key, proportion, location });
            }
            // The pool holds everything; what became of the process its exit status tells.
            ToParent::ShutdownProfile { .. } => {}
        }
    }

    fn hear_update(&mut self, key: PoolId, update: ManagerUpdate) {
        match update {
            ManagerUpdate::None => {}
            ManagerUpdate::Changed(update) => {
                let update = believable(update);
                self.tell(Event::Update { key: key_of(key), update });
            }
            ManagerUpdate::Final => self.tell(Event::Disconnected { key: key_of(key) }),
        }
    }

    fn take_own_update(&mut self) {
        if let Some(key) = self.own {
            let update = own::take_updates();
            if update.is_some() && update != ManagerUpdate::Final {
                self.hear_update(key, update);
            }
        }
    }

    /// Has every child measure of groups what is wanted now; one that connects later hears of it then.
    fn take_wishes(&mut self) {
        let wanted = self.shared.groups.wanted();
        if self.probes != wanted {
            let (confirm, _) = crossbeam_channel::bounded(1);
            let (asked, _) = crossbeam_channel::bounded(1);
            self.control_all(Control::SetProbes(wanted), &confirm, &asked);
        }
    }

    fn closed(&mut self, key: PoolId, error: &TransportError) {
        self.links.remove(&key);
        self.tell(Event::Disconnected { key: key_of(key) });
        let why = error.to_string();
        self.shared.processes.change(key, |process| {
            // The first reason is the true one; what comes after it follows from it.
            if !matches!(process.state, ProcessState::Exited(_) | ProcessState::Disconnected(_)) {
                process.state = ProcessState::Disconnected(why.clone());
            }
        });
        if let Some((_, inputs)) = &self.capture {
            forward(inputs, Input::HungUp { child: key, message: why });
        }
    }

    fn exited(&mut self, key: PoolId, status: Option<ExitStatus>) {
        let died = Timestamp::now();
        self.links.remove(&key);
        let buried = self.shared.processes.change(key, |process| bury(process, status, died)).flatten();
        if let Some(pool) = buried {
            self.tell(Event::Died { key: key_of(key), pool });
        } else {
            self.shared.processes.note_empty(key); // it never had a pool
        }
        if let Some((_, inputs)) = &self.capture {
            forward(inputs, Input::Died { child: key, why: Why::ended(status) });
        }
        self.limit_graves();
    }

    /// A dead process's pool costs a descriptor, of which the host has not many: beyond a share of
    /// them the longest dead go first, as if they were too old for the memory limit.
    fn limit_graves(&mut self) {
        let mut dead: Vec<(Option<Timestamp>, PoolId)> = {
            let all = self.shared.processes.lock();
            let graves = all.iter().filter(|(_, process)| process.grave.is_some());
            graves.map(|(key, process)| (process.died, *key)).collect()
        };
        let most = most_graves();
        if dead.len() > most {
            dead.sort_unstable();
            for (_, key) in dead.iter().take(dead.len() - most) {
                let held_bytes = self.destroy_dead(*key, Timestamp::MAX);
                self.tell(Event::DeadDestroyed { key: key_of(*key), held_bytes });
            }
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
        let keys: Vec<PoolId> = self.links.keys().copied().collect();
        for key in &keys {
            let (allowance, control) = (self.allowance(*key), self.fit_for(*key, control));
            if let Some(link) = self.links.get_mut(key) {
                link.control(control, Some(confirm.clone()), &self.shared.params, allowance);
            }
        }
        let _ = asked.send(keys.len());
    }

    fn serve_capture(&mut self, order: CaptureOrder) {
        match order {
            CaptureOrder::Begin { id, spec, inputs, asked } => {
                self.capture = Some((id, inputs));
                let writers = self.shared.processes.writers();
                let able = |key: &PoolId, link: &Link| link.gathering.is_none() && writers.contains(key);
                let able = self.links.iter_mut().filter(|(key, link)| able(key, link));
                let keys = able.map(|(key, link)| {
                    link.send(&ToChild::GatherProfile { id, spec: spec.clone() });
                    *key
                });
                let _ = asked.send(keys.collect());
            }
            CaptureOrder::Progress { id, key } => self.send(key, &ToChild::GetGatherProfileProgress { id }),
            CaptureOrder::Cancel { id, key } => self.send(key, &ToChild::CancelGather { id }),
            CaptureOrder::End { id } => {
                if self.capture.as_ref().is_some_and(|(running, _)| *running == id) {
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

    fn tell_capture(&self, id: GatherId, input: Input<PoolId>) {
        if let Some((_, inputs)) = self.capture.as_ref().filter(|(running, _)| *running == id) {
            forward(inputs, input);
        }
    }

    fn allowance(&self, key: PoolId) -> ByteLimit {
        self.controller.allowance(key_of(key)).unwrap_or_default()
    }

    /// Tells the controller, and carries out what it decides, until it decides nothing more. That it ends does not
    /// hang on what dead pools claim to have freed: what is left after far too many rounds is left.
    fn tell(&mut self, event: Event) {
        let mut events = vec![event];
        let mut commands = Vec::new();
        for _ in 0..MOST_ROUNDS {
            let Some(event) = events.pop() else { break };
            self.controller.handle(event, &mut commands);
            if !commands.is_empty() {
                self.publish(); // before anybody can hold what is being granted
            }
            for command in std::mem::take(&mut commands) {
                events.extend(self.carry_out(command));
            }
        }
        self.publish();
    }

    fn carry_out(&mut self, command: Command) -> Option<Event> {
        match command {
            Command::Admit { key, allowance } => self.answer_join(key.pool, Ok(allowance)),
            Command::Refuse { key, why } => self.answer_join(key.pool, Err(why)),
            Command::Await { key, allowance } if self.own == Some(key.pool) => {
                session::set_allowance(allowance)
            }
            Command::Await { key, allowance } => {
                self.send(key.pool, &ToChild::AwaitNextChunkManagerUpdate { allowance });
            }
            Command::Destroy { key, at_or_before } if self.own == Some(key.pool) => {
                session::destroy_released_chunks_at_or_before(at_or_before);
            }
            Command::Destroy { key, at_or_before: timestamp } => {
                self.send(key.pool, &ToChild::DestroyReleasedChunksAtOrBefore { timestamp });
            }
            Command::DestroyDead { key, at_or_before } => {
                let held_bytes = self.destroy_dead(key.pool, at_or_before);
                return Some(Event::DeadDestroyed { key, held_bytes });
            }
            Command::DropDead { key } => {
                self.shared.processes.change(key.pool, drop_pool);
                self.shared.groups.forget_reader(key.pool);
                self.shared.forget_pool(key.pool);
                self.shared.processes.note_empty(key.pool);
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

    fn destroy_dead(&self, key: PoolId, at: Timestamp) -> u64 {
        let destroyed = self.shared.processes.change(key, |process| {
            let grave = process.grave.as_mut()?;
            let held = grave.destroy_at_or_before(at).or_else(|_| grave.held_bytes()).ok()?;
            Some(process.charge(held))
        });
        destroyed.flatten().unwrap_or(0)
    }

    /// Destroys what has left the duration window in pools whose process can no longer do it.
    fn expire_graves(&mut self) {
        let ticks = self.shared.clock.converter(Anchor::take()).ticks_in(self.shared.params.window_ns);
        let Some(oldest) = Timestamp::now().raw().checked_sub(ticks).map(Timestamp::from_raw) else { return };
        let dead: Vec<PoolId> = {
            let all = self.shared.processes.lock();
            all.iter().filter(|(_, process)| process.grave.is_some()).map(|(key, _)| *key).collect()
        };
        for key in dead {
            let held_bytes = self.destroy_dead(key, oldest);
            self.tell(Event::DeadDestroyed { key: key_of(key), held_bytes });
        }
    }

    /// Holds what the pools of live processes really occupy against the books.
    fn look_at_pools(&mut self) {
        let occupied = self.shared.processes.occupied_by_the_living();
        for (pool, true_bytes) in occupied {
            let key = key_of(pool);
            let figures = self.controller.figures(key);
            if figures.is_some_and(|figures| figures.excess > 0 || true_bytes > figures.booked) {
                self.tell(Event::Occupies { key, true_bytes });
            }
        }
    }

    /// Shows everybody what has changed.
    fn publish(&mut self) {
        let over = self.controller.over();
        self.shared.limit.publish(self.controller.limit(), over);
        if over == 0 {
            for obeyed in self.shrinking.drain(..) {
                let _ = obeyed.try_send(());
            }
        }
        let mut all = self.shared.processes.lock();
        for (key, figures) in self.controller.take_changed_figures() {
            if let Some(process) = all.get_mut(&key.pool) {
                process.figures = Some(figures);
            }
        }
    }
}

/// Tells the capture, without waiting for it. Progress gives way to what matters: a child that
/// floods with progress takes no room from another's answer. What finds no room is not told; the
/// capture's timeouts make up for it.
fn forward(inputs: &Sender<Input<PoolId>>, input: Input<PoolId>) {
    let is_crowded = inputs.capacity().is_some_and(|most| inputs.len() > most / 2);
    if !(is_crowded && matches!(input, Input::Progress { .. })) {
        let _ = inputs.try_send(input);
    }
}

/// Pools of dead processes that are kept at most: for each a descriptor, a quarter of all.
fn most_graves() -> usize {
    usize::try_from(crate::sys::descriptor_limit() / 4).unwrap_or(usize::MAX).max(16)
}

/// An update with times that can be true: nothing was done in the future.
fn believable(mut update: Update) -> Update {
    let now = Timestamp::now();
    update.oldest_done = update.oldest_done.map(|done| done.min(now));
    for chunk in &mut update.newly_released {
        chunk.done = chunk.done.min(now);
    }
    update
}

/// A process has said hello. Whether it still lives.
fn greet(process: &mut Process, hello: &Hello) -> bool {
    process.said_hello = true;
    process.pid = hello.pid;
    let lives = !matches!(process.state, ProcessState::Exited(_));
    if lives {
        process.state = ProcessState::Connected;
    }
    lives
}

/// A process has ended: takes its pool over, and says what it left.
fn bury(process: &mut Process, status: Option<ExitStatus>, died: Timestamp) -> Option<DeadPool> {
    process.state = ProcessState::Exited(status);
    process.died = Some(died);
    process.hang_up(); // its receive thread ends, though a fork of it may hold the channel
    process.outbox = None;
    let Remains::Pool(file) = &process.remains else { return None };
    let grave = Grave::open(Arc::clone(file), died);
    let grave = grave.map_err(|error| process.damage = Some(error.to_string())).ok();
    let true_bytes = process.charge(file.get().map_or(0, |file| sys::allocated_bytes(file).unwrap_or(0)));
    let chunks = grave.as_ref().map(Grave::chunks).unwrap_or_default();
    let in_chunks: u64 = chunks.iter().map(|chunk| chunk.bytes).sum();
    process.grave = grave;
    Some(DeadPool { true_bytes, unreleased_bytes: true_bytes.saturating_sub(in_chunks), chunks })
}

/// Nothing is left in a dead process's pool: keeps its books and closes it.
fn drop_pool(process: &mut Process) {
    process.grave = None;
    if let Remains::Pool(file) = &process.remains {
        process.groups = crate::groups::final_groups(file);
        let snapshot = PoolReader::open(&**file).and_then(|reader| reader.snapshot());
        if let Err(error) = &snapshot {
            process.damage.get_or_insert_with(|| error.to_string());
        }
        let counts = snapshot.map(|snapshot| snapshot.counts()).unwrap_or_default();
        process.remains = Remains::Expired(counts);
    }
}
