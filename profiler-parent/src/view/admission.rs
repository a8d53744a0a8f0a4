//! Connections of the server: which are closed for others, and how long each may take to send its
//! request.
//!
//! Used by [`super::Server`]. Each connection has a thread, which blocks in reads; to close a
//! connection, its socket is shut down while the thread reads. See [`crate::clients`] for the rule.
//! Invariant: a client that has not sent the token has [`HEAD_TIME`] for everything it sends.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::clients::{ConnectionId, Connections, Entered, Limits, now};

const LIMITS: Limits = Limits { waiting: 32, served: 32, grace: Duration::from_millis(250) };
/// How long a client may take until it has sent a request with the token.
const HEAD_TIME: Duration = Duration::from_secs(2);
/// How long a client with the token may take for a read.
const READ: Duration = Duration::from_secs(3);

/// All connections of the server.
#[derive(Debug)]
pub(super) struct Admission {
    connections: Mutex<Connections<Arc<TcpStream>>>,
    /// Notified when a connection leaves or has sent the token.
    left: Condvar,
}

/// An accepted connection. It leaves when this is dropped.
#[derive(Debug)]
pub(super) struct Admitted {
    admission: Arc<Admission>,
    id: ConnectionId,
    stream: Arc<TcpStream>,
    since: Instant,
    has_token: AtomicBool,
}

impl Admission {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { connections: Mutex::new(Connections::new(LIMITS)), left: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Connections<Arc<TcpStream>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts a connection. If all places are taken by young connections, waits until one may be
    /// closed or leaves.
    pub(super) fn enter(self: &Arc<Self>, stream: TcpStream) -> Admitted {
        let stream = Arc::new(stream);
        let mut connections = self.lock();
        loop {
            let since = now();
            match connections.enter(Arc::clone(&stream), since) {
                Entered::In(id, closed) => {
                    closed.iter().for_each(|other| close(other));
                    let (admission, has_token) = (Arc::clone(self), AtomicBool::new(false));
                    return Admitted { admission, id, stream, since, has_token };
                }
                Entered::Later(time, _) => {
                    let waited = self.left.wait_timeout(connections, time);
                    connections = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }
}

/// Ends all reads and writes of a connection.
fn close(stream: &TcpStream) {
    let _ = stream.shutdown(Shutdown::Both); // it may have ended already
}

impl Admitted {
    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Notes that a request with the token has arrived.
    pub(super) fn show_token(&self) {
        self.has_token.store(true, Ordering::Relaxed);
        let closed = self.admission.lock().show_token(self.id, Arc::clone(&self.stream), now());
        self.admission.left.notify_one();
        closed.iter().for_each(|other| close(other));
    }

    /// The client's bytes, each of which must arrive in time.
    pub(super) fn client(&self) -> Client<'_> {
        Client(self)
    }

    /// How long the next read may take; an error if there is no time left.
    fn read_time(&self) -> io::Result<Duration> {
        if self.has_token.load(Ordering::Relaxed) {
            return Ok(READ);
        }
        let left = HEAD_TIME.saturating_sub(self.since.elapsed());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.admission.lock().leave(self.id);
        self.admission.left.notify_one();
    }
}

/// Reads and writes of a connection.
#[derive(Debug)]
pub(super) struct Client<'a>(&'a Admitted);

impl Read for Client<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.0.stream.set_read_timeout(Some(self.0.read_time()?))?;
        (&*self.0.stream).read(room)
    }
}

impl Write for Client<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0.stream).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self.0.stream).flush()
    }
}
