//! The thread that accepts processes at the session's address. Linux.
//!
//! The thread waits for no process: a connection that is silent, or whose process waits for memory,
//! is kept with a deadline. Invariants:
//!
//! - A limited number of connections is kept ([`Limits`]). If there are more, the silent one that
//!   is oldest is closed, so that silent processes cannot keep others out. A process waits for
//!   memory over one connection. No connection is accepted while many sockets wait to be closed.
//! - A packet is received as from an untrusted child; see [`ipc_protocol::transport::joining`].
//! - The thread leaves half of the descriptors that this process may have to the host; see
//!   [`Limits`].
//! - If the program has closed the socket or the set, new ones are made within a second, at the
//!   same address.

mod kept;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use ipc_protocol::environment::Token;
use ipc_protocol::message::{JoinRefusal, JoinRequest, Opening};
use ipc_protocol::transport::TransportError;
use ipc_protocol::transport::joining::{Joiner, SessionListener, refusal_for};
use ipc_protocol::transport::ready::{ChannelNumber, ReadySet};

use super::admission::{Admission, Applicant, Attempt};
use super::imp::Mailbox;
use super::limits::Limits;
use super::pending::{Pending, Stage, Waiting};
use crate::sys::now;

/// Connections that are accepted before the other ones are served.
const ACCEPTED_AT_ONCE: usize = 64;
/// The most times that connections are accepted for one capture.
const ROUNDS: usize = 64;
/// How long a connection may be silent. A process sends its request at once.
const SILENCE: Duration = Duration::from_secs(1);
/// The thread checks its descriptors at this interval.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The pause if the system has no descriptor left, or the set cannot be waited for.
const RETRY: Duration = Duration::from_millis(50);
/// The number of the listening socket in the set.
const LISTENER: ChannelNumber = ChannelNumber::FIRST;

/// The state of the thread.
#[derive(Debug)]
pub(super) struct JoinThread {
    mailbox: Arc<Mailbox>,
    listener: SessionListener,
    token: Token,
    admission: Admission,
    /// In the order in which they connected.
    pending: BTreeMap<ChannelNumber, Pending>,
    next: ChannelNumber,
    /// No connection is accepted before this time, because no descriptor was left.
    deaf_until: Option<Instant>,
}

impl JoinThread {
    pub(super) const fn new(
        mailbox: Arc<Mailbox>,
        listener: SessionListener,
        token: Token,
        admission: Admission,
    ) -> Self {
        Self {
            mailbox,
            listener,
            token,
            admission,
            pending: BTreeMap::new(),
            next: LISTENER.next(),
            deaf_until: None,
        }
    }

    /// Drops `running` when no process can join any more.
    pub(super) fn run(mut self, running: Sender<()>) {
        let mut set = Arc::clone(&self.mailbox.set());
        self.listen(&set);
        let mut checked = now();
        while !self.mailbox.is_stopped() {
            let Ok(ready) = set.wait(self.until_next_step()) else {
                std::thread::sleep(RETRY); // the set is closed, or a sandbox forbids the wait
                set = self.new_set().unwrap_or(set);
                continue;
            };
            let waiting = self.mailbox.take_waiting();
            let mut has_unknown = false;
            for number in ready.channels {
                has_unknown |= !self.serve(&set, number);
            }
            if !waiting.is_empty() {
                self.catch_up(&set);
            }
            drop(waiting); // the captures go on
            self.go_on(&set);
            let is_due = checked.elapsed() >= CHECK_INTERVAL;
            if is_due {
                checked = now();
                self.renew_listener(&set);
            }
            // An unknown number: a forked process holds a closed socket open. A new set does not
            // contain it.
            if has_unknown || (is_due && !set.is_ours()) {
                set = self.new_set().unwrap_or_else(|| {
                    std::thread::sleep(RETRY); // no descriptor is left
                    set
                });
            }
        }
        self.listener.remove_files();
        drop(running);
        // Closing the sockets may take long if hostile processes have attached files to packets.
        drop(self);
    }

    /// The time until a deadline or the next attempt.
    fn until_next_step(&self) -> Duration {
        let steps = self
            .pending
            .values()
            .map(Pending::next_step)
            .chain(self.deaf_until);
        let next = steps.min();
        let now = now();
        next.map_or(CHECK_INTERVAL, |next| next.saturating_duration_since(now))
            .min(CHECK_INTERVAL)
    }

    /// Waits for the listening socket.
    fn listen(&self, set: &ReadySet) {
        if let Ok(socket) = self.listener.socket() {
            let _ = set.add(LISTENER, socket); // an error: the next check makes a new set
        }
    }

    /// Listens again if the program has closed the socket.
    fn renew_listener(&mut self, set: &ReadySet) {
        if self.listener.socket().is_err() && self.listener.renew().is_ok() {
            self.listen(set);
        }
    }

    /// A new set with all sockets.
    fn new_set(&mut self) -> Option<Arc<ReadySet>> {
        let new = Arc::new(ReadySet::new().ok()?);
        *self.mailbox.set() = Arc::clone(&new);
        self.listen(&new);
        for (number, pending) in &self.pending {
            if let Ok(socket) = pending.joiner.socket() {
                let _ = new.add(*number, socket); // an error: its deadline ends the connection
            }
        }
        Some(new)
    }

