//! Decides which connections a local server keeps. Connections that have sent its token are limited
//! separately from others.
//!
//! Used by [`super::admission`]. Any program on this machine can connect; only programs of the
//! owner know the token. Invariants: each of the two kinds has its own limit, so a connection
//! without the token never takes the place of one with it. If a limit is reached, the oldest
//! connection of that kind is closed for the new one. A connection has at least [`Limits::grace`]
//! to send its request before it is closed for another.
//!
//! ```text
//! accept ──▶ waiting: no token yet ──token──▶ served, by their last request
//!               │ oldest, after the grace        │ oldest
//!               ▼                                ▼
//!             closed                           closed
//! ```

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Limits of a server's connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The largest number of connections that have not sent the token.
    pub waiting: usize,
    /// The largest number of connections that have sent it.
    pub served: usize,
    /// The shortest time that a connection may wait before it is closed for another.
    pub grace: Duration,
}

/// The clock for the age of connections, of the same kind as the timeouts of sockets.
#[allow(clippy::disallowed_methods)] // timeouts of sockets are in the system's time, for every clock of a session
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Identifies a connection of [`Connections`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionId(u64);

/// The result of [`Connections::enter`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entered<H> {
    /// The connection is accepted. The other one, if any, must be closed for it.
    In(ConnectionId, Option<H>),
    /// All waiting connections are too young to be closed. Try again after this time, or when one
    /// leaves.
    Later(Duration, H),
}

#[derive(Debug)]
struct Connection<H> {
    id: ConnectionId,
    /// When it connected.
    since: Instant,
    /// Closes it.
    handle: H,
}

/// All connections of a server. A handle `H` closes one of them.
#[derive(Debug)]
pub(crate) struct Connections<H> {
    limits: Limits,
    next: u64,
    /// The oldest connection comes first.
    waiting: VecDeque<Connection<H>>,
    /// The connection with the oldest last request comes first.
    served: VecDeque<Connection<H>>,
}

impl<H> Connections<H> {
    pub(crate) const fn new(limits: Limits) -> Self {
        Self {
            limits,
            next: 0,
            waiting: VecDeque::new(),
            served: VecDeque::new(),
        }
    }

    /// Adds a new connection, which has sent nothing yet.
    pub(crate) fn enter(&mut self, handle: H, now: Instant) -> Entered<H> {
        let mut closed = None;
        if self.waiting.len() >= self.limits.waiting {
            let age = self
                .waiting
                .front()
                .map_or(Duration::MAX, |oldest| now.duration_since(oldest.since));
            if let Some(left) = self
                .limits
                .grace
                .checked_sub(age)
                .filter(|left| !left.is_zero())
            {
                return Entered::Later(left, handle);
            }
            closed = self.waiting.pop_front().map(|oldest| oldest.handle);
        }
        let id = ConnectionId(self.next);
        self.next = self.next.wrapping_add(1);
        self.waiting.push_back(Connection {
            id,
            since: now,
            handle,
        });
        Entered::In(id, closed)
    }

    /// Notes that this connection, which `handle` closes, has sent a request with the token.
    /// Returns one that must be closed for it.
    pub(crate) fn show_token(&mut self, id: ConnectionId, handle: H, now: Instant) -> Option<H> {
        self.leave(id);
        self.served.push_back(Connection {
            id,
            since: now,
            handle,
        });
        let is_full = self.served.len() > self.limits.served;
        if is_full {
            self.served.pop_front().map(|oldest| oldest.handle)
        } else {
            None
        }
    }

    /// Whether a connection has not sent the token, or was closed.
    pub(crate) fn is_waiting(&self, id: ConnectionId) -> bool {
        !self.served.iter().any(|one| one.id == id)
    }

    /// Removes a connection that has ended.
    pub(crate) fn leave(&mut self, id: ConnectionId) {
        self.waiting.retain(|one| one.id != id);
        self.served.retain(|one| one.id != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        waiting: 2,
        served: 2,
        grace: Duration::from_millis(100),
    };

    fn entered(
        connections: &mut Connections<char>,
        handle: char,
        now: Instant,
    ) -> (ConnectionId, Option<char>) {
        match connections.enter(handle, now) {
            Entered::In(id, closed) => (id, closed),
            Entered::Later(left, _) => panic!("{handle} has to wait {left:?}"),
        }
    }

    #[test]
    fn a_new_connection_replaces_the_oldest_after_its_grace() {
        let start = now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut connections = Connections::new(LIMITS);
        entered(&mut connections, 'a', at(0));
        entered(&mut connections, 'b', at(50));
        assert_eq!(
            connections.enter('c', at(60)),
            Entered::Later(Duration::from_millis(40), 'c')
        );
        assert_eq!(entered(&mut connections, 'c', at(100)).1, Some('a'));
        assert_eq!(entered(&mut connections, 'd', at(150)).1, Some('b'));
    }

    #[test]
    fn connections_with_and_without_the_token_have_separate_limits() {
        let now = now();
        let later = now + LIMITS.grace;
        let mut connections = Connections::new(LIMITS);
        for handle in ['a', 'b'] {
            let (id, closed) = entered(&mut connections, handle, now);
            assert_eq!(
                (closed, connections.show_token(id, handle, now)),
                (None, None)
            );
        }
        for (handle, closed) in [('x', None), ('y', None), ('z', Some('x')), ('w', Some('y'))] {
            let at = if closed.is_some() { later } else { now };
            assert_eq!(entered(&mut connections, handle, at).1, closed);
        }
    }

    #[test]
    fn at_the_limit_the_served_connection_with_the_oldest_request_is_closed() {
        let now = now();
        let mut connections = Connections::new(LIMITS);
        let mut show = |handle| {
            let id = entered(&mut connections, handle, now).0;
            (id, connections.show_token(id, handle, now))
        };
        let (first, _) = show('a');
        show('b');
        assert_eq!(
            connections.show_token(first, 'a', now),
            None,
            "a second request closes no connection"
        );
        let id = entered(&mut connections, 'c', now).0;
        assert_eq!(connections.show_token(id, 'c', now), Some('b'));
        assert!(!connections.is_waiting(first) && !connections.is_waiting(id));
    }

    #[test]
    fn a_connection_to_be_closed_is_served_if_it_sends_the_token() {
        let now = now();
        let mut connections = Connections::new(Limits {
            waiting: 1,
            ..LIMITS
        });
        let (first, _) = entered(&mut connections, 'a', now);
        let (second, closed) = entered(&mut connections, 'b', now + LIMITS.grace);
        assert_eq!(closed, Some('a'));
        assert!(connections.is_waiting(first));
        connections.show_token(first, 'a', now);
        assert!(!connections.is_waiting(first) && connections.is_waiting(second));
    }
}
