//! Blocking system calls, and the partner that ends their waits.
//!
//! Used by [`super::play`]. A call waits until the partner ends the wait or, without a partner, for
//! about 0.1 ms. A call consumes what ended its wait, so that the next call waits, too.

#![allow(unsafe_code)]

use std::io::{self, Write};
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// Makes a call that waits. Returns whether the call ended with `EINTR`.
pub(super) type Wait = Box<dyn FnMut() -> bool + Send>;
/// Ends the wait of a call.
type Wake = Box<dyn FnMut() + Send>;
/// A kind of call, and the function that ends its wait, if it needs one.
type Kind = (Wait, Option<Wake>);

/// Ends the waits of all calls in turn.
pub(super) struct Partner(Vec<Wake>);

impl Partner {
    pub(super) fn wake_all(&mut self) {
        self.0.iter_mut().for_each(|wake| wake());
    }
}

/// Sets up a kind of call.
type Make = fn() -> Result<Kind>;

const KINDS: &[(&str, Make)] = &[
    ("nanosleep", nanosleep),
    ("read", read),
    ("accept", accept),
    ("connect", connect),
    ("poll", poll),
    ("epoll_wait", epoll_wait),
    ("sem_wait", sem_wait),
    ("sem_timedwait", sem_timedwait),
    ("msgrcv", msgrcv),
];

/// Sets up all kinds of calls and their partner.
pub(super) fn all(lock_file: LockFile) -> Result<(Vec<(&'static str, Wait)>, Partner)> {
    let mut waits = Vec::new();
    let mut wakes = Vec::new();
    let (wait, wake) = flock(lock_file);
    waits.push(("flock", wait));
    wakes.extend(wake);
    for (name, make) in KINDS {
        let (wait, wake) = make().with_context(|| format!("{name} cannot be set up"))?;
        waits.push((*name, wait));
        wakes.extend(wake);
    }
    Ok((waits, Partner(wakes)))
}

/// A thread sets it before it waits. The partner clears it when it ends the wait.
#[derive(Clone, Default)]
struct Wish(Arc<AtomicBool>);

impl Wish {
    fn make(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn take(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }

    /// Returns a function that calls `wake` once for each wish, so that every call waits: no call
    /// finds data that is left from an earlier one.
    fn granted_by(&self, mut wake: impl FnMut() + Send + 'static) -> Wake {
        let wish = self.clone();
        Box::new(move || {
            if wish.take() {
                wake();
            }
        })
    }
}

fn was_interrupted(result: impl Into<i64>) -> bool {
    result.into() < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
}

/// Keeps a value until the process ends, because threads may use it when others are done.
fn keep<T: 'static>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

fn nanosleep() -> Result<Kind> {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 100_000,
    };
    // SAFETY: reads a timespec that lives through the call.
    let wait =
        move || was_interrupted(unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) });
    Ok((Box::new(wait), None))
}

/// A pipe that the partner writes to.
fn pipe() -> Result<(RawFd, Wish, Wake)> {
    let (read, mut write) = io::pipe()?;
    let descriptor = keep(read).as_raw_fd();
    let wish = Wish::default();
    let wake = wish.granted_by(move || _ = write.write(&[1]));
    Ok((descriptor, wish, wake))
}

fn read_one(descriptor: RawFd) -> isize {
    let mut byte = 0_u8;
    // SAFETY: writes one byte into memory that lives through the call.
    unsafe { libc::read(descriptor, (&raw mut byte).cast(), 1) }
}

fn read() -> Result<Kind> {
    let (descriptor, wish, wake) = pipe()?;
    let wait = move || {
        wish.make();
        was_interrupted(read_one(descriptor) as i64)
    };
    Ok((Box::new(wait), Some(wake)))
}

fn poll() -> Result<Kind> {
    let (descriptor, wish, wake) = pipe()?;
    let wait = move || {
        wish.make();
        let mut entry = libc::pollfd {
            fd: descriptor,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: reads and writes one entry, which lives through the call.
        let found = unsafe { libc::poll(&raw mut entry, 1, 1000) };
        let is_interrupted = was_interrupted(found);
        if found > 0 {
            read_one(descriptor);
        }
        is_interrupted
    };
    Ok((Box::new(wait), Some(wake)))
}

fn epoll_wait() -> Result<Kind> {
    let (descriptor, wish, wake) = pipe()?;
    // SAFETY: takes no pointer. The descriptor stays open until the process ends with the scene.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: 0,
    };
    // SAFETY: reads an event that lives through the call.
    let failed = unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, descriptor, &raw mut event) };
    ensure!(failed == 0, "epoll_ctl: {}", io::Error::last_os_error());
    let wait = move || {
        wish.make();
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: writes one event into memory that lives through the call.
        let found = unsafe { libc::epoll_wait(epoll, &raw mut event, 1, 1000) };
        let is_interrupted = was_interrupted(found);
        if found > 0 {
            read_one(descriptor);
        }
        is_interrupted
    };
    Ok((Box::new(wait), Some(wake)))
}

