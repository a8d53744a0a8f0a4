//! Finds the processes or the thread that can end a wait.
//!
//! Called by the reader of observed programs and by the thread that answers questions, one at a
//! time. Invariants: at most [`MAX_LOOK_UPS`]
//! look-ups a second are made. The descriptors of all processes and the connections of TCP are read
//! only for an unknown object or if they are old, with pauses (`read_pause`).

use std::collections::HashMap;
use std::io::Read;
use std::time::{Duration, Instant};

use crate::call::{Direction, LockScope, WaitSubject, WaitingCall};
use crate::clock::now;
use crate::ends::Ends;
use crate::file_locks;
use crate::members::{MAX_MEMBERS, Member, ReadMemory, polled, selected};
use crate::object::{DescriptorTable, WaitObject};
use crate::read_pause::ReadPause;
use crate::target::{Holders, WaitKind, WaitTarget};
use crate::tasks;
use crate::tcp::{TcpConnections, TcpPeer};
use crate::unix_sockets;

/// The maximum number of look-ups a second.
const MAX_LOOK_UPS: u32 = 400;
/// The maximum number of bytes that are read of the list of file locks.
const MAX_LOCK_BYTES: u64 = 1 << 20;
/// How long the target of a wait for a set of epoll is kept.
const SETS_LAST: Duration = Duration::from_millis(100);
/// The offset of the owner's number from the lock word of a mutex of glibc.
const OWNER_AT: u64 = 8;

/// A thread that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiter {
    table: DescriptorTable,
}

/// Finds the holders of the objects that threads wait for.
#[derive(Debug)]
pub struct WaitResolver {
    ends: Ends,
    tcp: TcpConnections,
    descriptors_read: ReadPause,
    /// The pause of the tables of TCP. The system needs milliseconds for them, even if there are
    /// few connections.
    tcp_read: ReadPause,
    /// The system's list of file locks.
    locks: String,
    locks_read: ReadPause,
    second: Instant,
    look_ups: u32,
    /// The waits for sets of descriptors that were looked up since `sets_read`.
    sets: HashMap<(u32, i32), WaitTarget>,
    sets_read: Instant,
}

impl Default for WaitResolver {
    fn default() -> Self {
        Self::new()
    }
}

