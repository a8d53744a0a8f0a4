//! Linux: one thread that receives what all children send.
//!
//! ```text
//! spawn ── add_child ─────────┐                       ┌── Connected, Message, Closed ──▶ supervisor
//!                             ├─▶ requests, wake ─▶ thread
//! supervisor ── slot released ┘                       └── waits for all sockets (ReadySet)
//! ```
//!
//! The thread never blocks on one child: `try_recv` returns `None` if no complete packet is queued.
//! While `IN_FLIGHT` messages of a child wait for the supervisor, the set does not contain the
//! child's socket.
//!
//! The program may close any descriptor. `epoll` removes a closed socket without an event.
//! Therefore the thread checks all sockets once a second. If the program has closed the set, the
//! thread creates a new one.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::Sender;
use ipc_protocol::message::ToParent;
use ipc_protocol::transport::listener::TryAccept;
use ipc_protocol::transport::ready::{ChannelNumber, ReadySet};
use ipc_protocol::transport::{Receiver, TransportError};
use profiler_core::ids::PoolId;
use profiler_sys::spawn_quiet;

use super::slots::MessageSlots;
use super::{IN_FLIGHT, PendingChild};
use crate::supervisor::SupervisorEvent;
use crate::sys::now;

/// The thread checks all sockets at this interval.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long the end of a session waits for the thread.
const STOP_PATIENCE: Duration = Duration::from_secs(1);
/// The pause if a set cannot be waited for, or no new one can be created.
const RETRY: Duration = Duration::from_millis(100);

/// Receives the messages of all children of a session.
#[derive(Debug)]
pub(crate) struct ChildReceivers {
    mailbox: Arc<Mailbox>,
    /// Disconnected when the thread has ended all channels.
    ended: crossbeam_channel::Receiver<()>,
}

/// Requests from other threads to the receive thread.
#[derive(Debug)]
struct Mailbox {
    set: Mutex<Arc<ReadySet>>,
    requests: Mutex<Requests>,
}

#[derive(Debug, Default)]
struct Requests {
    added: Vec<PendingChild>,
    /// Channels that have a free slot again.
    unblocked: Vec<ChannelNumber>,
    is_stopped: bool,
}

impl ChildReceivers {
    /// Starts the thread. It sends all events to `events`.
    ///
    /// # Errors
    /// When the system refuses a thread or descriptor.
    pub(crate) fn start(events: Sender<SupervisorEvent>) -> io::Result<Self> {
        let set = Mutex::new(Arc::new(ReadySet::new()?));
        let mailbox = Arc::new(Mailbox {
            set,
            requests: Mutex::default(),
        });
        let receiver = ReceiveThread {
            mailbox: Arc::clone(&mailbox),
            events,
            channels: BTreeMap::new(),
            next: ChannelNumber::FIRST,
        };
        let (running, ended) = crossbeam_channel::bounded(0);
        spawn_quiet("profiler-receive", move || receiver.run(running))?;
        Ok(Self { mailbox, ended })
    }

    /// Starts to receive from a child.
    ///
    /// # Errors
    /// Never on Linux. On other systems, when no thread can be created.
    #[allow(clippy::unnecessary_wraps)]
    pub(crate) fn add_child(&self, child: PendingChild) -> io::Result<()> {
        self.mailbox.ask(|requests| requests.added.push(child));
        Ok(())
    }

    /// Ends the thread, and with it all open channels. Waits at most [`STOP_PATIENCE`] for the
    /// thread, and does not wait until the channels' resources are closed.
    pub(crate) fn stop(&self) {
        self.mailbox.ask(|requests| requests.is_stopped = true);
        let _ = self.ended.recv_timeout(STOP_PATIENCE);
    }
}

impl Drop for ChildReceivers {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Mailbox {
    fn ask(&self, change: impl FnOnce(&mut Requests)) {
        change(&mut self.requests.lock().unwrap_or_else(PoisonError::into_inner));
        let set = Arc::clone(&self.set()); // `wake` runs without the lock
        set.wake();
    }

