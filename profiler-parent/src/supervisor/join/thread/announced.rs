//! What the thread does for processes that have announced themselves. Linux.

use ipc_protocol::message::{JoinRequest, Opening};
use ipc_protocol::transport::TransportError;
use ipc_protocol::transport::joining::Joiner;
use ipc_protocol::transport::ready::{ChannelNumber, ReadySet};

use super::super::pending::{Announced, Pending, Stage};
use super::JoinThread;

/// The most times that connections are accepted for one capture.
const ROUNDS: usize = 64;

impl JoinThread {
    /// Meets all processes that have connected until now, and notes those that have left.
    pub(super) fn catch_up(&mut self, set: &ReadySet) {
        for _ in 0..ROUNDS {
            if !self.accept(set) {
                break;
            }
        }
        let announced = self.pending.iter().filter(|(_, one)| one.is_announced());
        let announced: Vec<ChannelNumber> = announced.map(|(number, _)| *number).collect();
        for number in announced {
            self.serve(set, number);
        }
    }

    /// Notes a process that announces itself, and keeps its connection.
    pub(super) fn note_announced(
        &mut self,
        set: &ReadySet,
        number: ChannelNumber,
        mut pending: Pending,
        request: JoinRequest,
    ) {
        if let Some(announced) = self.admission.announce(&mut pending.joiner, request) {
            pending.stage = Stage::Announced(Box::new(announced));
        }
        self.keep(set, number, pending);
    }

    /// Receives from a process that has announced itself.
    pub(super) fn hear_announced(
        &mut self,
        set: &ReadySet,
        number: ChannelNumber,
        joiner: Joiner,
        mut announced: Box<Announced>,
        received: Result<Option<Opening>, TransportError>,
    ) {
        match received {
            Ok(None) => {}
            Ok(Some(Opening::Join(request)))
                if request.token == self.token && !request.is_announcement() =>
            {
                return self.apply(set, number, joiner, request, Some(announced.key));
            }
            Ok(Some(_)) | Err(_) => self.admission.left(&mut announced),
        }
        self.keep_announced(set, number, joiner, announced);
    }

    fn keep_announced(
        &mut self,
        set: &ReadySet,
        number: ChannelNumber,
        joiner: Joiner,
        announced: Box<Announced>,
    ) {
        let pending = Pending {
            joiner,
            deadline: announced.deadline(),
            stage: Stage::Announced(announced),
        };
        self.keep(set, number, pending);
    }

    /// Looks at a process that has announced itself.
    pub(super) fn look_at(
        &mut self,
        set: &ReadySet,
        number: ChannelNumber,
        mut joiner: Joiner,
        mut announced: Box<Announced>,
    ) {
        if announced.has_left() {
            return self.admission.end(&mut joiner, &announced);
        }
        if joiner.has_ended() {
            self.admission.left(&mut announced); // a forked process holds the connection open
        } else {
            announced.look_later();
        }
        self.keep_announced(set, number, joiner, announced);
    }
}