impl WaitResolver {
    /// A resolver that knows nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::with_pauses(true)
    }

    fn with_pauses(has_pauses: bool) -> Self {
        Self {
            ends: Ends::default(),
            tcp: TcpConnections::default(),
            descriptors_read: ReadPause::new(has_pauses),
            tcp_read: ReadPause::new(has_pauses),
            locks: String::new(),
            locks_read: ReadPause::new(has_pauses),
            second: now(),
            look_ups: 0,
            sets: HashMap::new(),
            sets_read: now(),
        }
    }

    /// A resolver that reads everything anew whenever it is asked.
    pub(crate) fn without_pauses() -> Self {
        Self::with_pauses(false)
    }

    /// Forgets a process that has ended.
    pub fn forget(&mut self, process: u32) {
        self.ends.forget(process);
    }

    /// For whom a thread of a process waits in a call. `processes` are those whose descriptors are
    /// looked at; `memory` reads the memory of the process. `None` if this cannot be looked up now,
    /// because too many look-ups were made or the last reading was too recent.
    pub fn resolve(
        &mut self,
        (process, thread): (u32, u32),
        call: &WaitingCall,
        processes: &dyn Fn() -> Vec<u32>,
        memory: ReadMemory<'_>,
    ) -> Option<WaitTarget> {
        let waiter = Waiter {
            table: DescriptorTable { process, thread },
        };
        let simple = |kind| Some(WaitTarget::new(kind, Holders::NoProcess));
        match call.subject() {
            WaitSubject::Sleep => return simple(WaitKind::Sleep),
            WaitSubject::Signal => return simple(WaitKind::Signal),
            WaitSubject::Disk => return simple(WaitKind::File),
            WaitSubject::Other => {
                return Some(WaitTarget::new(WaitKind::Other, Holders::Unknown));
            }
            _ => {}
        }
        if !self.may_look_up() {
            return None;
        }
        self.descriptors_read.begin_wait();
        self.tcp_read.begin_wait();
        self.locks_read.begin_wait();
        match call.subject() {
            WaitSubject::Descriptor(descriptor, waits) => {
                self.for_descriptor(waiter, descriptor, Some(waits), processes)
            }
            WaitSubject::ChildOfDescriptor(descriptor) => {
                self.for_descriptor(waiter, descriptor, None, processes)
            }
            WaitSubject::Child(child) => Some(for_child(process, child)),
            WaitSubject::Word { address, lock } => {
                let target = for_word((process, thread), (address, lock), processes, memory);
                Some(target)
            }
            WaitSubject::FileLock(_) => {
                let locks = &mut self.locks;
                self.locks_read.read(|| *locks = read_locks())?;
                Some(for_file_lock(process, &self.locks))
            }
            set => self.for_set(waiter, set, processes, memory),
        }
    }

    /// The wait for a set of descriptors. A set of epoll has many members, so it is looked up once
    /// in [`SETS_LAST`].
    fn for_set(
        &mut self,
        waiter: Waiter,
        set: WaitSubject,
        processes: &dyn Fn() -> Vec<u32>,
        memory: ReadMemory<'_>,
    ) -> Option<WaitTarget> {
        if self.sets_read.elapsed() >= SETS_LAST {
            self.sets_read = now();
            self.sets.clear();
        }
        let members = match set {
            WaitSubject::Poll { address, count, .. } => polled(address, count, memory),
            WaitSubject::Select { count, reads } => selected(count, reads, memory),
            _ => Vec::new(),
        };
        // Another list is cheap to read, and may have the same place and the same numbers.
        let WaitSubject::Epoll(descriptor) = set else {
            let is_select = matches!(set, WaitSubject::Select { .. });
            return self.for_all(waiter, (&members, is_select), processes);
        };
        let key = (waiter.table.process, descriptor);
        if let Some(known) = self.sets.get(&key) {
            return Some(known.clone());
        }
        let members = waiter.table.members_of_epoll(descriptor, MAX_MEMBERS);
        let target = self.for_all(waiter, (&members, false), processes)?;
        self.sets.insert(key, target.clone());
        Some(target)
    }

    fn may_look_up(&mut self) -> bool {
        if self.second.elapsed() >= Duration::from_secs(1) {
            self.second = now();
            self.look_ups = 0;
        }
        self.look_ups = self.look_ups.saturating_add(1);
        self.look_ups <= MAX_LOOK_UPS
    }

    /// The wait for the only descriptor that another process can answer; otherwise for events. If
    /// there is no such descriptor, but a pipe from which other processes read, too, or a pipe of
    /// its own in a `select`, the process waits for its children, as a job server (`make -j`) does:
    /// a signal ends the call when a job has ended.
    fn for_all(
        &mut self,
        waiter: Waiter,
        (members, is_select): (&[Member], bool),
        processes: &dyn Fn() -> Vec<u32>,
    ) -> Option<WaitTarget> {
        let mut named = Vec::new();
        let mut awaits_jobs = false;
        for (descriptor, waits) in members {
            let target = self.for_descriptor(waiter, *descriptor, Some(*waits), processes)?;
            let own = [waiter.table.process];
            if *waits == Direction::Reads && self.is_inherited(waiter, *descriptor) {
                awaits_jobs = true;
                continue;
            }
            let is_own_pipe = target.kind == WaitKind::Pipe
                && matches!(&target.holders, Holders::Processes(all) if *all == own);
            awaits_jobs |= is_select && is_own_pipe;
            let is_named = match &target.holders {
                Holders::Processes(all) => *all != own,
                Holders::Address(_) => true,
                _ => false,
            };
            if is_named && !named.contains(&target) {
                named.push(target);
            }
        }
        Some(match &named[..] {
            [one] => one.clone(),
            [] if awaits_jobs => for_child(waiter.table.process, None),
            [] => WaitTarget::new(WaitKind::Events, Holders::Unknown),
            _ => WaitTarget::new(WaitKind::Events, united(&named)),
        })
    }

    /// Whether other processes, too, hold the end of a pipe from which a process reads. No process
    /// answers on such a pipe in a set: it tells its readers that a process has ended, or it holds
    /// the tokens of a job server.
    fn is_inherited(&self, waiter: Waiter, descriptor: i32) -> bool {
        let Some(object) = waiter.table.object(descriptor) else {
            return false;
        };
        let is_pipe = matches!(object, WaitObject::Pipe(_) | WaitObject::Fifo(..));
        let readers = || self.ends.able(object, Some(Direction::Writes));
        is_pipe && readers().iter().any(|one| *one != waiter.table.process)
    }

    fn for_descriptor(
        &mut self,
        waiter: Waiter,
        descriptor: i32,
        waits: Option<Direction>,
        processes: &dyn Fn() -> Vec<u32>,
    ) -> Option<WaitTarget> {
        let Some(object) = waiter.table.object(descriptor) else {
            return Some(WaitTarget::new(WaitKind::Other, Holders::Unknown));
        };
        let process = waiter.table.process;
        Some(match object {
            WaitObject::Pipe(_) | WaitObject::Fifo(..) => {
                self.ends.note_user(object, process);
                self.for_object(WaitKind::Pipe, (object, waits), process, processes)?
            }
            WaitObject::Socket(inode) => {
                self.ends.note_user(object, process);
                self.for_socket(inode, process, processes)?
            }
            WaitObject::EventCounter(_) => {
                self.for_object(WaitKind::EventCounter, (object, None), process, processes)?
            }
            WaitObject::Process(pid) => {
                WaitTarget::new(WaitKind::Process, Holders::Processes(vec![pid]))
            }
            WaitObject::Epoll => WaitTarget::new(WaitKind::Events, Holders::Unknown),
            WaitObject::Timer => WaitTarget::new(WaitKind::Sleep, Holders::NoProcess),
            WaitObject::Terminal => WaitTarget::new(WaitKind::Terminal, Holders::NoProcess),
            WaitObject::File => WaitTarget::new(WaitKind::File, Holders::NoProcess),
        })
    }

    fn for_socket(
        &mut self,
        inode: u64,
        process: u32,
        processes: &dyn Fn() -> Vec<u32>,
    ) -> Option<WaitTarget> {
        if let Some(peer) = unix_sockets::peer(inode) {
            let peer = (WaitObject::Socket(peer), None);
            return self.for_object(WaitKind::UnixSocket, peer, process, processes);
        }
        let object = WaitObject::Socket(inode);
        if !self.tcp.contains(inode) && !self.ends.is_checked(object) {
            self.read_connections()?;
            self.ends.check(object);
        }
        Some(match self.tcp.peer(inode) {
            Some(TcpPeer::Here(peer)) => {
                let peer = (WaitObject::Socket(peer), None);
                self.for_object(WaitKind::Tcp, peer, process, processes)?
            }
            Some(TcpPeer::Elsewhere(address)) => {
                WaitTarget::new(WaitKind::Tcp, Holders::Address(address))
            }
            None => WaitTarget::new(WaitKind::Socket, Holders::Unknown),
        })
    }

    /// The wait for an object. The descriptors of all processes are read if no holder is known, or
    /// only the waiting process.
    fn for_object(
        &mut self,
        kind: WaitKind,
        (object, waits): (WaitObject, Option<Direction>),
        process: u32,
        processes: &dyn Fn() -> Vec<u32>,
    ) -> Option<WaitTarget> {
        if self.descriptors_read.is_old() {
            // A holder may have closed its end, or another process may have inherited one. If it is
            // too early, what is known counts.
            let _ = self.read_descriptors(processes);
        }
        let mut all = self.ends.holders(object, waits, process);
        if (all.is_empty() || all == [process]) && !self.ends.is_checked(object) {
            self.read_descriptors(processes)?;
            self.ends.check(object);
            all = self.ends.holders(object, waits, process);
        }
        let holders = if all.is_empty() {
            Holders::NotRecorded
        } else {
            Holders::Processes(all)
        };
        Some(WaitTarget {
            able: self.ends.able(object, waits).into_iter().collect(),
            ..WaitTarget::new(kind, holders)
        })
    }

    /// Reads the descriptors of all processes. `None` if it is too early for that.
    fn read_descriptors(&mut self, processes: &dyn Fn() -> Vec<u32>) -> Option<()> {
        let ends = &mut self.ends;
        self.descriptors_read.read(|| {
            let mut all = processes();
            // A process may have been forked a moment ago, and not be among them yet.
            all.extend(all.clone().into_iter().flat_map(tasks::started_by));
            all.sort_unstable();
            all.dedup();
            ends.read(&all);
        })
    }

    /// Reads the connections of TCP. `None` if it is too early for that.
    fn read_connections(&mut self) -> Option<()> {
        let tcp = &mut self.tcp;
        self.tcp_read.read(|| *tcp = TcpConnections::read())
    }
}

