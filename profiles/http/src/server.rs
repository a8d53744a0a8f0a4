//! The server's thread, with its own runtime.
//!
//! Started by the live page and by `profiler view`; ends when the [`HttpServer`] is dropped, or
//! when the session ends.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::net::TcpListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crossbeam_channel::{Receiver, TryRecvError};
use hyper::body::{Body, Incoming};
use hyper::header::CONTENT_LENGTH;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use profiler_sys::{QuietThread, spawn_quiet};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

use super::admission::{Admission, Admitted};
use super::answer::{Answer, status};
use super::service::{Answered, BodyWork, HttpService, Reply};
use super::workers::{WORKERS, Workers};

/// Limit on the bytes of a request's head.
const HEAD: usize = 16 * 1024;
/// How long the next head may take after a request with the token; a connection that is idle for
/// longer is closed.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long the body of a request may take.
const BODY_TIME: Duration = Duration::from_secs(60);
/// How long a connection may last. An open page then makes a new one.
const CONNECTION_TIME: Duration = Duration::from_secs(600);
/// Time between two checks for the end of the session. Each check wakes the thread, even if there
/// are no requests.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Number of checks between two calls of [`HttpService::tidy`].
const TIDY: u32 = 8;
/// Pause after a connection could not be accepted, for example for lack of a file descriptor.
const PAUSE: Duration = Duration::from_millis(50);

/// Options of a server.
#[derive(Debug)]
pub struct ServerOptions {
    /// The name of the server's threads.
    pub thread_name: &'static str,
    /// Whether a connection stays open after an answer.
    pub keep_alive: bool,
    /// Disconnected when the server must end.
    pub session_end: Receiver<()>,
}

/// A running server. Dropping it ends its thread and all connections.
#[derive(Debug)]
pub struct HttpServer {
    stop: Arc<Notify>,
    thread: Option<QuietThread<()>>,
}

impl HttpServer {
    /// Serves until this is dropped, or until the session ends.
    ///
    /// # Errors
    /// When the system cannot create a thread or a file descriptor.
    pub fn start(
        listener: TcpListener,
        service: Arc<impl HttpService>,
        options: ServerOptions,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let thread_name = options.thread_name;
        let body = move || {
            // A panic ends the server, and does not affect the application.
            let run = || run(runtime, listener, service, &options, &stopped);
            let _ = catch_unwind(AssertUnwindSafe(run));
        };
        let thread = spawn_quiet(thread_name, body)?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stop.notify_one(); // stored if the thread does not wait yet
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Data shared by all connections.
#[derive(Debug)]
struct ConnectionContext<S> {
    service: Arc<S>,
    keep_alive: bool,
    workers: Workers,
    /// Limits the bodies that are in memory at the same time.
    bodies: Arc<Semaphore>,
}

fn run(
    runtime: Runtime,
    listener: TcpListener,
    service: Arc<impl HttpService>,
    options: &ServerOptions,
    stop: &Notify,
) {
    let is_over = || options.session_end.try_recv() == Err(TryRecvError::Disconnected);
    let context = ConnectionContext {
        service,
        keep_alive: options.keep_alive,
        workers: Workers::new(options.thread_name),
        bodies: Arc::new(Semaphore::new(WORKERS)),
    };
    let context = Arc::new(context);
    runtime.block_on(async {
        let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
            return;
        };
        let accepting = tokio::spawn(accept(listener, Arc::clone(&context)));
        let mut checks = 0_u32;
        while !is_over() && !accepting.is_finished() {
            if timeout(CHECK_INTERVAL, stop.notified()).await.is_ok() {
                break;
            }
            checks = checks.wrapping_add(1);
            if checks.is_multiple_of(TIDY) {
                context.service.tidy();
            }
        }
    });
    // All connections end with the runtime.
    runtime.shutdown_background();
}

async fn accept<S: HttpService>(
    listener: tokio::net::TcpListener,
    context: Arc<ConnectionContext<S>>,
) {
    let admission = Admission::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let admitted = Arc::new(admission.enter().await);
                let connection = serve_connection(stream, Arc::clone(&context), admitted);
                tokio::spawn(async move {
                    let _ = timeout(CONNECTION_TIME, connection).await;
                });
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn serve_connection<S: HttpService>(
    stream: TcpStream,
    context: Arc<ConnectionContext<S>>,
    admitted: Arc<Admitted>,
) {
    let keep_alive = context.keep_alive;
    let client = Arc::clone(&admitted);
    let answer = service_fn(move |request| {
        let context = Arc::clone(&context);
        let client = Arc::clone(&client);
        async move { Ok::<_, Infallible>(respond(&context, &client, request).await) }
    });
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD);
    // A client that has closed its sending side may still read.
    server
        .half_close(true)
        .keep_alive(keep_alive)
        .auto_date_header(false);
    let connection: Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>> =
        Box::pin(server.serve_connection(TokioIo::new(stream), answer));
    unless(connection, Box::pin(admitted.ended())).await;
}

/// Runs a connection until it closes, or until `ended`. Pending work of the connection is done
/// first.
async fn unless<T>(
    mut connection: Pin<Box<dyn Future<Output = T> + Send>>,
    mut ended: Pin<Box<impl Future<Output = ()> + Send>>,
) {
    poll_fn(|context| match connection.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(()), // an error concerns only the client
        Poll::Pending => ended.as_mut().poll(context),
    })
    .await;
}

async fn respond<S: HttpService>(
    context: &ConnectionContext<S>,
    client: &Admitted,
    request: Request<Incoming>,
) -> Response<Answer> {
    let (head, body) = request.into_parts();
    let head = Request::from_parts(head, ());
    let answered = catch_unwind(AssertUnwindSafe(|| context.service.answer(&head)));
    let Ok(Answered { reply, has_token }) = answered else {
        return status(StatusCode::INTERNAL_SERVER_ERROR);
    };
    if has_token {
        client.show_token();
    }
    match reply {
        Reply::Now(response) => response,
        Reply::Work(work) => context.workers.answer(work).await,
        Reply::AfterBody(_) if !head.headers().contains_key(CONTENT_LENGTH) => {
            status(StatusCode::LENGTH_REQUIRED)
        }
        Reply::AfterBody(work) => after_body(context, work, body).await,
    }
}

/// Reads a body, then answers on a worker thread. The work goes on if the connection ends
/// meanwhile, and its body counts until the work ends.
async fn after_body<S: HttpService>(
    context: &ConnectionContext<S>,
    work: BodyWork,
    body: Incoming,
) -> Response<Answer> {
    let Ok(permit) = Arc::clone(&context.bodies).acquire_owned().await else {
        return status(StatusCode::SERVICE_UNAVAILABLE);
    };
    if body.size_hint().lower() > work.limit as u64 {
        return status(StatusCode::PAYLOAD_TOO_LARGE);
    }
    match timeout(BODY_TIME, read_body(body, work.limit)).await {
        Ok(Ok(bytes)) => {
            let work = move || {
                let _permit = permit;
                (work.work)(bytes)
            };
            context.workers.answer(Box::new(work)).await
        }
        Ok(Err(refusal)) => status(refusal),
        Err(_) => status(StatusCode::REQUEST_TIMEOUT),
    }
}

async fn read_body(mut body: Incoming, limit: usize) -> Result<Vec<u8>, StatusCode> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|_| StatusCode::BAD_REQUEST)?;
        bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        if bytes.len() > limit {
            return Err(StatusCode::PAYLOAD_TOO_LARGE);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
