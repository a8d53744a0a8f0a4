//! The events of the supervisor.
//!
//! Sent by the session, captures, spawning, and the threads that serve the supervisor.

use std::process::ExitStatus;

use crossbeam_channel::Sender;
use ipc_protocol::message::{GatherId, Hello, ToChild, ToParent};
use ipc_protocol::transport::{self, TransportError};
use profiler_core::ids::{ByteLimit, PoolId};
#[cfg(naming_waits)]
use profiler_core::internal::waits::{AskedWait, NamedWait};
use profiler_gecko::ProfileSpec;

use super::link::Control;
use super::listen::InFlight;
#[cfg(observing)]
use super::observed::ObservedEvent;
use crate::controller::{Event, Refusal};
use crate::gather::state::Input;

/// A request or a notification for the supervisor.
#[derive(Debug)]
pub(crate) enum SupervisorEvent {
    /// A process asks to join; the reply is its first allowance.
    Join {
        key: PoolId,
        reply: Sender<Result<ByteLimit, Refusal>>,
    },
    /// An event for the controller only.
    Accounting(Event),
    /// This process has started to record.
    LocalProcessStarted { key: PoolId },
    /// A child has sent `Hello`.
    Connected {
        key: PoolId,
        hello: Hello,
        sender: transport::Sender<ToChild>,
    },
    /// A child has sent a message.
    Message {
        key: PoolId,
        message: ToParent,
        in_flight: InFlight,
    },
    /// A child's channel has ended, or was never opened.
    Closed { key: PoolId, error: TransportError },
    /// A child has ended.
    Exited {
        key: PoolId,
        status: Option<ExitStatus>,
    },
    /// A process executes another program, which has joined the session.
    #[cfg_attr(
        not(all(target_os = "linux", not(profiler_portable))),
        allow(dead_code)
    )]
    Executed { key: PoolId },
    /// An event of observed programs.
    #[cfg(observing)]
    Observed(ObservedEvent),
    /// The limit changes. `obeyed` receives a message when at most the new limit is held.
    SetLimit {
        limit: ByteLimit,
        obeyed: Sender<()>,
    },
    /// A command for all connected children.
    Control {
        control: Control,
        confirm: Sender<()>,
        asked: Sender<usize>,
    },
    /// This process asks for whom its threads wait.
    #[cfg(naming_waits)]
    OwnWaits(Vec<AskedWait>),
    /// The answer to a question of a child about waits.
    #[cfg(naming_waits)]
    WaitsNamed { key: PoolId, waits: Vec<NamedWait> },
    /// A request of a capture.
    Capture(CaptureRequest),
    /// The wanted probes may have changed, or this process's own chunk manager may have an update:
    /// the supervisor checks.
    Woken,
    /// The session is over.
    End,
}

/// A request of a capture to the supervisor.
#[derive(Debug)]
pub(crate) enum CaptureRequest {
    /// Request the parts of all children that can answer; `asked` gets the list of them.
    Begin {
        id: GatherId,
        spec: ProfileSpec,
        inputs: Sender<Input<PoolId>>,
        asked: Sender<Vec<PoolId>>,
    },
    /// Ask a child for its progress.
    Progress { id: GatherId, key: PoolId },
    /// Make a child stop writing.
    Cancel { id: GatherId, key: PoolId },
    /// Stop forwarding.
    End { id: GatherId },
}