fn for_child(process: u32, child: Option<u32>) -> WaitTarget {
    let children = match child {
        Some(child) => tasks::child(process, child).into_iter().collect(),
        None => tasks::children(process),
    };
    let holders = if children.is_empty() {
        Holders::Unknown
    } else {
        Holders::Processes(children)
    };
    WaitTarget::new(WaitKind::Process, holders)
}

/// The wait for a word of memory. The mutexes of the C library contain the number of their owner.
/// The same word in other code may be followed by any number: it is an owner only if it is that of
/// a thread that can own the lock.
fn for_word(
    (process, thread): (u32, u32),
    (address, lock): (u64, Option<LockScope>),
    processes: &dyn Fn() -> Vec<u32>,
    memory: ReadMemory<'_>,
) -> WaitTarget {
    let unknown = || WaitTarget::new(WaitKind::Word, Holders::Unknown);
    let mut room = [0; 4];
    let owner = address.wrapping_add(OWNER_AT);
    let Some(scope) = lock.filter(|_| memory(owner, &mut room)) else {
        return unknown();
    };
    let owner = u32::from_ne_bytes(room);
    if owner == thread || !(2..1 << 22).contains(&owner) {
        return unknown();
    }
    match (tasks::thread(process, owner), scope) {
        (Some((other, owner)), _) if other == process => {
            WaitTarget::new(WaitKind::Mutex, Holders::Thread(owner))
        }
        (Some((other, _)), LockScope::Shared) if is_recorded(other, &processes()) => {
            WaitTarget::new(WaitKind::Mutex, Holders::Processes(vec![other]))
        }
        _ => unknown(),
    }
}

