//! Sends and receives frames as packets of ipc-channel, and contains its errors and panics.
//!
//! Used by the transport above. Invariants: only packets that the guard found whole are received;
//! the first error ends a receiver; a fork of the process neither sends nor receives; a descriptor
//! that the program has closed is neither used nor closed.

use std::io;
#[cfg(unix)]
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ipc_channel::IpcError;
use ipc_channel::ipc::{IpcReceiver, IpcSender};
use profiler_sys::{DescriptorLost, OwnDescriptor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::MAX_FRAME_BYTES;
use crate::sys::ReceiveMode;
use crate::sys::listening::{Guard, Peek, own_channel};
use crate::sys::shut_down;
use crate::transport::{FrameReceiver, FrameSender, TransportError, check_frame, check_owner};

/// Bytes of a packet beyond its frame: the packet's kind and the frame's length.
const PACKET_SLACK: usize = 16;

/// The error text when a peer makes ipc-channel's receiver fail.
pub(super) const CANNOT_RECEIVE: &str = "a packet that cannot be received";

/// A packet. Only the first packet of a channel may be other than `Frame`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Packet {
    Frame(Vec<u8>),
    Hello { frame: Vec<u8>, answers: Answers },
    Cancel,
}

/// The sender for the parent's answers. It travels as an [`IpcSender`].
#[derive(Debug)]
pub(super) struct Answers(OwnDescriptor<IpcSender<Packet>>);

impl Answers {
    pub(super) fn new(sender: IpcSender<Packet>) -> Self {
        Self(own_channel(sender))
    }

    pub(super) fn into_sender(self) -> OwnDescriptor<IpcSender<Packet>> {
        self.0
    }
}

impl Serialize for Answers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.unchecked().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Answers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IpcSender::deserialize(deserializer).map(Self::new)
    }
}

/// Runs code that may panic inside ipc-channel. A panic becomes an error that ends only this
/// channel.
pub(super) fn guarded<T>(
    what: &'static str,
    act: impl FnOnce() -> Result<T, TransportError>,
) -> Result<T, TransportError> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or(Err(TransportError::PeerMisbehaved(what)))
}

/// Sends frames as packets.
pub(super) struct PacketSender {
    pub(super) packets: OwnDescriptor<IpcSender<Packet>>,
    pub(super) owner: u32,
    /// The socket of the receiver of the same channel, which it owns.
    pub(super) answers: Option<OwnDescriptor<()>>,
}

/// Receives packets and unpacks their frames.
pub(super) struct PacketReceiver {
    pub(super) packets: OwnDescriptor<IpcReceiver<Packet>>,
    pub(super) guard: Option<Guard>,
    pub(super) owner: u32,
    /// Set by the first error; nothing is received afterwards.
    pub(super) ended: bool,
}

impl PacketSender {
    pub(super) fn new(packets: OwnDescriptor<IpcSender<Packet>>) -> Self {
        Self {
            packets,
            owner: std::process::id(),
            answers: None,
        }
    }

    /// Lets [`FrameSender::hang_up`] end the wait of `receiver`.
    pub(super) fn with(mut self, receiver: &OwnDescriptor<IpcReceiver<Packet>>) -> Self {
        self.answers = Some(OwnDescriptor::of_number((), receiver.number()));
        self
    }
}

impl FrameSender for PacketSender {
    fn send(&mut self, frame: &[u8]) -> Result<(), TransportError> {
        check_frame(frame)?;
        check_owner(self.owner)?;
        let packets = &self.packets;
        retry_interrupted(|| {
            guarded("a channel that fails", || {
                Ok(packets.get()?.send(Packet::Frame(frame.to_vec()))?)
            })
        })
    }

    fn hang_up(&self) {
        let answers = self.answers.as_ref().filter(|answers| answers.is_ours());
        if let Some(number) = answers.and_then(OwnDescriptor::number) {
            shut_down(number);
        }
    }
}

