//! The events of the supervisor.
//!
//! Sent by the session, captures, spawning, and the threads that serve the supervisor.

use std::process::ExitStatus;

use crossbeam_channel::Sender;
use ipc_protocol::message::{GatherId, Hello, ToChild, ToParent};
use ipc_protocol::transport::{self, TransportError};
use profiler_core::ids::{ByteLimit, PoolId};
use profiler_core::internal::profile::ProfileSpec;

use super::link::Control;
use super::listen::InFlight;
use crate::controller::{Event, Refusal};
use crate::gather::state::Input;

/// Something for the supervisor to do or to know.
#[derive(Debug)]
pub(crate) enum SupervisorEvent {
    /// A process wants to join; the answer is its first allowance.
    Join { key: PoolId, reply: Sender<Result<ByteLimit, Refusal>> },
    /// An event for the controller, which needs nothing else.
    Accounting(Event),
    /// This process records.
    LocalProcessStarted { key: PoolId },
    /// A child has said hello.
    Connected { key: PoolId, hello: Hello, sender: transport::Sender<ToChild> },
    /// A child has sent a message.
    Message { key: PoolId, message: ToParent, in_flight: InFlight },
    /// A child's channel has ended, or never began.
    Closed { key: PoolId, error: TransportError },
    /// A child has ended.
    Exited { key: PoolId, status: Option<ExitStatus> },
    /// The limit changes; `obeyed` is sent to when no more than that is held.
    SetLimit { limit: ByteLimit, obeyed: Sender<()> },
    /// All connected children must do this.
    Control { control: Control, confirm: Sender<()>, asked: Sender<usize> },
    /// A capture asks for something.
    Capture(CaptureRequest),
    /// The probes that are wanted may have changed, or this process's own chunk manager has an
    /// update: the supervisor checks.
    Woken,
    /// The session is over.
    End,
}

/// What a capture asks of the supervisor.
#[derive(Debug)]
pub(crate) enum CaptureRequest {
    /// Ask all children that can answer for their parts; `asked` gets the list of them.
    Begin { id: GatherId, spec: ProfileSpec, inputs: Sender<Input<PoolId>>, asked: Sender<Vec<PoolId>> },
    /// Ask a child for its progress.
    Progress { id: GatherId, key: PoolId },
    /// Make a child stop writing.
    Cancel { id: GatherId, key: PoolId },
    /// Forward nothing more.
    End { id: GatherId },
}
