//! Finds the processes or the thread that can end a wait.
//!
//! Called by one thread, which looks at waiting threads. Invariants: at most [`MAX_LOOK_UPS`]
//! look-ups a second are made. The descriptors of all processes and the connections of TCP are read
//! only for an unknown object. Each uses at most 1/[`READ_SHARE`] of a processor.

use std::collections::HashMap;
use std::io::Read;
use std::time::{Duration, Instant};

use crate::call::{Direction, LockScope, WaitSubject, WaitingCall};
use crate::ends::Ends;
use crate::file_locks;
use crate::members::{MAX_MEMBERS, Member, ReadMemory, polled, selected};
use crate::object::{DescriptorTable, WaitObject};
use crate::target::{Holders, WaitKind, WaitTarget};
use crate::tasks;
use crate::tcp::{TcpConnections, TcpPeer};
use crate::unix_sockets;

/// The maximum number of look-ups a second.
const MAX_LOOK_UPS: u32 = 400;
/// The shortest and the longest pause between two readings of the descriptors of all processes, or
/// of the tables of TCP.
const READ_PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(60));
/// How many times longer a pause is than the processor time of the reading before it.
const READ_SHARE: u32 = 25;
/// How long the target of a wait for a set is kept.
const MAX_LOCK_BYTES: u64 = 1 << 20;
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
        Self {
            ends: Ends::default(),
            tcp: TcpConnections::default(),
            descriptors_read: ReadPause::new(),
            tcp_read: ReadPause::new(),
            locks: String::new(),
            locks_read: ReadPause::new(),
            second: now(),
            look_ups: 0,
            sets: HashMap::new(),
            sets_read: now(),
        }
    }

    /// A resolver that reads everything anew whenever it is asked.
    pub(crate) fn without_pauses() -> Self {
        let mut resolver = Self::new();
        resolver.descriptors_read.has_no_pause = true;
        resolver.tcp_read.has_no_pause = true;
        resolver.locks_read.has_no_pause = true;
        resolver
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
        self.descriptors_read.is_fresh = false;
        self.tcp_read.is_fresh = false;
        self.locks_read.is_fresh = false;
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

    /// The wait for a set of descriptors. A set of epoll has many members, so it is looked up once in
    /// [`SETS_LAST`].
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
            return self.for_all(waiter, &members, processes);
        };
        let key = (waiter.table.process, descriptor);
        if let Some(known) = self.sets.get(&key) {
            return Some(known.clone());
        }
        let members = waiter.table.members_of_epoll(descriptor, MAX_MEMBERS);
        let target = self.for_all(waiter, &members, processes)?;
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

    /// The wait for the only descriptor that another process can answer; otherwise for events.
    fn for_all(
        &mut self,
        waiter: Waiter,
        members: &[Member],
        processes: &dyn Fn() -> Vec<u32>,
    ) -> Option<WaitTarget> {
        let mut named = Vec::new();
        for (descriptor, waits) in members {
            let target = self.for_descriptor(waiter, *descriptor, Some(*waits), processes)?;
            let own = [waiter.table.process];
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
            [] => WaitTarget::new(WaitKind::Events, Holders::Unknown),
            _ => WaitTarget::new(WaitKind::Events, united(&named)),
        })
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

/// The pause before the next reading of something that takes long to read.
#[derive(Debug)]
struct ReadPause {
    next: Instant,
    /// Whether it was read for the present wait.
    is_fresh: bool,
    has_no_pause: bool,
}

impl ReadPause {
    fn new() -> Self {
        Self {
            next: now(),
            is_fresh: false,
            has_no_pause: false,
        }
    }

    /// Calls `read`, unless this was done for the present wait. `None` if it is too early for that.
    fn read(&mut self, read: impl FnOnce()) -> Option<()> {
        if self.is_fresh {
            return Some(());
        }
        if now() < self.next && !self.has_no_pause {
            return None;
        }
        self.is_fresh = true;
        let begin = processor_time();
        read();
        let cost = processor_time().saturating_sub(begin);
        let (least, most) = READ_PAUSE;
        self.next = now() + cost.saturating_mul(READ_SHARE).clamp(least, most);
        Some(())
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

/// The wait for a word of memory. The mutexes of the C library contain the number of their owner. The
/// same word in other code may be followed by any number: it is an owner only if it is that of a thread
/// that can own the lock.
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

/// The processor time of the calling thread.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

fn now() -> Instant {
    #[allow(clippy::disallowed_methods)] // compared with itself only
    Instant::now()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};

    use super::*;

    fn call(number: i64, arguments: [u64; 3]) -> WaitingCall {
        WaitingCall { number, arguments }
    }

    fn resolve(call: WaitingCall, processes: &[u32]) -> WaitTarget {
        let own = std::process::id();
        let mut resolver = WaitResolver::new();
        let no_memory = &mut |_: u64, _: &mut [u8]| false;
        let processes = || processes.to_vec();
        resolver
            .resolve((own, own), &call, &processes, no_memory)
            .unwrap()
    }

    /// Without the processes that are able to end the wait.
    fn told(target: WaitTarget) -> (WaitKind, Holders) {
        (target.kind, target.holders)
    }

    fn descriptor(of: &impl AsRawFd) -> u64 {
        u64::try_from(of.as_raw_fd()).unwrap()
    }

    #[test]
    fn a_child_that_is_not_listed_yet_is_found() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = descriptor(child.stdout.as_ref().unwrap());
        let read = call(libc::SYS_read, [output, 0, 0]);
        let found = resolve(read, &[std::process::id()]);
        assert_eq!(found.holders, Holders::Processes(vec![child.id()]));
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn a_reader_of_a_pipe_waits_for_its_writer() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id();
        let output = descriptor(child.stdout.as_ref().unwrap());
        let read = call(libc::SYS_read, [output, 0, 0]);
        let target = resolve(read, &[std::process::id(), pid]);
        let of_child = (WaitKind::Pipe, Holders::Processes(vec![pid]));
        assert_eq!(told(target), of_child);
        let unknown = resolve(read, &[]);
        assert_eq!(unknown.holders, Holders::NotRecorded);
        drop(child.stdin.take());
        child
            .stdout
            .take()
            .unwrap()
            .read_to_end(&mut Vec::new())
            .unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_pair_of_sockets_in_one_process_waits_for_itself() {
        let (one, _other) = UnixStream::pair().unwrap();
        let own = std::process::id();
        let target = resolve(call(libc::SYS_recvfrom, [descriptor(&one), 0, 0]), &[own]);
        let itself = (WaitKind::UnixSocket, Holders::Processes(vec![own]));
        assert_eq!(told(target), itself);
    }

    #[test]
    fn a_connection_on_this_machine_leads_to_the_process_at_its_other_end() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _server = listener.accept().unwrap();
        let own = std::process::id();
        let target = resolve(
            call(libc::SYS_recvfrom, [descriptor(&client), 0, 0]),
            &[own],
        );
        assert_eq!(told(target), (WaitKind::Tcp, Holders::Processes(vec![own])));
        let listens = resolve(
            call(libc::SYS_accept4, [descriptor(&listener), 0, 0]),
            &[own],
        );
        assert_eq!(listens.holders, Holders::Unknown);
    }