    fn set(&self) -> MutexGuard<'_, Arc<ReadySet>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Requests {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let is_stopped = requests.is_stopped;
        Requests {
            is_stopped,
            ..std::mem::take(&mut *requests)
        }
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
    /// The child has not sent `Hello`.
    Pending(PendingChild),
    /// The child has sent `Hello`.
    Open {
        receiver: Receiver<ToParent>,
        slots: Arc<MessageSlots>,
    },
}

/// The state of the receive thread.
#[derive(Debug)]
struct ReceiveThread {
    mailbox: Arc<Mailbox>,
    events: Sender<SupervisorEvent>,
    channels: BTreeMap<ChannelNumber, Channel>,
    next: ChannelNumber,
}

impl ReceiveThread {
    /// Drops `running` when all channels have been taken out of the set.
    fn run(mut self, running: Sender<()>) {
        let mut set = Arc::clone(&self.mailbox.set());
        let mut checked = now();
        loop {
            let requests = self.mailbox.take();
            if requests.is_stopped {
                self.channels
                    .values()
                    .for_each(|channel| channel.remove_from(&set));
                return drop(running);
            }
            self.apply(&set, requests);
            let Ok(ready) = set.wait(CHECK_INTERVAL) else {
                std::thread::sleep(RETRY); // the set is closed, or a sandbox forbids the wait
                set = self.working_set();
                continue;
            };
            let mut has_unknown = false;
            for number in ready.channels {
                has_unknown |= !self.receive_from(&set, number);
            }
            if checked.elapsed() >= CHECK_INTERVAL {
                checked = now();
                self.close_lost();
                set = self.working_set();
            }
            // An unknown number: a forked process holds a closed socket open. A new set does not
            // contain it.
            if has_unknown {
                set = self.new_set().unwrap_or_else(|| {
                    std::thread::sleep(RETRY); // no descriptor is left
                    set
                });
            }
        }
    }

    fn apply(&mut self, set: &ReadySet, requests: Requests) {
        for child in requests.added {
            let number = self.next;
            self.next = number.next();
            self.insert(
                set,
                number,
                Channel {
                    key: child.key,
                    stage: Stage::Pending(child),
                },
            );
        }
        for number in requests.unblocked {
            self.wait_for(set, number);
        }
    }

    /// The set, or a new one if the program has closed it.
    fn working_set(&mut self) -> Arc<ReadySet> {
        let set = Arc::clone(&self.mailbox.set());
        if set.is_ours() {
            set
        } else {
            self.new_set().unwrap_or(set)
        }
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

    /// Adds a channel and waits for it.
    fn insert(&mut self, set: &ReadySet, number: ChannelNumber, channel: Channel) {
        self.channels.insert(number, channel);
        self.wait_for(set, number);
    }

    /// Adds the channel's socket to the set unless all slots of the channel are in use.
    fn wait_for(&mut self, set: &ReadySet, number: ChannelNumber) {
        let Some(channel) = self.channels.get(&number) else {
            return;
        };
        if channel.is_blocked() {
            return;
        }
        let added = channel
            .socket()
            .and_then(|socket| Ok(set.add(number, socket)?));
        if let Err(error) = added
            && set.is_ours()
        {
            self.close(number, error);
        } // otherwise `working_set` adds the channel to a new set
    }

    /// Receives from a ready channel. Returns `false` if no channel has this number.
    fn receive_from(&mut self, set: &ReadySet, number: ChannelNumber) -> bool {
        let Some(channel) = self.channels.get_mut(&number) else {
            return false;
        };
        let key = channel.key;
        let events = &self.events;
        if let Stage::Open { receiver, slots } = &mut channel.stage {
            let received = catch_panic(|| receive(key, receiver, slots, events));
            if received.is_err() || slots.is_full() {
                channel.remove_from(set);
            }
            if let Err(error) = received {
                self.close(number, error);
            }
            return true;
        }
        channel.remove_from(set); // before its socket is closed or changes
        if let Some(Channel {
            stage: Stage::Pending(child),
            ..
        }) = self.channels.remove(&number)
        {
            match catch_panic(|| accept_hello(child, &self.mailbox, events, number)) {
                Ok(stage) => self.insert(set, number, Channel { key, stage }),
                Err(error) => drop(self.events.send(SupervisorEvent::Closed { key, error })),
            }
        }
        true
    }

    /// Ends the channels whose sockets the program has closed.
    fn close_lost(&mut self) {
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
        if let Some(channel) = self.channels.remove(&number) {
            let key = channel.key;
            // ipc-channel panics if its descriptor cannot be closed.
            let _ = catch_panic(|| {
                drop(channel);
                Ok(())
            });
            let _ = self.events.send(SupervisorEvent::Closed { key, error });
        }
    }
}

impl Channel {
    fn is_blocked(&self) -> bool {
        matches!(&self.stage, Stage::Open { slots, .. } if slots.is_full())
    }

