//! Linux: one thread that receives what all children send.
//!
//! ```text
//! spawn ── expect(child) ──┐                      ┌── Connected, Message, Closed ──▶ hub
//!                          ├─▶ requests, ring ─▶ thread
//! hub ── place is free ────┘                      └── waits for all sockets (ReadySet)
//! ```
//!
//! The thread never waits for one child: a socket is received from only when something is there,
//! and packets are checked whole before that. A child whose messages have no place in the hub's
//! queue is taken out of the set until one is free.
//!
//! The program may close any descriptor. A closed socket leaves the set without a word, so
//! the thread asks each channel once a second, when it has nothing else to do, whether its socket is
//! still there; a closed set is replaced.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::Sender;
use ipc_protocol::message::ToParent;
use ipc_protocol::transport::listener::Progress;
use ipc_protocol::transport::ready::{ChannelNumber, ReadySet};
use ipc_protocol::transport::{Receiver, TransportError};
use profiler_core::ids::PoolId;
use profiler_core::sys::spawn_quiet;

use super::places::Places;
use super::{Expected, IN_FLIGHT};
use crate::hub::HubEvent;

/// The time without a message after which all channels are asked whether their sockets are still there.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// All channels are asked after this number of waits, also if there are always messages.
const WAITS_PER_LOOK: u32 = 10_000;
/// Pause if the set cannot be waited for and there is no other.
const RETRY: Duration = Duration::from_millis(100);

/// Hears all children of a session.
#[derive(Debug)]
pub(crate) struct Listening {
    mailbox: Arc<Mailbox>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What others want of the thread.
#[derive(Debug)]
struct Mailbox {
    set: Mutex<Arc<ReadySet>>,
    requests: Mutex<Requests>,
}

#[derive(Debug, Default)]
struct Requests {
    expected: Vec<Expected>,
    /// Channels whose messages have a place in the hub's queue again.
    freed: Vec<ChannelNumber>,
    is_over: bool,
}

impl Listening {
    /// Starts the thread. `events` hears of everything.
    ///
    /// # Errors
    /// When the system gives no thread or descriptor.
    pub(crate) fn start(events: Sender<HubEvent>) -> io::Result<Self> {
        let set = Mutex::new(Arc::new(ReadySet::new()?));
        let mailbox = Arc::new(Mailbox { set, requests: Mutex::default() });
        let receiver = AllChannels {
            mailbox: Arc::clone(&mailbox),
            events,
            channels: BTreeMap::new(),
            next: ChannelNumber::FIRST,
        };
        let thread = spawn_quiet("profiler-receive", move || receiver.run())?;
        Ok(Self { mailbox, thread: Mutex::new(Some(thread)) })
    }

    /// Hears a child from now on.
    ///
    /// # Errors
    /// Never; on other systems when there is no thread for the child.
    #[allow(clippy::unnecessary_wraps)]
    pub(crate) fn expect(&self, child: Expected) -> io::Result<()> {
        self.mailbox.ask(|requests| requests.expected.push(child));
        Ok(())
    }

    /// Ends the thread, and with it all channels that have not ended.
    pub(crate) fn stop(&self) {
        self.mailbox.ask(|requests| requests.is_over = true);
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Mailbox {
    fn ask(&self, change: impl FnOnce(&mut Requests)) {
        change(&mut self.requests.lock().unwrap_or_else(PoisonError::into_inner));
        let set = Arc::clone(&self.set()); // rung without the lock
        set.ring();
    }

    fn set(&self) -> MutexGuard<'_, Arc<ReadySet>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Requests {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = requests.is_over;
        Requests { is_over, ..std::mem::take(&mut *requests) }
    }
}

/// A child's channel.
#[derive(Debug)]
struct Channel {
    key: PoolId,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The child has not said hello.
    Expected(Expected),
    /// It has.
    Open { receiver: Receiver<ToParent>, places: Arc<Places> },
}

/// What the thread owns.
#[derive(Debug)]
struct AllChannels {
    mailbox: Arc<Mailbox>,
    events: Sender<HubEvent>,
    channels: BTreeMap<ChannelNumber, Channel>,
    next: ChannelNumber,
}

impl AllChannels {
    fn run(mut self) {
        let mut set = Arc::clone(&self.mailbox.set());
        let mut waits = 0;
        loop {
            let requests = self.mailbox.take();
            if requests.is_over {
                return self.end(&set);
            }
            self.obey(&set, requests);
            let Ok(ready) = set.wait(LOOK_INTERVAL) else {
                set = self.working_set();
                continue;
            };
            waits += 1;
            let is_idle = ready.channels.is_empty() && !ready.rung;
            let mut has_unknown = false;
            for number in ready.channels {
                has_unknown |= !self.hear(&set, number);
            }
            if is_idle || waits >= WAITS_PER_LOOK {
                waits = 0;
                self.end_lost();
                set = self.working_set();
            }
            // A fork of this process holds the socket of a channel that the program has closed.
            if has_unknown {
                set = self.new_set().unwrap_or(set);
            }
        }
    }

    fn obey(&mut self, set: &ReadySet, requests: Requests) {
        for child in requests.expected {
            let number = self.next;
            self.next = number.next();
            self.put(set, number, Channel { key: child.key, stage: Stage::Expected(child) });
        }
        for number in requests.freed {
            self.wait_for(set, number);
        }
    }

