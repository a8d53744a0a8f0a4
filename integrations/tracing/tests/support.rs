//! Code that the tests share: the start of a session beside a subscriber, and a writer that keeps
//! what is written.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use profiler_tracing::{ProfilerSubscriber, RecordingRules};
use recorded_session::RunningSession;
use test_support::patience::until;
use tracing::Subscriber;
use tracing::subscriber::set_global_default;

/// Makes this the default subscriber, and starts a session.
pub(crate) fn start_with(subscriber: impl Subscriber + Send + Sync) -> RunningSession {
    set_global_default(subscriber).unwrap();
    start()
}

/// Starts a session, after the default subscriber is installed. Waits until `tracing` has asked it
/// again: a start waits for this only for a limited time.
pub(crate) fn start() -> RunningSession {
    let session = RunningSession::start();
    assert!(until(|| tracing::enabled!(tracing::Level::INFO)));
    session
}

/// A subscriber that also records what the filters of the inner one refuse.
pub(crate) fn beyond_filters<S>(inner: S) -> ProfilerSubscriber<S> {
    RecordingRules::default().beyond_filters(true).around(inner)
}

/// Runs `body` on another thread, and returns what it returns.
pub(crate) fn on_a_thread<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, body);
        thread.unwrap().join().unwrap()
    })
}

/// A writer for fmt subscribers that keeps what is written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    pub(crate) fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8(bytes.clone()).unwrap()
    }
}

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
