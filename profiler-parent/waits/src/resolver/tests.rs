//! Tests of the resolver: each kind of wait has the process or thread that can end it.

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
fn kind_and_holders(target: WaitTarget) -> (WaitKind, Holders) {
    (target.kind, target.holders)
}

/// Whether a check holds in one of many tries: a process that another test forks has all
/// descriptors until it executes a program.
fn holds_once(mut check: impl FnMut() -> bool) -> bool {
    (0..100).any(|_| check())
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
    let of_child = Holders::Processes(vec![child.id()]);
    let is_found = || resolve(read, &[std::process::id()]).holders == of_child;
    assert!(holds_once(is_found));
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
    let of_child = (WaitKind::Pipe, Holders::Processes(vec![pid]));
    let is_found = || kind_and_holders(resolve(read, &[std::process::id(), pid])) == of_child;
    assert!(holds_once(is_found));
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
    let wait = call(libc::SYS_recvfrom, [descriptor(&one), 0, 0]);
    let itself = (WaitKind::UnixSocket, Holders::Processes(vec![own]));
    assert!(holds_once(
        || kind_and_holders(resolve(wait, &[own])) == itself
    ));
}

#[test]
fn a_connection_on_this_machine_leads_to_the_process_at_its_other_end() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let _server = listener.accept().unwrap();
    let own = std::process::id();
    let is_own = || {
        let wait = call(libc::SYS_recvfrom, [descriptor(&client), 0, 0]);
        kind_and_holders(resolve(wait, &[own])) == (WaitKind::Tcp, Holders::Processes(vec![own]))
    };
    assert!(holds_once(is_own));
    let listens = resolve(
        call(libc::SYS_accept4, [descriptor(&listener), 0, 0]),
        &[own],
    );
    assert_eq!(listens.holders, Holders::Unknown);
}

#[test]
fn a_pipe_that_others_read_too_ends_no_wait_for_a_set() {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut child = Command::new("cat")
        .stdin(reader.try_clone().unwrap())
        .spawn()
        .unwrap();
    let (own, other) = (std::process::id(), child.id());
    let wait_in = |process: u32, number: i32| {
        let mut memory = |_: u64, room: &mut [u8]| {
            let [low, high] = libc::POLLIN.to_ne_bytes();
            room.copy_from_slice(&[&number.to_ne_bytes()[..], &[low, high, 0, 0]].concat());
            true
        };
        let set = call(libc::SYS_ppoll, [64, 1, 0]);
        let processes = || vec![own, other];
        let here = (process, process);
        let mut resolver = WaitResolver::without_pauses();
        resolver
            .resolve(here, &set, &processes, &mut memory)
            .unwrap()
    };
    // As a job server, whose jobs have inherited the pipe.
    let of_jobs = wait_in(own, reader.as_raw_fd());
    let Holders::Processes(children) = &of_jobs.holders else {
        panic!("{of_jobs:?}");
    };
    assert!(of_jobs.kind == WaitKind::Process && children.contains(&other));
    // As a process that wants to know when its parent ends.
    assert_eq!(wait_in(other, 0).holders, Holders::Unknown);
    drop(writer);
    child.wait().unwrap();
}

#[test]
fn a_process_that_selects_a_pipe_of_its_own_waits_for_its_children() {
    let (reader, _writer) = std::io::pipe().unwrap();
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let own = std::process::id();
    let number = usize::try_from(reader.as_raw_fd()).unwrap();
    let mut set = |_: u64, room: &mut [u8]| {
        room.fill(0);
        room[number / 8] = 1 << (number % 8);
        true
    };
    let count = u64::try_from(number + 1).unwrap();
    let wait = call(libc::SYS_pselect6, [count, 64, 0]);
    let for_child = || {
        let mut resolver = WaitResolver::without_pauses();
        let target = resolver.resolve((own, own), &wait, &|| vec![own], &mut set);
        let target = target.unwrap();
        let is_child = |all: &Vec<u32>| all.contains(&child.id());
        target.kind == WaitKind::Process
            && matches!(&target.holders, Holders::Processes(all) if is_child(all))
    };
    assert!(holds_once(for_child));
    drop(child.stdin.take());
    child.wait().unwrap();
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
    assert_eq!(kind_and_holders(for_lock_of(number, PRIVATE)), of_thread);
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
    let fd = one.as_raw_fd();
    let mut memory = |_: u64, room: &mut [u8]| {
        let entry = [fd.to_ne_bytes(), [1, 0, 0, 0]].concat();
        room.copy_from_slice(&entry);
        true
    };
    let poll = call(libc::SYS_ppoll, [64, 1, 0]);
    let events = (WaitKind::Events, Holders::Unknown);
    // A process that could only wake itself.
    let is_unknown = || {
        let mut resolver = WaitResolver::new();
        let target = resolver.resolve((own, own), &poll, &|| vec![own], &mut memory);
        target.map(kind_and_holders) == Some(events.clone())
    };
    assert!(holds_once(is_unknown));
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
