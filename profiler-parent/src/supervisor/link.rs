//! The supervisor's side of one child's channel: requests that are outstanding or waiting.
//!
//! Used only by the supervisor. Invariants:
//!
//! - At most one control request is outstanding; later ones are coalesced to those that still
//!   matter. At most one message of every other kind is unanswered. So a child that does not read
//!   can never fill its socket, and thereby block the supervisor or lose its channel.
//! - An answer counts only if it was requested. After a number of messages only an echo of a random
//!   number counts, because a child could answer endlessly without reading.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use ipc_protocol::environment::Token;
use ipc_protocol::message::{GatherId, RequestId, ToChild, ToParent};
use ipc_protocol::transport;
use profiler_core::groups::Probes;
use profiler_core::ids::ByteLimit;
use profiler_core::session::SessionParams;

use crate::sys::now;

/// Limit on the unrequested answers of a child, which are ignored; one more closes its channel. A
/// correct child sends none.
const MAX_UNASKED: u32 = 64;

/// Messages to a child after which it must show that it reads, by echoing an unpredictable number,
/// since a child may answer messages that it has not read. The socket has room for several times
/// this many.
const MAX_UNREAD: u32 = 32;
/// The shortest time between the answer to a question about waits and the next question. A correct
/// child waits for a multiple of it.
const WAITS_PAUSE: Duration = Duration::from_millis(5);
/// Requests that are kept for a child that reads nothing: one control request, and the latest
/// captures.
const MAX_LATE: usize = 16;

/// The classification of a child's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worth {
    /// It was requested, or needs no request.
    Asked,
    /// It was not requested, and is ignored.
    Unasked,
    /// It was not requested, and there were too many such messages.
    Flood,
}

/// A command to a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    /// Record; keep existing data if nothing changed.
    EnsureStarted,
    /// Stop recording.
    Stop,
    /// Record nothing until `Resume`.
    Pause,
    /// End `Pause`.
    Resume,
    /// Take no samples until `ResumeSampling`.
    PauseSampling,
    /// End `PauseSampling`.
    ResumeSampling,
    /// Confirm when every thread has been sampled once more.
    WaitOnePeriodicSampling,
    /// Measure these probes of groups.
    SetProbes(Probes),
}

impl Control {
    /// Whether a later `other` makes this command obsolete.
    const fn is_overtaken_by(self, other: Self) -> bool {
        use Control::{
            EnsureStarted, Pause, PauseSampling, Resume, ResumeSampling, SetProbes, Stop,
        };
        matches!(
            (self, other),
            (Pause | Resume, Pause | Resume)
                | (
                    PauseSampling | ResumeSampling,
                    PauseSampling | ResumeSampling
                )
                | (EnsureStarted | Stop, EnsureStarted | Stop)
                | (SetProbes(_), SetProbes(_) | Stop)
                | (Pause | Resume | PauseSampling | ResumeSampling, Stop)
        )
    }
}

/// A command that is sent after the outstanding one is confirmed.
#[derive(Debug)]
struct Waiting {
    control: Control,
    confirm: Option<Sender<()>>,
}

/// One child's channel.
#[derive(Debug)]
pub(super) struct Link {
    sender: transport::Sender<ToChild>,
    next: RequestId,
    outstanding: Option<(RequestId, Option<Sender<()>>)>,
    waiting: VecDeque<Waiting>,
    /// The capture whose answer is outstanding, cancelled or not.
    pub(super) gathering: Option<GatherId>,
    awaiting: bool,
    progress: bool,
    /// Whether a question about waits is not answered yet.
    owes_waits: bool,
    /// When the last question about waits was answered.
    named_waits: Option<Instant>,
    unasked: u32,
    /// Messages that the child may not have read yet.
    unread: u32,
    echo: Option<RequestId>,
    /// The latest `Await`, until the child has shown that it reads.
    held: Option<ToChild>,
    /// Requests that are sent after the echo.
    late: VecDeque<ToChild>,
    broken: bool,
}

impl Link {
    pub(super) fn new(sender: transport::Sender<ToChild>) -> Self {
        Self {
            sender,
            next: RequestId::default(),
            outstanding: None,
            waiting: VecDeque::new(),
            gathering: None,
            awaiting: false,
            progress: false,
            owes_waits: false,
            named_waits: None,
            unasked: 0,
            unread: 0,
            echo: None,
            held: None,
            late: VecDeque::new(),
            broken: false,
        }
    }

