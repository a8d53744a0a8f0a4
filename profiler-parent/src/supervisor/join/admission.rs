//! Decides about processes that ask to join, and makes them processes of the session. Linux.
//!
//! Used by the join thread. What identifies a process comes from the kernel; its name is its own
//! claim. A process that may not join is listed as not profiled, with the reason.
//! Invariants: a process is in the table before it can send its `Hello`; the memory of a process
//! that does not join after all is returned; the processes that have joined, and those that are
//! listed as refused, are limited, and so are those that are watched ([`Limits`]).

mod listed;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipc_protocol::environment::Token;
use ipc_protocol::message::{JoinRefusal, JoinRequest};
use ipc_protocol::transport::TransportError;
use ipc_protocol::transport::joining::Joiner;
use ipc_protocol::transport::listener::Listener;
use profiler_core::ids::{ByteLimit, PoolId, ProcessId, ProcessStart};
use profiler_core::internal::pool;
use profiler_sys::{OwnDescriptor, OwnFile};

use super::limits::Limits;
use super::pool_look::{PoolLook, PoolLooks};
use crate::controller::{Event, Refusal};
use crate::process_table::{EarlierLife, Remains, TrackedProcess};
use crate::supervisor::listen::PendingChild;
use crate::supervisor::outer::Recorded;
use crate::supervisor::spawn::{ask_to_join, make_pool};
use crate::supervisor::{NOT_WAITED, SupervisorContext, SupervisorEvent, SupervisorHandle};
use crate::sys::{ProgramImage, facts_of, name_of, now};

/// The longest time for which a process waits for memory, whatever it says.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Pause between two tries while memory is being freed: doubled each time, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// A process that asks to join, with what the kernel says about it.
#[derive(Debug)]
pub(super) struct Applicant {
    key: PoolId,
    pid: ProcessId,
    start: ProcessStart,
    parent: Option<ProcessId>,
    image: Option<ProgramImage>,
    name: String,
    /// A descriptor of the process (pidfd).
    process: OwnDescriptor<OwnedFd>,
    /// The pool with which the process was spawned, if it is to get that.
    spawned: Option<Arc<OwnFile>>,
    /// A look at the pool of an earlier program of the process.
    look: Option<PoolLook>,
    deadline: Instant,
    pause: Duration,
}

impl Applicant {
    /// When the process is refused if it cannot join before. It waits a little longer, so it learns
    /// the reason.
    pub(super) const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Its process.
    pub(super) const fn pid(&self) -> ProcessId {
        self.pid
    }

    /// The pause until the next attempt.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        pause
    }
}

/// The result of an attempt to join.
#[derive(Debug)]
pub(super) enum Attempt {
    /// The process may record, with this allowance.
    Admitted(ByteLimit),
    /// Another attempt may succeed; the reason is for the last one.
    NotYet(JoinRefusal),
    /// The process may not record.
    Refused(JoinRefusal),
}

/// Lets processes join a session.
#[derive(Debug)]
pub(super) struct Admission {
    pub(super) context: Arc<SupervisorContext>,
    pub(super) supervisor: SupervisorHandle,
    looks: PoolLooks,
}

impl Admission {
    pub(super) fn new(context: Arc<SupervisorContext>, supervisor: SupervisorHandle) -> Self {
        Self {
            context,
            supervisor,
            looks: PoolLooks::default(),
        }
    }

