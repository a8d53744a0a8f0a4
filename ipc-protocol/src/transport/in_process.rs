//! The transport for tests: two bounded queues inside one process.
//!
//! Used by tests of all code that uses a channel, here and in the dependent crates. It obeys the
//! same rules as the real transports, including that a full queue makes the sender wait.

use crossbeam_channel as queue;

use super::{
    ChildEnds, FrameReceiver, FrameSender, ParentEnds, Receiver, Sender, TransportError,
    check_frame,
};

/// Capacity of a queue in frames; about the number of short frames that a socket holds.
pub const QUEUE_FRAMES: usize = 256;

/// The sending end of a queue.
#[derive(Debug)]
pub struct QueueSender(queue::Sender<Vec<u8>>);

/// The receiving end of a queue.
#[derive(Debug)]
pub struct QueueReceiver(queue::Receiver<Vec<u8>>);

/// A one-way channel of frames.
pub fn frames() -> (QueueSender, QueueReceiver) {
    let (sender, receiver) = queue::bounded(QUEUE_FRAMES);
    (QueueSender(sender), QueueReceiver(receiver))
}

/// A connected pair of parent and child.
pub fn pair() -> (ParentEnds, ChildEnds) {
    let (to_child, from_parent) = frames();
    let (to_parent, from_child) = frames();
    let parent = ParentEnds {
        sender: Sender::new(to_child),
        receiver: Receiver::new(from_child),
    };
    let child = ChildEnds {
        sender: Sender::new(to_parent),
        receiver: Receiver::new(from_parent),
    };
    (parent, child)
}

impl FrameSender for QueueSender {
    fn send(&mut self, frame: &[u8]) -> Result<(), TransportError> {
        check_frame(frame)?;
        self.0
            .send(frame.to_vec())
            .map_err(|_| TransportError::Disconnected)
    }
}

impl FrameReceiver for QueueReceiver {
    fn recv(&mut self) -> Result<Vec<u8>, TransportError> {
        self.0.recv().map_err(|_| TransportError::Disconnected)
    }

    fn try_recv(&mut self) -> Result<Option<Vec<u8>>, TransportError> {
        match self.0.try_recv() {
            Ok(frame) => Ok(Some(frame)),
            Err(queue::TryRecvError::Empty) => Ok(None),
            Err(queue::TryRecvError::Disconnected) => Err(TransportError::Disconnected),
        }
    }
}