/// Returns an address that is no file.
fn address(name: &str) -> Result<std::os::unix::net::SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    let name = format!("interrupted-{name}-{}", std::process::id());
    Ok(std::os::unix::net::SocketAddr::from_abstract_name(name)?)
}

fn accept() -> Result<Kind> {
    let address = address("accept")?;
    let listener = keep(UnixListener::bind_addr(&address)?).as_raw_fd();
    let wish = Wish::default();
    let wake = wish.granted_by(move || _ = UnixStream::connect_addr(&address));
    let wait = move || {
        wish.make();
        // SAFETY: null pointers are allowed, and ask for no address.
        let descriptor =
            unsafe { libc::accept(listener, std::ptr::null_mut(), std::ptr::null_mut()) };
        let is_interrupted = was_interrupted(descriptor);
        close(descriptor);
        is_interrupted
    };
    Ok((Box::new(wait), Some(wake)))
}

fn close(descriptor: RawFd) {
    if descriptor >= 0 {
        // SAFETY: the caller has just made the descriptor, and does not use it afterwards.
        drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
    }
}

/// Connects to a listener whose queue is full until the partner accepts one connection.
fn connect() -> Result<Kind> {
    let name = format!("\0interrupted-connect-{}", std::process::id());
    // SAFETY: all zeros are a valid address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    address
        .sun_path
        .iter_mut()
        .zip(name.bytes())
        .for_each(|(place, byte)| *place = byte as libc::c_char);
    let len = (size_of::<libc::sa_family_t>() + name.len()) as libc::socklen_t;
    let listener = stream_socket(libc::SOCK_NONBLOCK)?;
    // SAFETY: reads an address of that length, which lives through the call.
    let failed = unsafe { libc::bind(listener, (&raw const address).cast(), len) };
    ensure!(failed == 0, "bind: {}", io::Error::last_os_error());
    // SAFETY: takes only numbers.
    let result = unsafe { libc::listen(listener, 0) };
    ensure!(result == 0, "listen: {}", io::Error::last_os_error());
    let wish = Wish::default();
    let wake = wish.granted_by(move || {
        // SAFETY: null pointers are allowed, and ask for no address.
        close(unsafe { libc::accept(listener, std::ptr::null_mut(), std::ptr::null_mut()) });
    });
    let wait = move || {
        wish.make();
        let Ok(socket) = stream_socket(0) else {
            return false;
        };
        // SAFETY: reads an address of that length, which lives through the call.
        let is_interrupted =
            was_interrupted(unsafe { libc::connect(socket, (&raw const address).cast(), len) });
        close(socket);
        is_interrupted
    };
    Ok((Box::new(wait), Some(wake)))
}

fn stream_socket(flags: libc::c_int) -> Result<RawFd> {
    // SAFETY: takes only numbers.
    let socket = unsafe {
        libc::socket(
            libc::AF_UNIX,
            libc::SOCK_STREAM | libc::SOCK_CLOEXEC | flags,
            0,
        )
    };
    ensure!(socket >= 0, "socket: {}", io::Error::last_os_error());
    Ok(socket)
}

/// A semaphore with the value 0.
#[derive(Clone, Copy)]
struct Semaphore(*mut libc::sem_t);

// SAFETY: several threads may use a semaphore, and its memory is never freed.
unsafe impl Send for Semaphore {}

impl Semaphore {
    fn new() -> Result<Self> {
        // SAFETY: all zeros are valid memory for a semaphore.
        let semaphore = Box::into_raw(Box::new(unsafe { std::mem::zeroed::<libc::sem_t>() }));
        // SAFETY: initialises memory of the right type with the value 0.
        let result = unsafe { libc::sem_init(semaphore, 0, 0) };
        ensure!(result == 0, "no semaphore");
        Ok(Self(semaphore))
    }

    fn wait(self) -> bool {
        // SAFETY: initialised in `new`.
        was_interrupted(unsafe { libc::sem_wait(self.0) })
    }

