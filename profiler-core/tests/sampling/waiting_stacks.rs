//! Tests that the stacks of waiting threads are complete, from the system call to the start of the
//! thread, for many functions that wait.

#![allow(unsafe_code)]

use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Barrier, Condvar, Mutex, RwLock, mpsc};
use std::time::Duration;

use profiler_core::ids::ThreadId;
use test_support::own_process;

use super::read::{SOURCES, Seen, Session, samples, until};
use profiler_core::session::{self, SampleSource};

/// Waits until the end of the process.
type Wait = Box<dyn Fn() + Send>;

const FOREVER: Duration = Duration::from_secs(100_000);

/// Functions that wait: in the standard library, which keeps frame pointers, and in the C library.
fn waits() -> Vec<(&'static str, Wait)> {
    let (reader, writer) = std::io::pipe().unwrap();
    std::mem::forget(writer);
    let reader = Mutex::new(reader);
    let (sender, receiver) = mpsc::channel::<()>();
    let (rendezvous, rendezvous_receiver) = mpsc::sync_channel::<()>(0);
    std::mem::forget((sender, rendezvous_receiver));
    let mutex: &Mutex<()> = Box::leak(Box::default());
    std::mem::forget(mutex.lock());
    let lock: &RwLock<()> = Box::leak(Box::default());
    std::mem::forget(lock.write());
    let condition = Arc::new((Mutex::new(()), Condvar::new()));
    let timed = Arc::clone(&condition);
    let barrier = Barrier::new(2);
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let polled = listener.try_clone().unwrap();
    vec![
        ("sleep", Box::new(|| std::thread::sleep(FOREVER))),
        ("park", Box::new(std::thread::park)),
        (
            "park_timeout",
            Box::new(|| std::thread::park_timeout(FOREVER)),
        ),
        (
            "read",
            Box::new(move || _ = reader.lock().unwrap().read(&mut [0; 8])),
        ),
        ("recv", Box::new(move || _ = receiver.recv())),
        ("send", Box::new(move || _ = rendezvous.send(()))),
        ("mutex", Box::new(|| drop(mutex.lock()))),
        ("rwlock", Box::new(|| drop(lock.read()))),
        (
            "condvar",
            Box::new(move || drop(condition.1.wait(condition.0.lock().unwrap()))),
        ),
        (
            "condvar_timeout",
            Box::new(move || drop(timed.1.wait_timeout(timed.0.lock().unwrap(), FOREVER))),
        ),
        ("barrier", Box::new(move || _ = barrier.wait())),
        ("accept", Box::new(move || _ = listener.accept())),
        ("udp", Box::new(move || _ = socket.recv(&mut [0; 8]))),
        (
            "join",
            Box::new(|| _ = std::thread::spawn(std::thread::park).join()),
        ),
        ("poll", Box::new(move || poll(polled.as_raw_fd()))),
        ("pause", Box::new(pause)),
        ("semaphore", Box::new(semaphore)),
    ]
}

fn poll(descriptor: i32) {
    let mut polled = libc::pollfd {
        fd: descriptor,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: `polled` is one live entry.
    unsafe { libc::poll(&raw mut polled, 1, -1) };
}

fn pause() {
    // SAFETY: the call has no arguments.
    unsafe { libc::pause() };
}

fn semaphore() {
    // SAFETY: `sem_t` is plain memory, for which zeros are valid.
    let semaphore: libc::sem_t = unsafe { std::mem::zeroed() };
    let semaphore = Box::leak(Box::new(semaphore));
    // SAFETY: `semaphore` is leaked memory, which the call initializes.
    unsafe { libc::sem_init(semaphore, 0, 0) };
    // SAFETY: the semaphore is initialized and never destroyed.
    unsafe { libc::sem_wait(semaphore) };
}

/// Waits with a variable that needs more alignment than the stack guarantees.
#[inline(never)]
fn second(wait: &Wait) {
    #[repr(align(128))]
    struct Aligned([u8; 300]);
    let room = std::hint::black_box(Aligned([1; 300]));
    wait();
    std::hint::black_box(room.0[7]);
}

#[inline(never)]
fn first(wait: &Wait) {
    second(std::hint::black_box(wait));
    std::hint::black_box(1);
}

/// Starts a thread that waits.
fn waiting_thread(name: &str, wait: Wait) -> ThreadId {
    let (sender, receiver) = mpsc::channel();
    let body = move || {
        sender.send(profiler_core::thread::current()).unwrap();
        first(&wait);
    };
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .unwrap();
    receiver.recv().unwrap()
}

/// Waits until a thread has waited, and returns the sample that was taken when its wait was found.
///
/// A later sample of the same wait may be taken by a signal, with all registers.
fn settled(thread: ThreadId) -> Seen {
    until(|| {
        session::wait_one_periodic_sampling();
        let samples = samples().0.remove(&thread.get())?;
        let is_idle = |sample: &Seen| sample.cpu_ns == Some(0);
        let has_come_to_wait = |sample: &&Seen| {
            let is_whole = !sample.cut && !sample.failed;
            !is_whole || sample.place_of(second as *const ()).is_some()
        };
        let idle = (0..samples.len()).filter(|index| samples.get(*index).is_some_and(is_idle));
        let mut found = idle.filter_map(|index| {
            let up_to_it = samples.get(..=index)?;
            up_to_it.iter().rfind(|sample| !sample.is_repeat)
        });
        found.find(has_come_to_wait).cloned()
    })
}

#[test]
fn the_stack_of_a_waiting_thread_is_complete() {
    own_process!();
    for source in SOURCES {
        waiting_stacks_are_complete(source);
    }
}

fn waiting_stacks_are_complete(source: SampleSource) {
    let _session = Session::by(source);
    let threads: Vec<_> = waits()
        .into_iter()
        .map(|(name, wait)| (name, waiting_thread(name, wait)))
        .collect();
    let mut incomplete = Vec::new();
    let mut outermost = None;
    for (name, thread) in threads {
        let sample = settled(thread);
        let outer = sample.place_of(first as *const ());
        let inner = sample.place_of(second as *const ());
        let start = sample.addresses.first().copied();
        let is_complete = !sample.cut
            && !sample.failed
            && outer.is_some()
            && inner == outer.map(|place| place + 1)
            && *outermost.get_or_insert(start) == start;
        if !is_complete {
            incomplete.push((name, outer, inner, sample));
        }
    }
    assert!(
        incomplete.is_empty(),
        "{source:?}: {} stacks are not complete: {incomplete:#x?}",
        incomplete.len()
    );
}