    /// The operations on a word that only one process uses, and on one that several share.
    const PRIVATE: u64 = 128;
    const SHARED: u64 = 0;

    /// The wait for a lock whose owner is the thread with this number.
    fn for_lock_of(owner: u32, operation: u64) -> WaitTarget {
        let lock = call(libc::SYS_futex, [64, operation, 2]);
        let mut memory = |address: u64, room: &mut [u8]| {
            assert_eq!(address, 72);
            room.copy_from_slice(&owner.to_ne_bytes());
            true
        };
        let own = std::process::id();
        let mut resolver = WaitResolver::new();
        let target = resolver.resolve((own, own), &lock, &|| vec![own, owner], &mut memory);
        target.unwrap()
    }

    #[test]
    fn a_mutex_has_its_owner_and_another_word_has_none() {
        let (numbers, number) = std::sync::mpsc::channel();
        let (done, waits) = std::sync::mpsc::channel::<()>();
        #[allow(clippy::disallowed_methods)] // a thread of the test
        let owner = std::thread::spawn(move || {
            numbers.send(rustix::thread::gettid()).unwrap();
            let _ = waits.recv();
        });
        let number = number.recv().unwrap().as_raw_nonzero().get();
        let number = u32::try_from(number).unwrap();
        let of_thread = (WaitKind::Mutex, Holders::Thread(number));
        assert_eq!(told(for_lock_of(number, PRIVATE)), of_thread);
        for no_owner in [0, std::process::id(), u32::MAX] {
            assert_eq!(
                for_lock_of(no_owner, PRIVATE).holders,
                Holders::Unknown,
                "{no_owner}"
            );
        }
        drop(done);
        owner.join().unwrap();
    }

    #[test]
    fn a_mutex_in_shared_memory_has_the_process_of_its_owner() {
        let mut other = Command::new("sleep").arg("100").spawn().unwrap();
        let holders = Holders::Processes(vec![other.id()]);
        assert_eq!(for_lock_of(other.id(), SHARED).holders, holders);
        let private = for_lock_of(other.id(), PRIVATE).holders;
        assert_eq!(
            private,
            Holders::Unknown,
            "a number behind a word of another kind"
        );
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn a_list_of_descriptors_waits_for_the_only_process_among_them() {
        let (one, _other) = UnixStream::pair().unwrap();
        let own = std::process::id();
        let mut resolver = WaitResolver::new();
        let fd = one.as_raw_fd();
        let mut memory = |_: u64, room: &mut [u8]| {
            let entry = [fd.to_ne_bytes(), [1, 0, 0, 0]].concat();
            room.copy_from_slice(&entry);
            true
        };
        let poll = call(libc::SYS_ppoll, [64, 1, 0]);
        let target = resolver.resolve((own, own), &poll, &|| vec![own], &mut memory);
        let events = (WaitKind::Events, Holders::Unknown);
        assert_eq!(
            target.map(told),
            Some(events),
            "a process that could only wake itself"
        );
    }

    #[test]
    fn look_ups_are_limited() {
        let mut resolver = WaitResolver::new();
        let no_memory = &mut |_: u64, _: &mut [u8]| false;
        let word = call(libc::SYS_futex, [64, 128, 2]);
        let mut found = 0;
        for _ in 0..2 * MAX_LOOK_UPS {
            found += u32::from(
                resolver
                    .resolve((1, 1), &word, &Vec::new, no_memory)
                    .is_some(),
            );
        }
        assert!((MAX_LOOK_UPS..2 * MAX_LOOK_UPS).contains(&found), "{found}");
        let sleep = call(libc::SYS_nanosleep, [0, 0, 0]);
        assert!(
            resolver
                .resolve((1, 1), &sleep, &Vec::new, no_memory)
                .is_some()
        );
    }
}
