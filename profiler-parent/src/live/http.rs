//! The web server: hyper on one thread, with a runtime of that thread alone.
//!
//! Started by [`super::LiveServer`], ended when that is dropped or the session ends. Invariants:
//! there is only one thread; the number of connections is bounded ([`super::admission`]), and so
//! are each one's buffer and the time for the head of a request; a connection without the token
//! never takes the place of one with it; the body of a request is not read; a host's own runtime is
//! not used.

use std::convert::Infallible;
use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::{self, Read};
use std::net::TcpListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, TryRecvError};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use profiler_core::internal::sys::spawn_quiet;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

use super::admission::{Admission, Admitted};
use super::routes::{Answered, Routes};

/// Bytes of a request's head.
const HEAD: usize = 16 * 1024;
/// How long the next head may take after a request with the token; a connection that is idle for
/// longer is closed.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long a connection may last. A page that is open makes a new one.
const CONNECTION_TIME: Duration = Duration::from_secs(600);
/// Time between two checks whether the session is over. Each wakes the thread, also when there are no
/// requests.
const LOOK: Duration = Duration::from_millis(250);
/// Checks between two calls of [`Routes::tidy`].
const TIDY: u32 = 8;
/// Pause when the system has no descriptor for a connection.
const PAUSE: Duration = Duration::from_millis(50);
/// Bytes of a file that are read at a time.
const BLOCK: usize = 64 * 1024;

/// The server's thread.
#[derive(Debug)]
pub(super) struct RunningServer {
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl RunningServer {
    /// Serves until this is dropped, or `over` is disconnected.
    pub(super) fn start(listener: TcpListener, routes: Arc<Routes>, over: Receiver<()>) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let body = move || {
            // A panic ends the page and not the host's thread in some other way.
            let _ = catch_unwind(AssertUnwindSafe(|| run(runtime, listener, &routes, &stopped, &over)));
        };
        let thread = spawn_quiet("profiler-live", body)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.stop.notify_one(); // also if it does not listen yet
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(runtime: Runtime, listener: TcpListener, routes: &Arc<Routes>, stop: &Notify, over: &Receiver<()>) {
    let theirs = Arc::clone(routes);
    let is_over = || over.try_recv() == Err(TryRecvError::Disconnected);
    runtime.block_on(async {
        let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
        let accepting = tokio::spawn(accept(listener, theirs));
        let mut looks = 0_u32;
        while !is_over() && !accepting.is_finished() {
            if tokio::time::timeout(LOOK, stop.notified()).await.is_ok() {
                break;
            }
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(TIDY) {
                routes.tidy();
            }
        }
    });
    // Connections end with it.
    runtime.shutdown_background();
}

async fn accept(listener: tokio::net::TcpListener, routes: Arc<Routes>) {
    let admission = Admission::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (routes, admitted) = (Arc::clone(&routes), Arc::new(admission.enter().await));
                tokio::spawn(async move {
                    let _ = tokio::time::timeout(CONNECTION_TIME, converse(stream, routes, admitted)).await;
                });
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn converse(stream: TcpStream, routes: Arc<Routes>, admitted: Arc<Admitted>) {
    let asked = Arc::clone(&admitted);
    let answer = service_fn(move |request: Request<Incoming>| {
        let answer = catch_unwind(AssertUnwindSafe(|| routes.answer(&request)));
        let failed = || Answered { response: status(StatusCode::INTERNAL_SERVER_ERROR), has_token: false };
        let answered = answer.unwrap_or_else(|_| failed());
        if answered.has_token {
            asked.show_token();
        }
        std::future::ready(Ok::<_, Infallible>(answered.response))
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD);
    // A client that sends no more may still read.
    server.half_close(true);
    let connection: Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>> =
        Box::pin(server.serve_connection(TokioIo::new(stream), answer));
    unless(connection, Box::pin(admitted.ended())).await;
}

/// Runs a connection until it closes, or until `ended`. Work that the connection can do is done
/// first.
async fn unless<T>(
    mut connection: Pin<Box<dyn Future<Output = T> + Send>>,
    mut ended: Pin<Box<impl Future<Output = ()> + Send>>,
) {
    poll_fn(|context| match connection.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(()), // an error is the client's loss
        Poll::Pending => ended.as_mut().poll(context),
    })
    .await;
}

/// An answer that says nothing but its status.
pub(super) fn status(status: StatusCode) -> Response<Answer> {
    let mut response = Response::new(Answer::from(Vec::new()));
    *response.status_mut() = status;
    response
}

/// The body of an answer.
#[derive(Debug)]
pub(super) enum Answer {
    Text(Option<Bytes>),
    /// This many more bytes of a file.
    File(File, u64),
}

impl From<Vec<u8>> for Answer {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Text(Some(bytes.into()))
    }
}

impl From<&'static str> for Answer {
    fn from(text: &'static str) -> Self {
        Self::Text(Some(Bytes::from_static(text.as_bytes())))
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let block = match self.get_mut() {
            Self::Text(text) => text.take().filter(|text| !text.is_empty()).map(Ok),
            Self::File(_, 0) => None,
            Self::File(file, left) => Some(read_block(file, left)),
        };
        Poll::Ready(block.map(|block| block.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Self::Text(text) => text.as_ref().map_or(0, |text| text.len() as u64),
            Self::File(_, left) => *left,
        })
    }
}

/// Reads some of a file that was just written: it is in memory.
fn read_block(file: &mut File, left: &mut u64) -> io::Result<Bytes> {
    let wanted = usize::try_from(*left).unwrap_or(BLOCK).min(BLOCK);
    let mut block = vec![0; wanted];
    let read = file.read(&mut block)?;
    if read == 0 {
        *left = 0;
        return Err(io::ErrorKind::UnexpectedEof.into()); // it was made shorter
    }
    block.truncate(read);
    *left = left.saturating_sub(read as u64);
    Ok(block.into())
}
