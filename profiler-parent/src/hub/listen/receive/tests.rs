//! Several children in this process, and the events that the hub would get.

use crossbeam_channel::{RecvTimeoutError, bounded};
use ipc_protocol::environment::Token;
use ipc_protocol::message::{Hello, PROTOCOL_VERSION, RequestId};
use ipc_protocol::transport::listener::Line;
use ipc_protocol::transport::{ChildEnds, inherited, listener};
use profiler_core::ids::{ProcessId, ProcessStart};

use super::*;

/// Longer than any test takes: what is waited for comes.
const LONG: Duration = Duration::from_secs(60);

struct Heard {
    listening: Listening,
    events: crossbeam_channel::Receiver<HubEvent>,
}

impl Heard {
    fn start() -> Self {
        let (events, heard) = bounded(1024);
        Self { listening: Listening::start(events).unwrap(), events: heard }
    }

    fn next(&self) -> HubEvent {
        self.events.recv_timeout(LONG).expect("an event")
    }

    /// A child that has said hello, and was heard.
    fn child(&self, key: u128) -> ChildEnds {
        let (listener, line) = listener::Listener::inherited().unwrap();
        let (child, key) = (self.expect(key, listener, line), PoolId::new(key));
        assert!(matches!(self.next(), HubEvent::Connected { key: heard, .. } if heard == key));
        child
    }

    fn expect(&self, key: u128, listener: listener::Listener, line: Line) -> ChildEnds {
        let token = Token::generate().unwrap();
        let pid = ProcessId::new(std::process::id());
        let (key, known) = (PoolId::new(key), token.clone());
        self.listening.expect(Expected { key, pid, listener, token: known }).unwrap();
        let start = ProcessStart::new(0);
        let hello = Hello { version: PROTOCOL_VERSION, token, pid, start, name: "child".into() };
        match line {
            Line::Inherited(socket) => inherited::connect(socket, hello).unwrap(),
            named @ Line::Named(_) => named.connect(hello).unwrap(),
        }
    }

    /// The next message, which must be of this child.
    fn message(&self, of: u128) -> (ToParent, crate::hub::listen::InFlight) {
        match self.next() {
            HubEvent::Message { key, message, in_flight } if key == PoolId::new(of) => (message, in_flight),
            other => panic!("{other:?}"),
        }
    }
}

const fn done(number: u64) -> ToParent {
    ToParent::Done { request: RequestId::new(number) }
}

#[test]
fn a_child_without_a_place_is_heard_later_and_holds_nobody_up() {
    let heard = Heard::start();
    let (mut flooding, mut other) = (heard.child(1), heard.child(2));
    let count = u64::from(IN_FLIGHT) + 3;
    (0..count).for_each(|number| flooding.sender.send(&done(number)).unwrap());
    let mut held: Vec<_> = (0..IN_FLIGHT).map(|_| heard.message(1)).collect();
    for number in 0..10 {
        other.sender.send(&done(number)).unwrap();
        assert_eq!(heard.message(2).0, done(number));
    }
    assert!(heard.events.is_empty(), "four messages of a child wait, no more");
    for number in u64::from(IN_FLIGHT)..count {
        drop(held.remove(0));
        held.push(heard.message(1));
        assert_eq!(held.last().unwrap().0, done(number));
    }
}

#[test]
fn the_end_of_a_channel_is_told_once_and_after_all_that_was_sent() {
    let heard = Heard::start();
    let mut child = heard.child(1);
    child.sender.send(&done(1)).unwrap();
    drop(child);
    assert_eq!(heard.message(1).0, done(1));
    let closed = heard.next();
    assert!(
        matches!(&closed, HubEvent::Closed { key, error: TransportError::Disconnected } if *key == PoolId::new(1)),
        "{closed:?}"
    );
    heard.listening.stop();
    assert_eq!(heard.events.recv_timeout(LONG).unwrap_err(), RecvTimeoutError::Disconnected);
}

#[test]
fn a_child_that_connects_by_name_is_heard_as_one_that_inherits() {
    let heard = Heard::start();
    let (listener, line) = listener::Listener::named().unwrap();
    let mut child = heard.expect(7, listener, line);
    assert!(matches!(heard.next(), HubEvent::Connected { .. }));
    child.sender.send(&done(3)).unwrap();
    assert_eq!(heard.message(7).0, done(3));
}

#[test]
fn a_channel_that_is_given_up_ends_before_and_after_hello() {
    let heard = Heard::start();
    let (listener, _line) = listener::Listener::named().unwrap();
    let abandon = listener.abandon_handle();
    let (key, pid) = (PoolId::new(1), ProcessId::new(std::process::id()));
    heard.listening.expect(Expected { key, pid, listener, token: Token::generate().unwrap() }).unwrap();
    abandon.abandon();
    assert!(matches!(heard.next(), HubEvent::Closed { error: TransportError::Abandoned, .. }));
    let (listener, line) = listener::Listener::named().unwrap();
    let hang_up = listener.abandon_handle();
    let _child = heard.expect(2, listener, line);
    assert!(matches!(heard.next(), HubEvent::Connected { .. }));
    hang_up.hang_up();
    assert!(matches!(heard.next(), HubEvent::Closed { error: TransportError::Disconnected, .. }));
}
