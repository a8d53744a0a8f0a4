//! Closes sockets whose end may take long, on a thread of its own.
//!
//! A hostile process can attach descriptors to packets that are not received. The kernel closes
//! them with the socket, and can wait there for as long as the process wishes: for a slow network
//! connection, for a file system that does not answer. Created by a session's listener, for all
//! connections to it. Invariants: one thread per closer, and only while something waits; a socket
//! counts until it is closed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use profiler_sys::{OwnFile, spawn_quiet};

/// The sockets of one listener that wait to be closed.
#[derive(Debug)]
pub(crate) struct Closer<T = OwnFile>(Mutex<CloserState<T>>);

#[derive(Debug)]
struct CloserState<T> {
    waiting: VecDeque<T>,
    /// The thread runs, and closes a socket.
    is_closing: bool,
}

impl<T> Default for Closer<T> {
    fn default() -> Self {
        Self(Mutex::new(CloserState {
            waiting: VecDeque::new(),
            is_closing: false,
        }))
    }
}

impl<T: Send + 'static> Closer<T> {
    /// Closes a socket soon, after those that wait. If no thread can be started, it waits for the
    /// next one.
    pub(crate) fn close(self: &Arc<Self>, socket: T) {
        let mut state = self.lock();
        state.waiting.push_back(socket);
        if state.is_closing {
            return;
        }
        state.is_closing = true;
        drop(state);
        let closer = Arc::clone(self);
        if spawn_quiet("profiler-close", move || closer.run()).is_err() {
            self.lock().is_closing = false;
        }
    }

    /// Number of sockets that are not closed yet.
    pub(crate) fn waiting(&self) -> usize {
        let state = self.lock();
        state.waiting.len() + usize::from(state.is_closing)
    }

    fn run(&self) {
        while let Some(socket) = self.next() {
            drop(socket); // may take long
        }
    }

    /// The next socket; `None` if none waits, and the thread ends.
    fn next(&self) -> Option<T> {
        let mut state = self.lock();
        let next = state.waiting.pop_front();
        state.is_closing = next.is_some();
        next
    }

    fn lock(&self) -> MutexGuard<'_, CloserState<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Drop for Closer<T> {
    /// Sockets wait here only if no thread could be started. They stay open, because the caller
    /// must not wait.
    fn drop(&mut self) {
        let state = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.waiting.drain(..).for_each(std::mem::forget);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::ThreadId;

    use super::*;

    /// Its end takes until it is allowed, and is reported with the thread.
    struct Slow {
        may_end: Receiver<()>,
        ended: Sender<ThreadId>,
    }

    impl Drop for Slow {
        fn drop(&mut self) {
            let _ = self.may_end.recv();
            let _ = self.ended.send(std::thread::current().id());
        }
    }

    #[test]
    fn one_thread_closes_all_sockets_and_they_count_until_they_are_closed() {
        let closer = Arc::new(Closer::default());
        let (ended, ends) = channel();
        let mut doors = Vec::new();
        for count in 1..=5 {
            let (door, may_end) = channel();
            doors.push(door);
            closer.close(Slow {
                may_end,
                ended: ended.clone(),
            });
            // The thread counts before it has taken the first one, too.
            assert!((count..=count + 1).contains(&closer.waiting()));
        }
        let threads: Vec<ThreadId> = doors
            .into_iter()
            .map(|door| {
                drop(door);
                ends.recv().unwrap()
            })
            .collect();
        assert!(threads.iter().all(|thread| *thread == threads[0]));
        while closer.waiting() > 0 {
            std::thread::yield_now(); // the thread ends
        }
    }
}