impl PacketReceiver {
    pub(super) fn new(packets: OwnDescriptor<IpcReceiver<Packet>>, guard: Option<Guard>) -> Self {
        Self {
            packets,
            guard,
            owner: std::process::id(),
            ended: false,
        }
    }

    /// Returns `None` if no packet is queued and `mode` is `Try`. Only the guard can check this
    /// without blocking.
    fn receive(&self, mode: ReceiveMode) -> Result<Option<Vec<u8>>, TransportError> {
        match &self.guard {
            Some(guard) => match guard.peek(mode)? {
                Some(peek) => check_packet(peek)?,
                None => return Ok(None),
            },
            None if mode == ReceiveMode::Try => return Err(TransportError::Unavailable),
            None => {}
        }
        let packets = &self.packets;
        match retry_interrupted(|| guarded(CANNOT_RECEIVE, || Ok(packets.get()?.recv()?)))? {
            Packet::Frame(frame) if frame.len() <= MAX_FRAME_BYTES => Ok(Some(frame)),
            Packet::Frame(_) => Err(TransportError::PeerMisbehaved("a frame too large")),
            _ => Err(TransportError::PeerMisbehaved("a second Hello")),
        }
    }

    fn receive_or_end(&mut self, mode: ReceiveMode) -> Result<Option<Vec<u8>>, TransportError> {
        check_owner(self.owner)?;
        if self.ended {
            return Err(TransportError::Disconnected);
        }
        let received = self.receive(mode);
        // After the loss of the descriptor a received message is ignored: no answer is possible,
        // and the peer may already have noticed.
        let received = if self.packets.is_ours() {
            received
        } else {
            Err(DescriptorLost.into())
        };
        self.ended = received.is_err();
        received
    }
}

impl FrameReceiver for PacketReceiver {
    fn recv(&mut self) -> Result<Vec<u8>, TransportError> {
        self.receive_or_end(ReceiveMode::Wait)?
            .ok_or(TransportError::Disconnected)
    }

    fn try_recv(&mut self) -> Result<Option<Vec<u8>>, TransportError> {
        self.receive_or_end(ReceiveMode::Try)
    }

    #[cfg(unix)]
    fn socket(&self) -> Result<BorrowedFd<'_>, TransportError> {
        Ok(self
            .guard
            .as_ref()
            .ok_or(TransportError::Unavailable)?
            .socket()?)
    }
}

fn check_packet(peek: Peek) -> Result<(), TransportError> {
    match peek {
        Peek::Closed => Err(TransportError::Disconnected),
        Peek::Whole { attached: true, .. } | Peek::Foreign => {
            Err(TransportError::PeerMisbehaved("a packet of another kind"))
        }
        Peek::Whole { length, .. } if length <= MAX_FRAME_BYTES + PACKET_SLACK => Ok(()),
        Peek::Whole { .. } => Err(TransportError::PeerMisbehaved("a packet too large")),
    }
}

/// Checks the first packet, to which the sender for the answers is attached.
pub(super) fn check_first(peek: Peek) -> Result<(), TransportError> {
    match peek {
        Peek::Whole {
            length,
            attached: true,
        } => check_packet(Peek::Whole {
            length,
            attached: false,
        }),
        Peek::Whole { .. } => Err(TransportError::PeerMisbehaved("a message before Hello")),
        peek => check_packet(peek),
    }
}

pub(super) fn retry_interrupted<T>(
    mut act: impl FnMut() -> Result<T, TransportError>,
) -> Result<T, TransportError> {
    loop {
        match act() {
            Err(TransportError::Io(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

impl From<IpcError> for TransportError {
    fn from(error: IpcError) -> Self {
        match error {
            IpcError::Disconnected => Self::Disconnected,
            IpcError::SerializationError(_) => {
                Self::PeerMisbehaved("a packet that does not decode")
            }
            IpcError::Io(error) => error.into(),
        }
    }
}
