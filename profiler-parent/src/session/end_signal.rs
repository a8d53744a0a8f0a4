//! Tells the threads of alerts and of the live page that the session has ended.
//!
//! Each of these threads has a receiver of the same channel. Nothing is ever sent on it: the
//! channel is disconnected when the session ends. The session does not wait for the threads.
//! Invariant: dropped receivers leave no state.

use std::sync::{Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender, bounded};

/// Signals the end of a session to all receivers.
#[derive(Debug)]
pub(super) struct EndSignal {
    end: Mutex<Option<Sender<()>>>,
    ended: Receiver<()>,
}

impl Default for EndSignal {
    fn default() -> Self {
        let (end, ended) = bounded(0);
        Self {
            end: Mutex::new(Some(end)),
            ended,
        }
    }
}

impl EndSignal {
    /// A receiver that is disconnected when the session ends.
    pub(super) fn receiver(&self) -> Receiver<()> {
        self.ended.clone()
    }

    /// Signals the end of the session.
    pub(super) fn send(&self) {
        drop(
            self.end
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::TryRecvError;

    use super::*;

    #[test]
    fn all_receivers_get_the_signal_also_later_ones() {
        let signal = EndSignal::default();
        (0..1_000).for_each(|_| drop(signal.receiver())); // dropped receivers leave no state
        let early = [signal.receiver(), signal.receiver()];
        assert!(
            early
                .iter()
                .all(|one| one.try_recv() == Err(TryRecvError::Empty))
        );
        signal.send();
        let has_ended = |one: &Receiver<()>| one.try_recv() == Err(TryRecvError::Disconnected);
        assert!(early.iter().all(has_ended) && has_ended(&signal.receiver()));
    }
}
