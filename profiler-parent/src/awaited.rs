//! Work of a thread whose result a task awaits, on any executor.
//!
//! Used for captures and for the ends of children. The thread does the work, which may wait for
//! long, stores the result, and wakes the task. Invariants: a poll never waits for the work; the
//! task is woken on a thread with as much stack as threads of the host have, because that runs code
//! of the host; no code of the host runs while the result is locked; each result is returned once.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::thread;

use profiler_sys::spawn_quiet_for_host_code;

/// The work. Dropping it leaves the thread at work.
#[derive(Debug)]
pub(crate) struct Awaited<T>(Arc<Mutex<Waiting<T>>>);

/// What the thread and the task share.
#[derive(Debug)]
struct Waiting<T> {
    result: Option<thread::Result<T>>,
    waker: Option<Waker>,
}

impl<T: Send + 'static> Awaited<T> {
    /// Starts a thread that does the work.
    ///
    /// # Errors
    /// When the system has no thread left; nothing is done then.
    pub(crate) fn start(name: &str, work: impl FnOnce() -> T + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Mutex::new(Waiting {
            result: None,
            waker: None,
        }));
        let of_thread = Arc::clone(&shared);
        spawn_quiet_for_host_code(name, move || {
            let result = catch_unwind(AssertUnwindSafe(work));
            end(&of_thread, result);
        })?;
        Ok(Self(shared))
    }

    /// The result of the work, or its panic. Without one, this waker is woken at the end.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<thread::Result<T>> {
        let waker = waker.clone();
        let mut waiting = lock(&self.0);
        if let Some(result) = waiting.result.take() {
            return Poll::Ready(result);
        }
        let earlier = waiting.waker.replace(waker);
        drop(waiting);
        drop(earlier);
        Poll::Pending
    }
}

/// Stores the result, and wakes the task.
fn end<T>(shared: &Mutex<Waiting<T>>, result: thread::Result<T>) {
    let waker = {
        let mut waiting = lock(shared);
        waiting.result = Some(result);
        waiting.waker.take()
    };
    if let Some(waker) = waker {
        waker.wake();
    }
}

fn lock<T>(shared: &Mutex<Waiting<T>>) -> MutexGuard<'_, Waiting<T>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::Wake;

    use super::*;

    /// Says that it was woken.
    struct Tell(mpsc::Sender<()>);

    impl Wake for Tell {
        fn wake(self: Arc<Self>) {
            self.0.send(()).unwrap();
        }
    }

    fn waker() -> (Waker, mpsc::Receiver<()>) {
        let (sender, woken) = mpsc::channel();
        (Waker::from(Arc::new(Tell(sender))), woken)
    }

    #[test]
    fn the_task_that_polled_last_is_woken_once_and_gets_the_result() {
        let (go_on, held) = mpsc::channel();
        let work = move || {
            held.recv().unwrap();
            7
        };
        let awaited = Awaited::start("test", work).unwrap();
        let [(first, first_woken), (last, woken)] = [waker(), waker()];
        assert!(awaited.poll(&first).is_pending());
        assert!(awaited.poll(&last).is_pending());
        go_on.send(()).unwrap();
        woken.recv().unwrap();
        assert!(matches!(awaited.poll(&last), Poll::Ready(Ok(7))));
        drop((first, last));
        assert!(first_woken.recv().is_err(), "an earlier task was woken");
        assert!(woken.recv().is_err(), "woken again");
    }

    #[test]
    fn a_panic_of_the_work_is_a_result() {
        let (waker, woken) = waker();
        let (go_on, held) = mpsc::channel::<()>();
        let work = move || -> u32 {
            held.recv().unwrap();
            panic!("on purpose")
        };
        let awaited = Awaited::start("test", work).unwrap();
        assert!(awaited.poll(&waker).is_pending());
        go_on.send(()).unwrap();
        woken.recv().unwrap();
        let Poll::Ready(Err(panic)) = awaited.poll(&waker) else {
            panic!("no panic")
        };
        assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
    }
}
