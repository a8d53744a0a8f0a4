//! An executor for the tests: it sleeps until the task is woken, and counts the polls.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls a future until it is ready; the thread sleeps between polls. Returns how often it was
/// polled, too.
pub(crate) fn wait<F: Future>(mut future: Pin<&mut F>) -> (F::Output, u32) {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut polls = 0;
    loop {
        polls += 1;
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return (output, polls),
            Poll::Pending => thread::park(),
        }
    }
}
