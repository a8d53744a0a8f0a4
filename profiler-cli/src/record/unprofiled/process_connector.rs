//! The system's events about processes: a process was forked, or has executed a program.
//!
//! Used by the thread that looks for processes that do not record. With them it finds a process
//! while it begins, and not only at the next look. Linux sends them through its process connector
//! (`Documentation/driver-api/connector.rst`): since 6.6 to all users, before that only to root. In
//! a container (a PID namespace of its own) it sends none, and does not refuse the request. No code
//! of the profiler runs in the processes that begin.
//!
//! ```text
//! offset  0  nlmsghdr    length, type, flags, sequence, port
//!        16  cn_msg      index, value, sequence, acknowledgement, length, flags
//!        36  proc_event  what, processor, time (8 bytes)
//!        52              of a fork: parent (thread, process), child (thread, process)
//!                        of an execution: thread, process
//! ```
//!
//! Invariant: nothing here waits for events; lost and malformed ones are ignored.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::{CONNECTOR, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

use super::connector_event::ConnectorEvent;

/// The group of the process connector, and the number of its messages.
const CN_IDX_PROC: u32 = 1;
const CN_VAL_PROC: u32 = 1;
const NLMSG_DONE: u16 = 3;
const PROC_CN_MCAST_LISTEN: u32 = 1;
const PROC_CN_MCAST_IGNORE: u32 = 2;
const PROC_EVENT_FORK: u32 = 1;
const PROC_EVENT_EXEC: u32 = 2;
/// The offset of `proc_event`, and of what depends on the kind of the event.
const EVENT: usize = 36;
const DETAILS: usize = 52;
/// The most events that are taken at once.
const MOST_AT_ONCE: usize = 1024;

/// The events since the last call of [`Self::take`].
#[derive(Debug)]
pub(super) struct ProcessConnector(OwnedFd);

impl ProcessConnector {
    /// Begins to receive events.
    ///
    /// # Errors
    /// If the system has no process connector here, or refuses this user.
    pub(super) fn begin() -> io::Result<Self> {
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            Some(CONNECTOR),
        )?;
        bind(&socket, &SocketAddrNetlink::new(0, CN_IDX_PROC))?;
        request(&socket, PROC_CN_MCAST_LISTEN)?;
        Ok(Self(socket))
    }

    /// Takes the events that have arrived, at most 1,024.
    ///
    /// # Errors
    /// If the system will send no more.
    pub(super) fn take(&self) -> io::Result<Vec<ConnectorEvent>> {
        let mut message = [0; 256];
        let mut events = Vec::new();
        for _ in 0..MOST_AT_ONCE {
            match recv(&self.0, &mut message[..], RecvFlags::empty()) {
                Ok((length, _)) => events.extend(message.get(..length).and_then(parse)),
                // Events were lost because there were too many. Others follow.
                Err(Errno::NOBUFS | Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(events)
    }
}

impl AsFd for ProcessConnector {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for ProcessConnector {
    /// The system counts requests. If a command is killed before it can withdraw its own, the
    /// system goes on making messages, which nothing receives.
    fn drop(&mut self) {
        let _ = request(&self.0, PROC_CN_MCAST_IGNORE);
    }
}

/// Asks the system to begin or to end sending events. Linux before 6.6 knows only `operation` and
/// sends events of all kinds; it ignores a request that also has the kinds.
fn request(socket: &OwnedFd, operation: u32) -> io::Result<()> {
    let kinds = PROC_EVENT_FORK | PROC_EVENT_EXEC;
    send(socket, &message(&[operation]), SendFlags::empty())?;
    send(socket, &message(&[operation, kinds]), SendFlags::empty())?;
    Ok(())
}

/// A message with these numbers for the process connector.
fn message(numbers: &[u32]) -> Vec<u8> {
    let data = size_of_val(numbers);
    let length = u32::try_from(EVENT + data).unwrap_or(u32::MAX);
    let data = u16::try_from(data).unwrap_or(u16::MAX);
    let mut message = Vec::new();
    message.extend(length.to_ne_bytes());
    message.extend(NLMSG_DONE.to_ne_bytes());
    message.extend([0; 10]); // flags, sequence and port
    message.extend(CN_IDX_PROC.to_ne_bytes());
    message.extend(CN_VAL_PROC.to_ne_bytes());
    message.extend([0; 8]); // sequence and acknowledgement
    message.extend(data.to_ne_bytes());
    message.extend([0; 2]); // flags
    message.extend(numbers.iter().copied().flat_map(u32::to_ne_bytes));
    message
}

/// The event in a message; `None` for other messages, and for events of threads.
fn parse(message: &[u8]) -> Option<ConnectorEvent> {
    let number = |offset: usize| -> Option<u32> {
        let bytes = message.get(offset..offset.checked_add(4)?)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    if number(16)? != CN_IDX_PROC || number(20)? != CN_VAL_PROC {
        return None;
    }
    match number(EVENT)? {
        PROC_EVENT_FORK => {
            let (thread, process) = (number(DETAILS + 8)?, number(DETAILS + 12)?);
            (thread == process).then_some(ConnectorEvent::Forked(process))
        }
        PROC_EVENT_EXEC => Some(ConnectorEvent::Executed(number(DETAILS + 4)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use test_support::patience::until;

    use super::*;

    fn told(what: u32, [one, two, three, four]: [u32; 4]) -> Vec<u8> {
        message(&[what, 0, 0, 0, one, two, three, four])
    }

    #[test]
    fn forks_and_executions_are_told_from_threads_and_other_events() {
        let event = |what, numbers| parse(&told(what, numbers));
        assert_eq!(event(1, [5, 5, 7, 7]), Some(ConnectorEvent::Forked(7)));
        assert_eq!(event(1, [5, 5, 7, 5]), None);
        assert_eq!(event(2, [8, 7, 0, 0]), Some(ConnectorEvent::Executed(7)));
        assert_eq!(event(0x8000_0000, [7, 7, 0, 0]), None);
        let whole = told(2, [8, 7, 0, 0]);
        for length in 0..DETAILS + 8 {
            assert_eq!(parse(&whole[..length]), None, "{length}");
        }
    }

    /// A connector whose request the system has answered. `None` if this user has no events.
    fn answered() -> Option<ProcessConnector> {
        let connector = ProcessConnector::begin().ok()?;
        let mut polled = [PollFd::new(&connector, PollFlags::IN)];
        let timeout = Timespec::try_from(Duration::from_secs(1)).unwrap();
        let is_answered = poll(&mut polled, Some(&timeout)).unwrap() > 0;
        is_answered.then_some(connector)
    }

    #[test]
    fn each_program_that_is_executed_is_told() {
        let Some(events) = answered() else {
            return; // in a container, or not root before Linux 6.6
        };
        for _ in 0..3 {
            let mut found = Vec::new();
            let is_told = until(|| {
                let mut child = Command::new("true").spawn().unwrap();
                child.wait().unwrap();
                found.extend(events.take().unwrap());
                found.contains(&ConnectorEvent::Executed(child.id()))
            });
            assert!(is_told, "{found:?}");
        }
    }
}
