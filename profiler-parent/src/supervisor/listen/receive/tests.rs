//! Tests of the receive thread: children in this process, and the events that the supervisor
//! receives.

use std::os::fd::AsRawFd;

use crossbeam_channel::{RecvTimeoutError, bounded};
use ipc_protocol::environment::Token;
use ipc_protocol::message::{Hello, PROTOCOL_VERSION, RequestId};
use ipc_protocol::transport::listener::Endpoint;
use ipc_protocol::transport::{ChildEnds, inherited, listener};
use profiler_core::ids::{ProcessId, ProcessStart};
use test_support::assert_matches;
use test_support::patience::until;

use super::*;

/// Longer than any wait in these tests takes.
const LONG: Duration = Duration::from_secs(60);

struct TestReceiver {
    receivers: ChildReceivers,
    events: crossbeam_channel::Receiver<SupervisorEvent>,
}

impl TestReceiver {
    fn start() -> Self {
        let (events, received) = bounded(1024);
        Self {
            receivers: ChildReceivers::start(events).unwrap(),
            events: received,
        }
    }

    fn next(&self) -> SupervisorEvent {
        self.events.recv_timeout(LONG).expect("an event")
    }

    /// A child whose `Hello` has been received.
    fn child(&self, key: u128) -> ChildEnds {
        let (listener, line) = listener::Listener::inherited().unwrap();
        let child = self.add_child(key, listener, line);
        let key = PoolId::new(key);
        assert_matches!(self.next(), SupervisorEvent::Connected { key: receiver, .. } if receiver == key);
        child
    }

    fn add_child(&self, key: u128, listener: listener::Listener, line: Endpoint) -> ChildEnds {
        let token = Token::generate().unwrap();
        let pid = ProcessId::new(std::process::id());
        let key = PoolId::new(key);
        let known = token.clone();
        self.receivers
            .add_child(PendingChild {
                key,
                pid,
                listener,
                token: known,
            })
            .unwrap();
        let start = ProcessStart::new(0);
        let hello = Hello {
            version: PROTOCOL_VERSION,
            token,
            pid,
            start,
            name: "child".into(),
        };
        match line {
            Endpoint::Inherited(socket) => inherited::connect(socket, hello).unwrap(),
            named @ Endpoint::Named(_) => named.connect(hello).unwrap(),
        }
    }

    /// The next message, which must be of this child.
    fn message(&self, child: u128) -> (ToParent, crate::supervisor::listen::InFlight) {
        match self.next() {
            SupervisorEvent::Message {
                key,
                message,
                in_flight,
            } if key == PoolId::new(child) => (message, in_flight),
            other => panic!("{other:?}"),
        }
    }
}

const fn done(number: u64) -> ToParent {
    ToParent::Done {
        request: RequestId::new(number),
    }
}

#[test]
fn a_child_at_its_message_limit_does_not_delay_others() {
    let receiver = TestReceiver::start();
    let mut flooding = receiver.child(1);
    let mut other = receiver.child(2);
    let count = u64::from(IN_FLIGHT) + 3;
    (0..count).for_each(|number| flooding.sender.send(&done(number)).unwrap());
    let mut held: Vec<_> = (0..IN_FLIGHT).map(|_| receiver.message(1)).collect();
    for number in 0..10 {
        other.sender.send(&done(number)).unwrap();
        assert_eq!(receiver.message(2).0, done(number));
    }
    assert!(
        receiver.events.is_empty(),
        "at most four messages of a child wait"
    );
    for number in u64::from(IN_FLIGHT)..count {
        drop(held.remove(0));
        held.push(receiver.message(1));
        assert_eq!(held.last().unwrap().0, done(number));
    }
}

#[test]
fn closed_is_sent_once_after_the_last_message() {
    let receiver = TestReceiver::start();
    let mut child = receiver.child(1);
    child.sender.send(&done(1)).unwrap();
    drop(child);
    assert_eq!(receiver.message(1).0, done(1));
    let closed = receiver.next();
    assert_matches!(&closed, SupervisorEvent::Closed { key, error: TransportError::Disconnected } if *key == PoolId::new(1));
    receiver.receivers.stop();
    assert_eq!(
        receiver.events.recv_timeout(LONG).unwrap_err(),
        RecvTimeoutError::Disconnected
    );
}

#[test]
fn messages_of_a_child_that_connects_by_name_are_received() {
    let receiver = TestReceiver::start();
    let (listener, line) = listener::Listener::named().unwrap();
    let mut child = receiver.add_child(7, listener, line);
    assert!(matches!(receiver.next(), SupervisorEvent::Connected { .. }));
    child.sender.send(&done(3)).unwrap();
    assert_eq!(receiver.message(7).0, done(3));
}

#[test]
fn an_abandoned_channel_is_closed_before_and_after_hello() {
    let receiver = TestReceiver::start();
    let (listener, _line) = listener::Listener::named().unwrap();
    let abandon = listener.cancel_handle();
    let key = PoolId::new(1);
    let pid = ProcessId::new(std::process::id());
    receiver
        .receivers
        .add_child(PendingChild {
            key,
            pid,
            listener,
            token: Token::generate().unwrap(),
        })
        .unwrap();
    abandon.abandon();
    assert_matches!(
        receiver.next(),
        SupervisorEvent::Closed {
            error: TransportError::Abandoned,
            ..
        }
    );
    let (listener, line) = listener::Listener::named().unwrap();
    let hang_up = listener.cancel_handle();
    let _child = receiver.add_child(2, listener, line);
    assert!(matches!(receiver.next(), SupervisorEvent::Connected { .. }));
    hang_up.hang_up();
    assert_matches!(
        receiver.next(),
        SupervisorEvent::Closed {
            error: TransportError::Disconnected,
            ..
        }
    );
}

#[test]
fn a_closed_socket_that_a_fork_holds_is_reported_and_delays_no_other_child() {
    let receiver = TestReceiver::start();
    let (listener, line) = listener::Listener::inherited().unwrap();
    let number = listener.socket().unwrap().as_raw_fd();
    let fork = listener.socket().unwrap().try_clone_to_owned().unwrap();
    let mut child = receiver.add_child(1, listener, line);
    assert!(matches!(receiver.next(), SupervisorEvent::Connected { .. }));
    let before = Arc::clone(&receiver.receivers.mailbox.set());
    // When this one is connected, the thread waits for messages of the first one.
    let mut other = receiver.child(2);
    // SAFETY: the value that owns this descriptor checks before every use that it is still its own,
    // because a program may close any descriptor.
    #[allow(unsafe_code)]
    unsafe {
        libc::close(number);
    }
    child.sender.send(&done(1)).unwrap();
    let closed = receiver.next();
    assert_matches!(
        &closed,
        SupervisorEvent::Closed {
            error: TransportError::DescriptorLost(_),
            ..
        }
    );
    // The message stays unread, and the old set would report it again and again.
    let is_new = || !Arc::ptr_eq(&before, &receiver.receivers.mailbox.set());
    assert!(until(is_new));
    other.sender.send(&done(2)).unwrap();
    assert_eq!(receiver.message(2).0, done(2));
    drop(fork);
}