    /// Identifies a process that knows the session's token.
    ///
    /// # Errors
    /// Why it may not join.
    pub(super) fn examine(
        &self,
        joiner: &mut Joiner,
        request: JoinRequest,
    ) -> Result<Applicant, JoinRefusal> {
        let pid = joiner.pid().ok_or(JoinRefusal::Invisible)?;
        let key = pool::new_id().map_err(|error| JoinRefusal::System(error.to_string()))?;
        let process = joiner.take_process(request.start).map_err(no_descriptor)?;
        // If the process has ended, its number may belong to another one by now.
        let is_known = request.start.get() != 0;
        let facts = facts_of(pid).filter(|facts| !is_known || facts.start == request.start);
        let claimed = Some(request.parent).filter(|parent| parent.get() != 0);
        let wait = Duration::from_millis(u64::from(request.patience_ms)).min(LONGEST_WAIT);
        Ok(Applicant {
            key,
            pid,
            start: facts.map_or(request.start, |facts| facts.start),
            parent: facts.map(|facts| facts.parent).or(claimed),
            image: facts.and_then(|facts| facts.image),
            name: Some(request.name)
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| system_name(pid)),
            process,
            spawned: None,
            look: None,
            deadline: now() + wait * 3 / 4,
            pause: FIRST_PAUSE,
        })
    }

    /// Asks the supervisor for an allowance, after it has learned of the end of an earlier program
    /// of the same process.
    pub(super) fn attempt(&self, applicant: &mut Applicant) -> Attempt {
        let (pid, image) = (applicant.pid, applicant.image);
        if let Some((key, pool)) = self.context.processes.let_spawned_join(pid, image) {
            (applicant.key, applicant.spawned) = (key, Some(pool));
            return Attempt::Admitted(ByteLimit::new(0)); // it has its allowance
        }
        let key = applicant.key;
        match self.earlier_life(applicant) {
            None => {}
            Some(EarlierLife::Over(key)) => self.supervisor.send(SupervisorEvent::Executed { key }),
            // Its end may not have been noticed yet.
            Some(EarlierLife::Records | EarlierLife::Unclear { .. }) => {
                return Attempt::NotYet(JoinRefusal::AlreadyRecords);
            }
        }
        let most = Limits::now().joined;
        if self.context.processes.joined() >= most {
            let why = format!("{most} processes have joined, the most that can be watched");
            return Attempt::Refused(JoinRefusal::System(why));
        }
        match ask_to_join(&self.supervisor, key) {
            Ok(allowance) => Attempt::Admitted(allowance),
            Err(why @ Refusal::NotYet { .. }) => {
                Attempt::NotYet(JoinRefusal::NoMemory(why.to_string()))
            }
            Err(why) => Attempt::Refused(JoinRefusal::NoMemory(why.to_string())),
        }
    }

    /// The earlier life of a process. Whether the process maps the pool of it is looked up once.
    fn earlier_life(&self, applicant: &mut Applicant) -> Option<EarlierLife> {
        let processes = &self.context.processes;
        let life = processes.earlier_life(applicant.pid, applicant.image)?;
        let EarlierLife::Unclear {
            key,
            pool,
            has_hung_up,
        } = &life
        else {
            return Some(life);
        };
        let mut look = match applicant.look.take().filter(|look| look.key == *key) {
            Some(look) => look,
            None => self.looks.begin(*key, applicant.pid, Arc::clone(pool)),
        };
        let is_over = look
            .answer()
            .map(|is_mapped| is_mapped.map_or(*has_hung_up, |is_mapped| !is_mapped));
        applicant.look = Some(look);
        Some(match is_over {
            Some(true) => EarlierLife::Over(*key),
            Some(false) => EarlierLife::Records,
            None => life,
        })
    }

    /// Makes a process of the session, and sends it its pool.
    pub(super) fn admit(&self, joiner: &Joiner, applicant: Applicant, allowance: ByteLimit) {
        match applicant.spawned.clone() {
            Some(pool) => {
                let Applicant { key, pid, .. } = applicant;
                let listener = joiner.channel();
                let processes = &self.context.processes;
                processes.set_channel(key, listener.cancel_handle());
                self.hand_over(joiner, (key, pid), listener, &pool);
            }
            None => self.add(joiner, applicant, allowance),
        }
    }

    /// Makes a process of the session that it has not started, and sends it its pool.
    fn add(&self, joiner: &Joiner, applicant: Applicant, allowance: ByteLimit) {
        let pool = match make_pool(&self.context, applicant.key, allowance, &applicant.name) {
            Ok(pool) => pool,
            Err(error) => {
                let why = format!("its memory cannot be made: {error}");
                return self.refuse(joiner, applicant, JoinRefusal::System(why));
            }
        };
        let Applicant {
            key,
            pid,
            start,
            parent,
            image,
            name,
            process,
            ..
        } = applicant;
        let listener = joiner.channel();
        let remains = Remains::Pool(Arc::clone(&pool));
        let entry = TrackedProcess::joined(&name, (pid, start), parent, remains)
            .with_pool_in_file(self.context.pools.is_some())
            .with_channel(listener.cancel_handle())
            .with_image(image);
        self.context.processes.add(key, entry);
        if let Err(error) = self.watch(key, process, pid, start) {
            joiner.refuse(JoinRefusal::System(error.to_string()));
            self.forget(key);
            self.context.processes.remove(key);
            return;
        }
        if self.hand_over(joiner, (key, pid), listener, &pool) {
            self.context.tell_outer(Recorded::here(&name, pid, parent));
        }
    }

    /// Sends a process its pool, and listens to it. False if the process did not get it.
    fn hand_over(
        &self,
        joiner: &Joiner,
        (key, pid): (PoolId, ProcessId),
        listener: Listener,
        pool: &OwnFile,
    ) -> bool {
        let token = match welcome(joiner, pool) {
            Ok(token) => token,
            Err(why) => {
                self.take_back(key, why);
                return false;
            }
        };
        let child = PendingChild {
            key,
            pid,
            listener,
            token,
        };
        let added = self.supervisor.receivers().add_child(child);
        let failed = added.map_err(|error| self.take_back(key, error.to_string()));
        failed.is_ok()
    }

    /// Takes the memory of a process back that did not get it. The process stays listed.
    fn take_back(&self, key: PoolId, why: String) {
        let watcher = self.supervisor.watcher();
        self.context.take_back(watcher, key, why);
        self.supervisor
            .send(SupervisorEvent::Accounting(Event::Forgotten { key }));
    }

    /// Returns the allowance and the pool.
    fn forget(&self, key: PoolId) {
        self.context.forget_pool(key);
        self.context.groups.forget_reader(key);
        self.supervisor
            .send(SupervisorEvent::Accounting(Event::Forgotten { key }));
    }
}

/// Sends the pool. Returns the token that the process's `Hello` must contain.
fn welcome(joiner: &Joiner, pool: &OwnFile) -> Result<Token, String> {
    let token = Token::generate().map_err(|error| error.to_string())?;
    let file = pool
        .get()
        .map_err(|error| io::Error::from(error).to_string())?;
    match joiner.welcome(file, &token) {
        Ok(()) => Ok(token),
        Err(TransportError::Disconnected) => Err(NOT_WAITED.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The refusal of a process that cannot be watched.
fn no_descriptor(error: io::Error) -> JoinRefusal {
    match error.kind() {
        io::ErrorKind::NotFound => JoinRefusal::Invisible,
        _ => JoinRefusal::System(format!("it cannot be watched: {error}")),
    }
}

fn system_name(pid: ProcessId) -> String {
    name_of(pid)
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "process".to_owned())
}
