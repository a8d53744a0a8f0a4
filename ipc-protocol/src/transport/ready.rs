//! Waits for many channels at once: which of them have something to be received.
//!
//! Used by the parent's receive thread, so that a child costs the parent no thread: each thread has
//! two stacks, and a process with a thousand of them forks slowly. Linux only. Invariants: only
//! the owner of the set waits; any thread may [ring](ReadySet::ring); a set whose descriptors the
//! program has closed is neither used nor closed, and says so ([`ReadySet::is_ours`]).
//!
//! All `epoll` descriptors have the same inode, so the set recognises its own by what is in it: only
//! this set contains this set's bell.

use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use profiler_core::sys::{DescriptorLost, OwnDescriptor};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::pipe::PipeFlags;

/// Events that one wait returns. What is left comes with the next one.
const EVENTS: usize = 64;
/// The bell's number in the set.
const BELL: u64 = u64::MAX;

/// The number by which the caller knows a channel of a [`ReadySet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelNumber(u64);

impl ChannelNumber {
    /// The numbers start at 0; the last one there could be is the set's own.
    pub const FIRST: Self = Self(0);

    /// The next number.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1) % BELL)
    }
}

/// What a wait found.
#[derive(Debug, Default)]
pub struct Ready {
    /// Channels that can be received from, or have ended.
    pub channels: Vec<ChannelNumber>,
    /// Whether the set was rung.
    pub rung: bool,
}

/// Sockets that are waited for together.
pub struct ReadySet {
    /// Always there until the set is dropped.
    epoll: Option<OwnedFd>,
    heard: OwnDescriptor<OwnedFd>,
    rung: OwnDescriptor<OwnedFd>,
}

impl ReadySet {
    /// An empty set.
    ///
    /// # Errors
    /// When the system gives no descriptor.
    pub fn new() -> io::Result<Self> {
        let (heard, rung) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let (heard, rung) = (OwnDescriptor::new(heard), OwnDescriptor::new(rung));
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, heard.unchecked(), EventData::new_u64(BELL), EventFlags::IN)?;
        Ok(Self { epoll: Some(epoll), heard, rung })
    }

    /// Whether the program has not closed the set's descriptors. A set that it has closed finds nothing.
    pub fn is_ours(&self) -> bool {
        self.epoll().is_ok() && self.rung.is_ours()
    }

    /// The set's own `epoll`, recognised by the bell in it. The question changes nothing there.
    fn epoll(&self) -> Result<&OwnedFd, DescriptorLost> {
        let (epoll, heard) = (self.epoll.as_ref().ok_or(DescriptorLost)?, self.heard.get()?);
        match epoll::modify(epoll, heard, EventData::new_u64(BELL), EventFlags::IN) {
            Ok(()) => Ok(epoll),
            Err(_) => Err(DescriptorLost),
        }
    }

    /// From now on waits for this socket, too. Does nothing if the set contains it.
    ///
    /// # Errors
    /// [`DescriptorLost`]; what the system says, which has no place for it.
    pub fn add(&self, number: ChannelNumber, socket: BorrowedFd<'_>) -> io::Result<()> {
        match epoll::add(self.epoll()?, socket, EventData::new_u64(number.0), EventFlags::IN) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// No longer waits for this socket. Call it before the socket is closed: a fork of the process may hold it
    /// open, and then the set would contain it still.
    pub fn remove(&self, socket: BorrowedFd<'_>) {
        if let Ok(epoll) = self.epoll() {
            let _ = epoll::delete(epoll, socket); // an error: it is not in the set
        }
    }

    /// Waits until a channel is ready, the set is rung, a signal comes, or the time is over.
    ///
    /// # Errors
    /// [`DescriptorLost`]; what the system says.
    pub fn wait(&self, timeout: Duration) -> io::Result<Ready> {
        let timeout = Timespec::try_from(timeout).ok();
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        match epoll::wait(self.epoll()?, spare_capacity(&mut events), timeout.as_ref()) {
            Err(rustix::io::Errno::INTR) => return Ok(Ready::default()),
            waited => waited?,
        };
        let mut ready = Ready::default();
        for event in events {
            match event.data.u64() {
                BELL => ready.rung = true,
                number => ready.channels.push(ChannelNumber(number)),
            }
        }
        if ready.rung {
            let _ = rustix::io::read(self.heard.get()?, &mut [0; 64]); // what is left rings again
        }
        Ok(ready)
    }

    /// Ends the present wait, or the next.
    pub fn ring(&self) {
        if let Ok(rung) = self.rung.get() {
            let _ = rustix::io::write(rung, &[1]); // full: it has been rung often enough
        }
    }
}

impl Drop for ReadySet {
    fn drop(&mut self) {
        let is_ours = self.epoll().is_ok();
        if let Some(epoll) = self.epoll.take()
            && !is_ours
        {
            std::mem::forget(epoll); // the number belongs to the program
        }
    }
}

impl fmt::Debug for ReadySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadySet").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
