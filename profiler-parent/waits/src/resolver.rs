//! Finds the processes or the thread that can end a wait.
//!
//! Called by one thread, which looks at waiting threads. Invariants: at most [`MAX_LOOK_UPS`]
//! look-ups a second are made. The descriptors of all processes and the connections of TCP are read
//! only for an unknown object. Each uses at most 1/[`READ_SHARE`] of a processor while a reading
//! takes less than 10 ms.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::call::{Direction, WaitSubject, WaitingCall};
use crate::ends::Ends;
use crate::file_locks;
use crate::members::{MAX_MEMBERS, ReadMemory, polled, selected};
use crate::object::{DescriptorTable, WaitObject};
use crate::target::{Holders, WaitKind, WaitTarget};
use crate::tasks;
use crate::tcp::{TcpConnections, TcpPeer};
use crate::unix_sockets::UnixSockets;

/// The maximum number of look-ups a second.
const MAX_LOOK_UPS: u32 = 400;
/// The shortest and the longest pause between two readings of the descriptors of all processes, or
/// of the tables of TCP.
const READ_PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));
/// How many times longer a pause is than the processor time of the reading before it.
const READ_SHARE: u32 = 50;
/// How long the target of a wait for a set is kept.
const SETS_LAST: Duration = Duration::from_millis(500);
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
    sockets: UnixSockets,
    tcp: TcpConnections,
    descriptors_read: ReadPause,
    /// The pause of the tables of TCP. The system needs milliseconds for them, even if there are
    /// few connections.
    tcp_read: ReadPause,
    second: Instant,
    look_ups: u32,
    /// The waits for sets of descriptors that were looked up since `sets_read`.
    sets: HashMap<(u32, WaitSubject), WaitTarget>,
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
            sockets: UnixSockets::new(),
            tcp: TcpConnections::default(),
            descriptors_read: ReadPause::new(),
            tcp_read: ReadPause::new(),
            second: now(),
            look_ups: 0,
            sets: HashMap::new(),
            sets_read: now(),
        }
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
        match call.subject() {
            WaitSubject::Descriptor(descriptor, waits) => {
                self.for_descriptor(waiter, descriptor, Some(waits), processes)
            }
            WaitSubject::ChildOfDescriptor(descriptor) => {
                self.for_descriptor(waiter, descriptor, None, processes)
            }
            WaitSubject::Child(child) => Some(for_child(process, child)),
            WaitSubject::Word { address, is_lock } => {
                Some(for_word((process, thread), address, is_lock, memory))
            }
            WaitSubject::FileLock(_) => Some(for_file_lock(process)),
            set => self.for_set(waiter, set, processes, memory),
        }
    }

    /// The wait for a set of descriptors. A set seldom changes and has many members, so it is
    /// looked up once in [`SETS_LAST`].
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
        let key = (waiter.table.process, set);
        if let Some(known) = self.sets.get(&key) {
            return Some(known.clone());
        }
        let members = match set {
            WaitSubject::Epoll(descriptor) => {
                waiter.table.members_of_epoll(descriptor, MAX_MEMBERS)
            }
            WaitSubject::Poll { address, count } => polled(address, count, memory),
            WaitSubject::Select { count, reads } => selected(count, reads, memory),
            _ => Vec::new(),
        };
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
        descriptors: &[i32],
        processes: &dyn Fn() -> Vec<u32>,
    ) -> Option<WaitTarget> {
        let mut named = Vec::new();
        for descriptor in descriptors {
            let waits = Some(Direction::Reads);
            let target = self.for_descriptor(waiter, *descriptor, waits, processes)?;
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
                let holders = self.holders(object, waits, process, processes)?;
                WaitTarget::new(WaitKind::Pipe, holders)
            }
            WaitObject::Socket(inode) => {
                self.ends.note_user(object, process);
                self.for_socket(inode, process, processes)?
            }
            WaitObject::EventCounter(_) => {
                let holders = self.holders(object, None, process, processes)?;
                WaitTarget::new(WaitKind::EventCounter, holders)
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
        if let Some(peer) = self.sockets.peer(inode) {
            let holders = self.holders(WaitObject::Socket(peer), None, process, processes)?;
            return Some(WaitTarget::new(WaitKind::UnixSocket, holders));
        }
        let object = WaitObject::Socket(inode);
        if !self.tcp.contains(inode) && !self.ends.is_checked(object) {
            self.read_connections()?;
            self.ends.check(object);
        }
        Some(match self.tcp.peer(inode) {
            Some(TcpPeer::Here(peer)) => {
                let holders = self.holders(WaitObject::Socket(peer), None, process, processes)?;
                WaitTarget::new(WaitKind::Tcp, holders)
            }
            Some(TcpPeer::Elsewhere(address)) => {
                WaitTarget::new(WaitKind::Tcp, Holders::Address(address))
            }
            None => WaitTarget::new(WaitKind::Socket, Holders::Unknown),
        })
    }

    /// The holders of an object. The descriptors of all processes are read if none is known, or
    /// only the waiting process.
    fn holders(
        &mut self,
        object: WaitObject,
        waits: Option<Direction>,
        process: u32,
        processes: &dyn Fn() -> Vec<u32>,
    ) -> Option<Holders> {
        let mut all = self.ends.holders(object, waits, process);
        if (all.is_empty() || all == [process]) && !self.ends.is_checked(object) {
            self.read_descriptors(processes)?;
            self.ends.check(object);
            all = self.ends.holders(object, waits, process);
        }
        Some(if all.is_empty() {
            Holders::NotRecorded
        } else {
            Holders::Processes(all)
        })
    }

    /// Reads the descriptors of all processes. `None` if it is too early for that.
    fn read_descriptors(&mut self, processes: &dyn Fn() -> Vec<u32>) -> Option<()> {
        let ends = &mut self.ends;
        self.descriptors_read.read(|| ends.read(&processes()))
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
}

impl ReadPause {
    fn new() -> Self {
        Self {
            next: now(),
            is_fresh: false,
        }
    }

    /// Calls `read`, unless this was done for the present wait. `None` if it is too early for that.
    fn read(&mut self, read: impl FnOnce()) -> Option<()> {
        if self.is_fresh {
            return Some(());
        }
        if now() < self.next {
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

/// The wait for a word of memory. The mutexes of the C library contain the number of their owner.
fn for_word(
    (process, thread): (u32, u32),
    address: u64,
    is_lock: bool,
    memory: ReadMemory<'_>,
) -> WaitTarget {
    let mut room = [0; 4];
    let owner = address.wrapping_add(OWNER_AT);
    let is_read = is_lock && memory(owner, &mut room);
    let owner = u32::from_ne_bytes(room);
    let may_be_thread = is_read && owner != thread && (1..1 << 22).contains(&owner);
    let found = may_be_thread.then(|| tasks::thread(process, owner));
    match found.flatten() {
        Some((other, _)) if other != process => {
            WaitTarget::new(WaitKind::Mutex, Holders::Processes(vec![other]))
        }
        Some((_, owner)) => WaitTarget::new(WaitKind::Mutex, Holders::Thread(owner)),
        None => WaitTarget::new(WaitKind::Word, Holders::Unknown),
    }
}

fn for_file_lock(process: u32) -> WaitTarget {
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let holder = file_locks::holder(&locks, process);
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

    fn descriptor(of: &impl AsRawFd) -> u64 {
        u64::try_from(of.as_raw_fd()).unwrap()
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
        let of_child = WaitTarget::new(WaitKind::Pipe, Holders::Processes(vec![pid]));
        assert_eq!(target, of_child);
        let unknown = resolve(read, &[std::process::id()]);
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
        let itself = WaitTarget::new(WaitKind::UnixSocket, Holders::Processes(vec![own]));
        assert_eq!(target, itself);
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
        assert_eq!(
            target,
            WaitTarget::new(WaitKind::Tcp, Holders::Processes(vec![own]))
        );
        let listens = resolve(
            call(libc::SYS_accept4, [descriptor(&listener), 0, 0]),
            &[own],
        );
        assert_eq!(listens.holders, Holders::Unknown);
    }

    /// The wait for a lock whose owner is the thread with this number.
    fn for_lock_of(owner: u32) -> WaitTarget {
        let lock = call(libc::SYS_futex, [64, 128, 2]);
        let mut memory = |address: u64, room: &mut [u8]| {
            assert_eq!(address, 72);
            room.copy_from_slice(&owner.to_ne_bytes());
            true
        };
        let own = std::process::id();
        let mut resolver = WaitResolver::new();
        let target = resolver.resolve((own, own), &lock, &Vec::new, &mut memory);
        target.unwrap()
    }

    #[test]
    fn a_mutex_has_its_owner_and_another_word_has_none() {
        let (numbers, number) = std::sync::mpsc::channel();
        let (done, waits) = std::sync::mpsc::channel::<()>();
        let owner = std::thread::spawn(move || {
            numbers.send(rustix::thread::gettid()).unwrap();
            let _ = waits.recv();
        });
        let number = number.recv().unwrap().as_raw_nonzero().get();
        let number = u32::try_from(number).unwrap();
        let of_thread = WaitTarget::new(WaitKind::Mutex, Holders::Thread(number));
        assert_eq!(for_lock_of(number), of_thread);
        for no_owner in [0, std::process::id(), u32::MAX] {
            assert_eq!(
                for_lock_of(no_owner).holders,
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
        assert_eq!(for_lock_of(other.id()).holders, holders);
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
            let entry = [fd.to_ne_bytes(), [0; 4]].concat();
            room.copy_from_slice(&entry);
            true
        };
        let poll = call(libc::SYS_ppoll, [64, 1, 0]);
        let target = resolver.resolve((own, own), &poll, &|| vec![own], &mut memory);
        let events = WaitTarget::new(WaitKind::Events, Holders::Unknown);
        assert_eq!(
            target,
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