    fn wait_for(self, time: Duration) -> bool {
        let mut until = MaybeUninit::<libc::timespec>::uninit();
        // SAFETY: writes into a timespec that lives through the call.
        unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, until.as_mut_ptr()) };
        // SAFETY: the call above has initialised it.
        let mut until = unsafe { until.assume_init() };
        let ns = until.tv_nsec + i64::from(time.subsec_nanos());
        (until.tv_sec, until.tv_nsec) = (until.tv_sec + ns / 1_000_000_000, ns % 1_000_000_000);
        // SAFETY: initialised in `new`; reads a timespec that lives through the call.
        was_interrupted(unsafe { libc::sem_timedwait(self.0, &raw const until) })
    }

    fn post(self) {
        // SAFETY: initialised in `new`.
        unsafe { libc::sem_post(self.0) };
    }
}

fn sem_wait() -> Result<Kind> {
    let semaphore = Semaphore::new()?;
    let wish = Wish::default();
    let wake = wish.granted_by(move || semaphore.post());
    let wait = move || {
        wish.make();
        semaphore.wait()
    };
    Ok((Box::new(wait), Some(wake)))
}

fn sem_timedwait() -> Result<Kind> {
    let semaphore = Semaphore::new()?;
    Ok((
        Box::new(move || semaphore.wait_for(Duration::from_micros(150))),
        None,
    ))
}

/// A temporary file that is opened twice. A lock on one of the open files excludes the other.
///
/// It is created before a scene begins, because the user of a scene may not be allowed to create
/// files in the temporary directory.
pub(super) struct LockFile {
    own: RawFd,
    other: RawFd,
}

impl LockFile {
    pub(super) fn create() -> Result<LockFile> {
        let file = tempfile::NamedTempFile::new()?;
        Ok(LockFile {
            own: keep(file.reopen()?).as_raw_fd(),
            other: keep(file.reopen()?).as_raw_fd(),
        })
    }
}

/// Waits for a lock that the partner takes and releases in turn.
fn flock(file: LockFile) -> Kind {
    let LockFile { own, other } = file;
    // SAFETY: takes only numbers.
    let lock = |descriptor, how| unsafe { libc::flock(descriptor, how) };
    let wait = move || {
        let is_interrupted = was_interrupted(lock(own, libc::LOCK_EX));
        lock(own, libc::LOCK_UN);
        is_interrupted
    };
    let mut is_held = false;
    let wake = move || {
        let how = if is_held {
            libc::LOCK_UN
        } else {
            libc::LOCK_EX | libc::LOCK_NB
        };
        is_held = lock(other, how) == 0 && !is_held;
    };
    (Box::new(wait), Some(Box::new(wake)))
}

/// A message that consists of its kind and no text.
#[repr(C)]
#[allow(dead_code)] // the kernel reads and writes it
struct Message(libc::c_long);

fn msgrcv() -> Result<Kind> {
    let queue = MessageQueue::new()?;
    let wish = Wish::default();
    let number = queue.0;
    let wake = wish.granted_by(move || queue.send());
    let wait = move || {
        wish.make();
        let mut message = Message(0);
        // SAFETY: writes a message without text into memory that lives through the call.
        was_interrupted(unsafe { libc::msgrcv(number, (&raw mut message).cast(), 0, 0, 0) } as i64)
    };
    Ok((Box::new(wait), Some(wake)))
}

/// A message queue, removed when it is dropped. The exit of a process does not remove it.
struct MessageQueue(libc::c_int);

impl MessageQueue {
    /// Creates a queue that every user may use. It belongs to the user that a scene changes this
    /// process to.
    fn new() -> Result<Self> {
        // SAFETY: takes only numbers.
        let queue = Self(unsafe { libc::msgget(libc::IPC_PRIVATE, 0o666) });
        ensure!(queue.0 >= 0, "msgget: {}", io::Error::last_os_error());
        let mut about = MaybeUninit::<libc::msqid_ds>::zeroed();
        // SAFETY: writes the queue's status into memory of its type.
        unsafe { libc::msgctl(queue.0, libc::IPC_STAT, about.as_mut_ptr()) };
        // SAFETY: zeroed before the call, which has written it.
        let mut about = unsafe { about.assume_init() };
        about.msg_perm.uid = super::scenes::UNPRIVILEGED;
        // SAFETY: reads `about`, which lives through the call. The call fails for other users than
        // root, but they do not need it.
        unsafe { libc::msgctl(queue.0, libc::IPC_SET, &raw mut about) };
        Ok(queue)
    }

    fn send(&self) {
        let message = Message(1);
        // SAFETY: reads a message without text, which lives through the call.
        unsafe { libc::msgsnd(self.0, (&raw const message).cast(), 0, libc::IPC_NOWAIT) };
    }
}

impl Drop for MessageQueue {
    fn drop(&mut self) {
        // SAFETY: removes the queue; the pointer is not used.
        unsafe { libc::msgctl(self.0, libc::IPC_RMID, std::ptr::null_mut()) };
    }
}