    fn socket(&self) -> Result<BorrowedFd<'_>, TransportError> {
        match &self.stage {
            Stage::Pending(child) => child.listener.socket(),
            Stage::Open { receiver, .. } => receiver.socket(),
        }
    }

    /// Removes the channel's socket from the set.
    fn remove_from(&self, set: &ReadySet) {
        if let Ok(socket) = self.socket() {
            set.remove(socket);
        }
    }
}

/// Converts a panic into an error, so that it closes only this child's channel.
fn catch_panic<T>(
    receive: impl FnOnce() -> Result<T, TransportError>,
) -> Result<T, TransportError> {
    catch_unwind(AssertUnwindSafe(receive)).unwrap_or(Err(TransportError::PeerMisbehaved(
        "a message that caused a panic",
    )))
}

/// Accepts a child if its `Hello` has arrived.
fn accept_hello(
    child: PendingChild,
    mailbox: &Arc<Mailbox>,
    events: &Sender<SupervisorEvent>,
    number: ChannelNumber,
) -> Result<Stage, TransportError> {
    let PendingChild {
        key,
        pid,
        listener,
        token,
    } = child;
    let accepted = match listener.try_accept(&token, pid)? {
        TryAccept::Accepted(accepted) => accepted,
        TryAccept::Waiting(listener) => {
            return Ok(Stage::Pending(PendingChild {
                key,
                pid,
                listener,
                token,
            }));
        }
    };
    let receiver = accepted.ends.receiver;
    let _ = events.send(SupervisorEvent::Connected {
        key,
        hello: accepted.hello,
        sender: accepted.ends.sender,
    });
    let mailbox = Arc::downgrade(mailbox);
    let slots = MessageSlots::new(move || {
        if let Some(mailbox) = mailbox.upgrade() {
            mailbox.ask(|requests| requests.unblocked.push(number));
        }
    });
    Ok(Stage::Open { receiver, slots })
}

/// Receives messages while slots are free, and sends them to the supervisor.
fn receive(
    key: PoolId,
    receiver: &mut Receiver<ToParent>,
    slots: &Arc<MessageSlots>,
    events: &Sender<SupervisorEvent>,
) -> Result<(), TransportError> {
    for _ in 0..IN_FLIGHT {
        if slots.is_full() {
            break;
        }
        match receiver.try_recv()? {
            None => break,
            Some(ToParent::Hello(_)) => {
                return Err(TransportError::PeerMisbehaved("a second Hello"));
            }
            Some(message) => {
                let in_flight = slots.acquire();
                let _ = events.send(SupervisorEvent::Message {
                    key,
                    message,
                    in_flight,
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "receive/tests.rs"]
mod tests;