    /// Sends a message, unless an unanswered earlier message of its kind has the same effect, or
    /// the child has not shown that it reads.
    pub(super) fn send(&mut self, message: &ToChild) {
        let is_known = matches!(message, ToChild::GetGatherProfileProgress { .. }) && self.progress;
        if is_known {
            return;
        }
        if self.unread >= 2 * MAX_UNREAD {
            return self.send_later(message);
        }
        if matches!(message, ToChild::AwaitNextChunkManagerUpdate { .. })
            && self.unread >= MAX_UNREAD
        {
            self.held = Some(message.clone());
            return;
        }
        self.send_now(message);
        match message {
            ToChild::AwaitNextChunkManagerUpdate { .. } => self.awaiting = true,
            ToChild::GetGatherProfileProgress { .. } => self.progress = true,
            ToChild::GatherProfile { id, .. } => self.gathering = Some(*id),
            ToChild::NamedWaits { .. } => {
                (self.owes_waits, self.named_waits) = (false, Some(now()));
            }
            _ => {}
        }
        if self.unread >= MAX_UNREAD && self.echo.is_none() {
            self.ask_for_echo();
        }
    }

    /// Keeps a request until the child reads again, unless its kind is repeated anyway.
    fn send_later(&mut self, message: &ToChild) {
        let comes_again = matches!(
            message,
            ToChild::AwaitNextChunkManagerUpdate { .. }
                | ToChild::GetGatherProfileProgress { .. }
                | ToChild::DestroyReleasedChunksAtOrBefore { .. }
        );
        if !comes_again && self.late.len() < MAX_LATE {
            self.late.push_back(message.clone());
        }
    }

    fn send_now(&mut self, message: &ToChild) {
        self.unread = self.unread.saturating_add(1);
        if !self.broken && self.sender.send(message).is_err() {
            self.broken = true; // the receive thread notices, too
        }
    }

    /// Asks for an echo. Without randomness no echo is requested, and nothing more is sent to the
    /// child.
    fn ask_for_echo(&mut self) {
        let drawn = Token::generate().ok().and_then(|token| {
            u64::from_str_radix(token.to_hex().get(..16).unwrap_or_default(), 16).ok()
        });
        self.echo = drawn.map(RequestId::new);
        if let Some(request) = self.echo {
            self.send_now(&ToChild::Echo { request });
        }
    }

    /// Handles the echo: the child has read everything.
    fn hear_echo(&mut self) {
        self.echo = None;
        self.unread = 0;
        for late in std::mem::take(&mut self.late) {
            self.send(&late);
        }
        if let Some(held) = self.held.take() {
            self.send(&held);
        }
    }

    /// Classifies a message of the child, and notes the answer.
    pub(super) fn judge(&mut self, message: &ToParent) -> Worth {
        let is_asked = match message {
            ToParent::Done { request } if self.echo == Some(*request) => {
                self.hear_echo();
                true
            }
            ToParent::Done { request } => self
                .outstanding
                .as_ref()
                .is_some_and(|(asked, _)| asked == request),
            ToParent::ChunkManagerUpdate(_) => std::mem::take(&mut self.awaiting),
            ToParent::GatherProgress { .. } => std::mem::take(&mut self.progress),
            ToParent::Profile { id, .. } => self.gathering.take_if(|asked| asked == id).is_some(),
            ToParent::AskedWaits { .. } => self.may_ask_for_waits(),
            ToParent::Hello(_) | ToParent::ShutdownProfile { .. } => false,
        };
        self.unasked += u32::from(!is_asked);
        match is_asked {
            true => Worth::Asked,
            false if self.unasked <= MAX_UNASKED => Worth::Unasked,
            false => Worth::Flood,
        }
    }

    /// Notes a question about waits. False if the question before is not answered yet, or was
    /// answered a moment ago.
    fn may_ask_for_waits(&mut self) -> bool {
        let answered = self.named_waits;
        let is_early = answered.is_some_and(|answered| answered.elapsed() < WAITS_PAUSE);
        !is_early && !std::mem::replace(&mut self.owes_waits, true)
    }

    /// Gives the child a command, now or after it has confirmed the previous request.
    pub(super) fn control(
        &mut self,
        control: Control,
        confirm: Option<Sender<()>>,
        params: &SessionParams,
        allowance: ByteLimit,
    ) {
        self.waiting.retain(|waiting| {
            !waiting.control.is_overtaken_by(control) && waiting.control != control
        });
        self.waiting.push_back(Waiting { control, confirm });
        self.send_next(params, allowance);
    }