    /// Serves a socket that is ready. Returns `false` if none has this number.
    fn serve(&mut self, set: &ReadySet, number: ChannelNumber) -> bool {
        if number == LISTENER {
            self.accept(set);
            return true;
        }
        let Some(pending) = self.pending.remove(&number) else {
            return false;
        };
        if let Ok(socket) = pending.joiner.socket() {
            set.remove(socket); // before it is closed
        }
        self.hear(set, number, pending);
        true
    }

    /// Meets all processes that have connected until now.
    fn catch_up(&mut self, set: &ReadySet) {
        for _ in 0..ROUNDS {
            if !self.accept(set) {
                break;
            }
        }
    }

    /// Returns whether more processes may wait.
    fn accept(&mut self, set: &ReadySet) -> bool {
        let most = Limits::now().pending;
        for _ in 0..ACCEPTED_AT_ONCE {
            if self.listener.closing() >= most {
                self.be_deaf(set);
                return false;
            }
            match self.listener.try_accept() {
                Ok(Some(joiner)) => self.meet(set, joiner),
                // The next check listens again.
                Ok(None) | Err(TransportError::DescriptorLost(_)) => return false,
                Err(_) => {
                    self.be_deaf(set);
                    return false;
                }
            }
        }
        true
    }

    /// Accepts no connection for a moment.
    fn be_deaf(&mut self, set: &ReadySet) {
        if let Ok(socket) = self.listener.socket() {
            set.remove(socket);
        }
        self.deaf_until = Some(now() + RETRY);
    }

    /// Takes a new connection. Its request has usually arrived already.
    fn meet(&mut self, set: &ReadySet, joiner: Joiner) {
        if !joiner.is_of_this_user() {
            return joiner.refuse(JoinRefusal::OtherUser);
        }
        let number = self.next;
        self.next = number.next();
        let pending = Pending {
            joiner,
            deadline: now() + SILENCE,
            stage: Stage::Silent,
        };
        self.hear(set, number, pending);
    }

    /// Receives from a connection that is not in the set.
    fn hear(&mut self, set: &ReadySet, number: ChannelNumber, mut pending: Pending) {
        let received = pending.joiner.try_receive();
        let applicant = match pending.stage {
            Stage::Silent => None,
            Stage::Waiting(waiting) => Some(waiting),
        };
        match (received, applicant) {
            (Ok(None), applicant) => {
                pending.stage = applicant.map_or(Stage::Silent, Stage::Waiting);
                self.keep(set, number, pending);
            }
            (Err(TransportError::Disconnected), None) => {} // it has left without a request
            (Err(TransportError::Disconnected), Some(waiting)) => {
                self.admission.give_up(waiting.applicant);
            }
            (Ok(Some(_)), Some(waiting)) => {
                let why = JoinRefusal::Misbehaved("a second request".to_owned());
                self.admission
                    .refuse(&pending.joiner, waiting.applicant, why);
            }
            (Err(error), Some(waiting)) => {
                let why = refusal_for(&error);
                self.admission
                    .refuse(&pending.joiner, waiting.applicant, why);
            }
            (Err(error), None) => {
                let why = refusal_for(&error);
                self.admission.turn_away(&mut pending.joiner, why);
            }
            (Ok(Some(Opening::Join(request))), None) => {
                pending.stage = Stage::Silent;
                self.answer(set, number, pending, request);
            }
            // A report without the token is ignored; a report has no answer. The numbers in the
            // report of a process that has none here are not those of this process.
            (Ok(Some(Opening::RecordedElsewhere(process))), None) => {
                if process.token == self.token && pending.joiner.pid().is_some() {
                    self.admission.list_elsewhere(&process);
                }
            }
        }
    }

    /// Answers a request, at once or later.
    fn answer(
        &mut self,
        set: &ReadySet,
        number: ChannelNumber,
        mut pending: Pending,
        request: JoinRequest,
    ) {
        if request.token != self.token {
            self.admission
                .turn_away(&mut pending.joiner, JoinRefusal::WrongToken);
        } else {
            self.apply(set, number, pending.joiner, request);
        }
    }

    /// Handles the request of a process that knows the session's token.
    fn apply(
        &mut self,
        set: &ReadySet,
        number: ChannelNumber,
        mut joiner: Joiner,
        request: JoinRequest,
    ) {
        match self.admission.examine(&mut joiner, request) {
            Ok(applicant) => self.attempt(set, number, joiner, applicant),
            Err(why) => self.admission.turn_away(&mut joiner, why),
        }
    }

    /// Tries to let a process join.
    fn attempt(
        &mut self,
        set: &ReadySet,
        number: ChannelNumber,
        joiner: Joiner,
        mut applicant: Applicant,
    ) {
        match self.admission.attempt(&mut applicant) {
            Attempt::Admitted(allowance) => self.admission.admit(&joiner, applicant, allowance),
            Attempt::Refused(why) => self.admission.refuse(&joiner, applicant, why),
            Attempt::NotYet(why) => {
                self.end_other_wait(set, applicant.pid());
                let next_try = now() + applicant.pause();
                let deadline = applicant.deadline();
                let waiting = Waiting {
                    applicant,
                    why,
                    next_try,
                };
                let pending = Pending {
                    joiner,
                    deadline,
                    stage: Stage::Waiting(Box::new(waiting)),
                };
                self.keep(set, number, pending);
            }
        }
    }
}
