//! What the hub is told.

use std::process::ExitStatus;

use crossbeam_channel::Sender;
use ipc_protocol::message::{GatherId, Hello, ToChild, ToParent};
use ipc_protocol::transport::{self, TransportError};
use profiler_core::ids::{ByteLimit, PoolId};
use profiler_core::profile::ProfileSpec;

use super::link::Control;
use super::listen::InFlight;
use crate::controller::Refusal;
use crate::gather::state::Input;

/// Something for the hub to do or to know.
#[derive(Debug)]
pub(crate) enum HubEvent {
    /// A process wants to join; the answer is its first allowance.
    Join { key: PoolId, reply: Sender<Result<ByteLimit, Refusal>> },
    /// A process that joined will not run after all.
    Forget { key: PoolId },
    /// This process records.
    OwnStarted { key: PoolId },
    /// A child has said hello.
    Connected { key: PoolId, hello: Hello, sender: transport::Sender<ToChild> },
    /// A child has sent a message.
    Message { key: PoolId, message: ToParent, in_flight: InFlight },
    /// A child's channel has ended, or never began.
    Closed { key: PoolId, error: TransportError },
    /// A child has ended.
    Exited { key: PoolId, status: Option<ExitStatus> },
    /// This process's own chunk manager has something to tell.
    OwnUpdate,
    /// The limit is another one; `obeyed` hears when no more than that is held.
    SetLimit { limit: ByteLimit, obeyed: Sender<()> },
    /// Nobody counts any more on what is owed now.
    Overdue,
    /// All connected children shall do this.
    Control { control: Control, confirm: Sender<()>, asked: Sender<usize> },
    /// A capture wants something.
    Capture(CaptureOrder),
    /// Others want something of the hub: it looks.
    Rung,
    /// The session is over.
    End,
}

/// What a capture wants of the hub.
#[derive(Debug)]
pub(crate) enum CaptureOrder {
    /// Ask all children that can be asked for their parts; say who was asked.
    Begin { id: GatherId, spec: ProfileSpec, inputs: Sender<Input<PoolId>>, asked: Sender<Vec<PoolId>> },
    /// Ask a child how far it is.
    Progress { id: GatherId, key: PoolId },
    /// Have a child stop writing.
    Cancel { id: GatherId, key: PoolId },
    /// Nothing more is to be told.
    End { id: GatherId },
}