    /// The set, or a new one if the program has closed it.
    fn working_set(&mut self) -> Arc<ReadySet> {
        let set = Arc::clone(&self.mailbox.set());
        if set.is_ours() {
            return set;
        }
        self.new_set().unwrap_or_else(|| {
            std::thread::sleep(RETRY); // there is no descriptor left
            set
        })
    }

    /// A new set with all channels.
    fn new_set(&mut self) -> Option<Arc<ReadySet>> {
        let new = Arc::new(ReadySet::new().ok()?);
        *self.mailbox.set() = Arc::clone(&new);
        let numbers: Vec<ChannelNumber> = self.channels.keys().copied().collect();
        for number in numbers {
            self.wait_for(&new, number);
        }
        Some(new)
    }

    /// Adds a channel, or puts it back.
    fn put(&mut self, set: &ReadySet, number: ChannelNumber, channel: Channel) {
        self.channels.insert(number, channel);
        self.wait_for(set, number);
    }

    /// Waits for a channel unless its messages have no place.
    fn wait_for(&mut self, set: &ReadySet, number: ChannelNumber) {
        let Some(channel) = self.channels.get(&number) else { return };
        if channel.has_no_place() {
            return;
        }
        let added = channel.socket().and_then(|socket| Ok(set.add(number, socket)?));
        if let Err(error) = added
            && set.is_ours()
        {
            self.close(number, error);
        } // else: the next set contains it
    }

    /// A channel has something to be received, or has ended. `false` if it is not known.
    fn hear(&mut self, set: &ReadySet, number: ChannelNumber) -> bool {
        let Some(channel) = self.channels.get_mut(&number) else { return false };
        let (key, events) = (channel.key, &self.events);
        if let Stage::Open { receiver, places } = &mut channel.stage {
            let heard = guarded(|| receive(key, receiver, places, events));
            if heard.is_err() || places.are_taken() {
                channel.leave(set);
            }
            if let Err(error) = heard {
                self.close(number, error);
            }
            return true;
        }
        channel.leave(set); // before the socket is closed, or another one takes its place
        if let Some(Channel { stage: Stage::Expected(child), .. }) = self.channels.remove(&number) {
            match guarded(|| greet(child, &self.mailbox, events, number)) {
                Ok(stage) => self.put(set, number, Channel { key, stage }),
                Err(error) => drop(self.events.send(HubEvent::Closed { key, error })),
            }
        }
        true
    }

    /// Ends the channels whose sockets the program has closed.
    fn end_lost(&mut self) {
        let lost: Vec<(ChannelNumber, TransportError)> = self
            .channels
            .iter()
            .filter_map(|(number, channel)| Some((*number, channel.socket().err()?)))
            .collect();
        for (number, error) in lost {
            self.close(number, error);
        }
    }

    fn close(&mut self, number: ChannelNumber, error: TransportError) {
        if let Some(Channel { key, .. }) = self.channels.remove(&number) {
            let _ = self.events.send(HubEvent::Closed { key, error });
        }
    }

    /// The session is over: nobody listens any more.
    fn end(self, set: &ReadySet) {
        self.channels.values().for_each(|channel| channel.leave(set));
    }
}

impl Channel {
    fn has_no_place(&self) -> bool {
        matches!(&self.stage, Stage::Open { places, .. } if places.are_taken())
    }

    fn socket(&self) -> Result<BorrowedFd<'_>, TransportError> {
        match &self.stage {
            Stage::Expected(child) => child.listener.socket(),
            Stage::Open { receiver, .. } => receiver.socket(),
        }
    }

    /// The set does not contain the channel from now on.
    fn leave(&self, set: &ReadySet) {
        if let Ok(socket) = self.socket() {
            set.remove(socket);
        }
    }
}

/// A panic while a child is heard is the loss of this child, nothing more.
fn guarded<T>(hear: impl FnOnce() -> Result<T, TransportError>) -> Result<T, TransportError> {
    catch_unwind(AssertUnwindSafe(hear))
        .unwrap_or(Err(TransportError::PeerMisbehaved("something that cannot be handled")))
}

/// Accepts a child that has said hello.
fn greet(
    child: Expected,
    mailbox: &Arc<Mailbox>,
    events: &Sender<HubEvent>,
    number: ChannelNumber,
) -> Result<Stage, TransportError> {
    let Expected { key, pid, listener, token } = child;
    let accepted = match listener.try_accept(&token, pid)? {
        Progress::Accepted(accepted) => accepted,
        Progress::Waiting(listener) => return Ok(Stage::Expected(Expected { key, pid, listener, token })),
    };
    let receiver = accepted.ends.receiver;
    let _ = events.send(HubEvent::Connected { key, hello: accepted.hello, sender: accepted.ends.sender });
    let mailbox = Arc::downgrade(mailbox);
    let places = Places::new(move || {
        if let Some(mailbox) = mailbox.upgrade() {
            mailbox.ask(|requests| requests.freed.push(number));
        }
    });
    Ok(Stage::Open { receiver, places })
}

/// Receives as many messages as have a place, and passes them on.
fn receive(
    key: PoolId,
    receiver: &mut Receiver<ToParent>,
    places: &Arc<Places>,
    events: &Sender<HubEvent>,
) -> Result<(), TransportError> {
    for _ in 0..IN_FLIGHT {
        if places.are_taken() {
            break;
        }
        match receiver.try_recv()? {
            None => break,
            Some(ToParent::Hello(_)) => return Err(TransportError::PeerMisbehaved("a second Hello")),
            Some(message) => {
                let in_flight = places.take();
                let _ = events.send(HubEvent::Message { key, message, in_flight });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "receive/tests.rs"]
mod tests;
