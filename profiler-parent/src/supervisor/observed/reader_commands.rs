//! The commands to the reader of observed programs, and the channel for them.
//!
//! The supervisor, captures and the exit watcher send; the reader receives, or waits until its next
//! pass. A receiver of `crossbeam-channel` yields its processor several times before it sleeps. On
//! a busy machine, each yield gives the processor to another thread; the yields take a sixth of the
//! reader's processor time. Here, the reader parks itself.
//!
//! Invariant: no command is left while the reader sleeps. A sender adds the command before it looks
//! for the reader's thread, and the reader publishes its thread before it looks for commands.

use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Instant;

use crossbeam_channel::{Receiver, RecvTimeoutError, SendError, Sender, TryRecvError, unbounded};
use profiler_core::ids::{ByteLimit, PoolId, ProcessId};
use profiler_core::time::Timestamp;

use crate::process_table::UnprofiledProcess;
use crate::sys::now;

/// What the supervisor tells the reader.
#[derive(Debug)]
pub(crate) enum ReaderCommand {
    /// The number of bytes that the pool may hold has changed.
    SetAllowance {
        /// The program's pool.
        key: PoolId,
        /// The bytes.
        allowance: ByteLimit,
    },
    /// The released chunks up to this time are to be destroyed.
    Destroy {
        /// The program's pool.
        key: PoolId,
        /// The time.
        at_or_before: Timestamp,
    },
    /// The process has ended. The reader looks for its file if it has not met it, reads the rest,
    /// and answers with [`super::ObservedEvent::Ended`].
    Ended {
        /// The program's pool.
        key: PoolId,
    },
    /// A recorder of the process's own has begun: its observation has ended.
    RecordsItself {
        /// The process.
        pid: ProcessId,
    },
    /// Observe this process, which has no file, from outside, or list it with the given reason.
    ObserveOutside(UnprofiledProcess),
    /// All programs that have begun until now are to be met, and their samples read. The sender
    /// gets the number of programs that could not be met.
    Meet(Sender<u64>),
    /// Recording stops if true, and continues if false.
    Pause(bool),
    /// The session is over.
    End,
}

/// Sends commands to the reader.
#[derive(Clone, Debug)]
pub(crate) struct CommandSender {
    sender: Sender<ReaderCommand>,
    reader: Arc<OnceLock<Thread>>,
}

/// Receives the commands, in the reader's thread.
#[derive(Debug)]
pub(super) struct CommandReceiver {
    receiver: Receiver<ReaderCommand>,
    reader: Arc<OnceLock<Thread>>,
}

/// A channel for commands.
pub(super) fn channel() -> (CommandSender, CommandReceiver) {
    let (sender, receiver) = unbounded();
    let reader = Arc::<OnceLock<Thread>>::default();
    let commands = CommandSender {
        sender,
        reader: Arc::clone(&reader),
    };
    (commands, CommandReceiver { receiver, reader })
}

impl CommandSender {
    /// Sends a command, and wakes the reader.
    ///
    /// # Errors
    /// If the reader has ended.
    pub(super) fn send(&self, command: ReaderCommand) -> Result<(), SendError<ReaderCommand>> {
        self.sender.send(command)?;
        fence(Ordering::SeqCst);
        if let Some(reader) = self.reader.get() {
            reader.unpark();
        }
        Ok(())
    }
}

impl CommandReceiver {
    /// The next command, if there is one.
    pub(super) fn try_recv(&self) -> Result<ReaderCommand, TryRecvError> {
        self.receiver.try_recv()
    }

    /// The next command. Waits for it until `deadline`. Always called by the same thread.
    pub(super) fn recv_deadline(
        &self,
        deadline: Instant,
    ) -> Result<ReaderCommand, RecvTimeoutError> {
        self.reader.get_or_init(std::thread::current);
        fence(Ordering::SeqCst);
        loop {
            match self.receiver.try_recv() {
                Ok(command) => return Ok(command),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) => {}
            }
            let left = deadline.saturating_duration_since(now());
            if left.is_zero() {
                return Err(RecvTimeoutError::Timeout);
            }
            std::thread::park_timeout(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn every_command_ends_the_wait_for_the_next_pass() {
        let (commands, orders) = channel();
        let (to_test, received) = unbounded();
        let reader = profiler_sys::spawn_quiet("reader", move || {
            while let Ok(command) = orders.recv_deadline(now() + LONG) {
                let is_end = matches!(command, ReaderCommand::End);
                to_test.send(()).unwrap();
                if is_end {
                    return;
                }
            }
        })
        .unwrap();
        for _ in 0..1000 {
            commands.send(ReaderCommand::Pause(true)).unwrap();
            received.recv_timeout(LONG / 2).unwrap();
        }
        commands.send(ReaderCommand::End).unwrap();
        reader.join().unwrap();
    }

    #[test]
    fn a_wait_ends_at_its_deadline_or_when_all_senders_are_gone() {
        let (commands, orders) = channel();
        let timeout = orders.recv_deadline(now() + Duration::from_millis(5));
        assert!(matches!(timeout, Err(RecvTimeoutError::Timeout)));
        drop(commands);
        let gone = orders.recv_deadline(now() + LONG);
        assert!(matches!(gone, Err(RecvTimeoutError::Disconnected)));
    }
}