/// Whether a process is one of these, or a child of one that was forked a moment ago.
fn is_recorded(process: u32, all: &[u32]) -> bool {
    let parent = || tasks::parent(process);
    all.contains(&process) || parent().is_some_and(|parent| all.contains(&parent))
}

/// The system's list of file locks, or its beginning.
fn read_locks() -> String {
    let mut text = Vec::new();
    let list = std::fs::File::open("/proc/locks");
    let read = list.and_then(|list| list.take(MAX_LOCK_BYTES).read_to_end(&mut text));
    read.map_or_else(
        |_| String::new(),
        |_| String::from_utf8_lossy(&text).into_owned(),
    )
}

fn for_file_lock(process: u32, locks: &str) -> WaitTarget {
    let holder = file_locks::holder(locks, process);
    let holders = holder.map_or(Holders::Unknown, |holder| Holders::Processes(vec![holder]));
    WaitTarget::new(WaitKind::FileLock, holders)
}

/// The processes of several waits, as one list.
fn united(targets: &[WaitTarget]) -> Holders {
    let mut all = Vec::new();
    for target in targets {
        match &target.holders {
            Holders::Processes(processes) => all.extend(processes),
            _ => return Holders::Unknown,
        }
    }
    all.sort_unstable();
    all.dedup();
    Holders::Processes(all)
}

#[cfg(test)]
mod tests;
