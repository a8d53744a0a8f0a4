//! Looks whether a process maps its pool, on threads of their own. Linux.
//!
//! Used when a process joins that seems to record already. Looking at the mappings of a process
//! waits while the process changes them, and a hostile process can make the wait as long as it
//! wishes. Invariants: the caller does not wait; a limited number of threads looks at the same
//! time.

use std::sync::Arc;

use crossbeam_channel::{Receiver, TryRecvError, bounded};
use profiler_core::ids::{PoolId, ProcessId};
use profiler_sys::{OwnFile, spawn_quiet};

use crate::sys::maps_file;

/// The most threads that look at the same time.
const MAX_LOOKS: usize = 4;

/// Begins to look at processes.
#[derive(Debug, Default)]
pub(super) struct PoolLooks(Arc<()>);

/// One look at a process.
#[derive(Debug)]
pub(super) struct PoolLook {
    /// The entry with the pool.
    pub(super) key: PoolId,
    answer: Receiver<Option<bool>>,
    known: Option<Option<bool>>,
}

impl PoolLooks {
    /// Begins to look whether the process maps this pool. If too many threads look already, the
    /// answer is that it is not known.
    pub(super) fn begin(&self, key: PoolId, pid: ProcessId, pool: Arc<OwnFile>) -> PoolLook {
        let (sender, answer) = bounded(1);
        let running = Arc::clone(&self.0);
        if Arc::strong_count(&running) <= MAX_LOOKS + 1 {
            // An error drops the sender: not known.
            let _ = spawn_quiet("profiler-look", move || {
                let is_mapped = pool.get().ok().and_then(|pool| maps_file(pid, pool));
                let _ = sender.send(is_mapped);
                drop(running);
            });
        }
        PoolLook {
            key,
            answer,
            known: None,
        }
    }
}

impl PoolLook {
    /// Whether the process maps the pool; `None` inside if that cannot be known. `None` if the
    /// answer has not come.
    pub(super) fn answer(&mut self) -> Option<Option<bool>> {
        if self.known.is_none() {
            self.known = match self.answer.try_recv() {
                Ok(answer) => Some(answer),
                Err(TryRecvError::Disconnected) => Some(None),
                Err(TryRecvError::Empty) => None,
            };
        }
        self.known
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use rustix::fs::MemfdFlags;

    use super::*;

    fn new_file() -> Arc<OwnFile> {
        let file = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        Arc::new(File::from(file).into())
    }

    fn answer(look: &mut PoolLook) -> Option<bool> {
        loop {
            if let Some(answer) = look.answer() {
                return answer;
            }
            std::thread::yield_now(); // the thread looks
        }
    }

    #[test]
    fn the_answer_comes_later_and_stays() {
        let looks = PoolLooks::default();
        let pid = ProcessId::new(std::process::id());
        let pool = new_file();
        let mut look = looks.begin(PoolId::new(1), pid, Arc::clone(&pool));
        assert_eq!(answer(&mut look), Some(false));
        assert_eq!(look.answer(), Some(Some(false)));
        let mut gone = looks.begin(PoolId::new(1), ProcessId::new(u32::MAX - 1), pool);
        assert_eq!(answer(&mut gone), None, "there is no such process");
    }

    #[test]
    fn few_threads_look_at_the_same_time() {
        let looks = PoolLooks::default();
        let _running: Vec<Arc<()>> = (0..MAX_LOOKS).map(|_| Arc::clone(&looks.0)).collect();
        let pid = ProcessId::new(std::process::id());
        let pool = new_file();
        let mut look = looks.begin(PoolId::new(1), pid, pool);
        assert_eq!(look.answer(), Some(None), "not known, at once");
    }
}