    /// A request was carried out.
    pub(super) fn done(
        &mut self,
        request: RequestId,
        params: &SessionParams,
        allowance: ByteLimit,
    ) {
        if self
            .outstanding
            .as_ref()
            .is_some_and(|(outstanding, _)| *outstanding == request)
        {
            if let Some((_, Some(confirm))) = self.outstanding.take() {
                let _ = confirm.try_send(());
            }
            self.send_next(params, allowance);
        }
    }

    fn send_next(&mut self, params: &SessionParams, allowance: ByteLimit) {
        if self.outstanding.is_some() {
            return;
        }
        let Some(Waiting { control, confirm }) = self.waiting.pop_front() else {
            return;
        };
        let request = self.next;
        self.next = request.next();
        self.outstanding = Some((request, confirm));
        self.send(&message(control, request, params, allowance));
    }
}

fn message(
    control: Control,
    request: RequestId,
    params: &SessionParams,
    allowance: ByteLimit,
) -> ToChild {
    match control {
        Control::EnsureStarted => ToChild::EnsureStarted {
            request,
            params: params.clone(),
            allowance,
        },
        Control::Stop => ToChild::Stop { request },
        Control::Pause => ToChild::Pause { request },
        Control::Resume => ToChild::Resume { request },
        Control::PauseSampling => ToChild::PauseSampling { request },
        Control::ResumeSampling => ToChild::ResumeSampling { request },
        Control::SetProbes(probes) => ToChild::SetProbes { request, probes },
        Control::WaitOnePeriodicSampling => ToChild::WaitOnePeriodicSampling { request },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipc_protocol::message::{GatherOutcome, Proportion};
    use ipc_protocol::transport::in_process;
    use profiler_core::internal::manager::update::ManagerUpdate;
    use profiler_core::time::{Anchor, Timestamp};
    use profiler_gecko::ProfileSpec;

    #[test]
    fn requests_to_a_child_that_does_not_answer_coalesce() {
        let (parent, mut child) = in_process::pair();
        let mut link = Link::new(parent.sender);
        let params = SessionParams::default();
        let allowance = ByteLimit::new(4096);
        for _ in 0..10_000 {
            link.control(Control::Pause, None, &params, allowance);
            link.control(Control::Resume, None, &params, allowance);
        }
        assert_eq!(link.waiting.len(), 1);
        let first = child.receiver.recv().unwrap();
        assert_eq!(
            first,
            ToChild::Pause {
                request: RequestId::new(0)
            }
        );
        link.done(RequestId::new(7), &params, allowance);
        assert_eq!(
            link.waiting.len(),
            1,
            "an unrequested answer changes nothing"
        );
        link.done(RequestId::new(0), &params, allowance);
        assert_eq!(
            child.receiver.recv().unwrap(),
            ToChild::Resume {
                request: RequestId::new(1)
            }
        );
    }

    #[test]
    fn a_stop_replaces_the_waiting_commands() {
        let (parent, _child) = in_process::pair();
        let mut link = Link::new(parent.sender);
        let params = SessionParams::default();
        for control in [
            Control::EnsureStarted,
            Control::Pause,
            Control::PauseSampling,
            Control::Stop,
        ] {
            link.control(control, None, &params, ByteLimit::new(0));
        }
        assert_eq!(
            link.waiting.len(),
            1,
            "only the stop waits behind the start that was sent"
        );
    }

    #[test]
    fn a_child_that_answers_nothing_gets_one_message_of_each_kind() {
        let (parent, mut child) = in_process::pair();
        let mut link = Link::new(parent.sender);
        let id = GatherId::new(1);
        for _ in 0..10_000 {
            link.control(
                Control::Pause,
                None,
                &SessionParams::default(),
                ByteLimit::new(0),
            );
            link.send(&ToChild::GetGatherProfileProgress { id });
        }
        drop(link);
        assert!((0..).take_while(|_| child.receiver.recv().is_ok()).count() <= 2);
    }

    #[test]
    fn an_answer_counts_once_and_only_if_it_was_requested() {
        let (parent, _child) = in_process::pair();
        let mut link = Link::new(parent.sender);
        let update = ToParent::ChunkManagerUpdate(ManagerUpdate::None);
        let id = GatherId::new(1);
        let spec = ProfileSpec {
            later: Anchor::take(),
            since: None,
            categories: Vec::new(),
        };
        let progress = ToParent::GatherProgress {
            id,
            proportion: Proportion::ZERO,
            location: String::new(),
        };
        let profile = ToParent::Profile {
            id,
            outcome: GatherOutcome::Failed(String::new()),
        };
        for answer in [
            &update,
            &progress,
            &profile,
            &ToParent::Done {
                request: RequestId::new(0),
            },
        ] {
            assert_eq!(link.judge(answer), Worth::Unasked, "{answer:?}");
        }
        link.send(&ToChild::AwaitNextChunkManagerUpdate {
            allowance: ByteLimit::new(0),
        });
        link.send(&ToChild::GetGatherProfileProgress { id });
        link.send(&ToChild::GatherProfile { id, spec });
        for answer in [update, progress, profile] {
            assert_eq!(link.judge(&answer), Worth::Asked, "{answer:?}");
            assert_eq!(link.judge(&answer), Worth::Unasked, "{answer:?}");
        }
    }

    #[test]
    fn a_question_about_waits_counts_after_the_answer_to_the_one_before_and_not_at_once() {
        let (parent, _child) = in_process::pair();
        let mut link = Link::new(parent.sender);
        let question = ToParent::AskedWaits { waits: Vec::new() };
        let answer = ToChild::NamedWaits { waits: Vec::new() };
        assert_eq!(link.judge(&question), Worth::Asked);
        assert_eq!(link.judge(&question), Worth::Unasked);
        link.send(&answer);
        link.named_waits = link.named_waits.map(|at| at + Duration::from_secs(3600));
        assert_eq!(link.judge(&question), Worth::Unasked, "a moment ago");
        link.named_waits = None;
        assert_eq!(link.judge(&question), Worth::Asked);
    }

    #[test]
    fn the_first_unrequested_answer_beyond_the_limit_is_a_flood() {
        let (parent, _child) = in_process::pair();
        let mut link = Link::new(parent.sender);
        let update = ToParent::ChunkManagerUpdate(ManagerUpdate::None);
        let worth: Vec<Worth> = (0..=MAX_UNASKED).map(|_| link.judge(&update)).collect();
        assert_eq!(
            worth.iter().filter(|worth| **worth == Worth::Flood).count(),
            1
        );
    }

    #[test]
    fn a_request_is_kept_until_the_child_reads_again() {
        let (parent, mut child) = in_process::pair();
        let mut link = Link::new(parent.sender);
        let end = ToChild::DestroyReleasedChunksAtOrBefore {
            timestamp: Timestamp::ZERO,
        };
        for _ in 0..10 * MAX_UNREAD {
            link.send(&end);
        }
        link.control(
            Control::Pause,
            None,
            &SessionParams::default(),
            ByteLimit::new(0),
        );
        let mut echo = None;
        for _ in 0..2 * MAX_UNREAD {
            let message = child.receiver.recv().unwrap();
            assert!(
                !matches!(message, ToChild::Pause { .. }),
                "not sent, because the socket may be full"
            );
            if let ToChild::Echo { request } = message {
                echo = Some(request);
            }
        }
        link.judge(&ToParent::Done {
            request: echo.expect("an echo is requested"),
        });
        assert_eq!(
            child.receiver.recv().unwrap(),
            ToChild::Pause {
                request: RequestId::new(0)
            }
        );
    }

    #[test]
    fn a_child_that_answers_without_reading_gets_a_limited_number_of_messages() {
        let (parent, mut child) = in_process::pair();
        let mut link = Link::new(parent.sender);
        let ask = ToChild::AwaitNextChunkManagerUpdate {
            allowance: ByteLimit::new(0),
        };
        for _ in 0..MAX_UNREAD * 100 {
            link.send(&ask);
            link.judge(&ToParent::ChunkManagerUpdate(ManagerUpdate::None));
        }
        let sent: Vec<ToChild> = (0..=MAX_UNREAD)
            .map(|_| child.receiver.recv().unwrap())
            .collect();
        let Some(ToChild::Echo { request }) = sent.last() else {
            panic!("{:?}", sent.last())
        };
        link.judge(&ToParent::Done { request: *request });
        assert_eq!(
            child.receiver.recv().unwrap(),
            ask,
            "it has read, so it is asked again"
        );
        drop(link);
        assert!(
            child.receiver.recv().is_err(),
            "no further message was sent"
        );
    }
}
