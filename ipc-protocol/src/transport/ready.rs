//! Waits for many channels at once and reports which of them are ready.
//!
//! The parent's receive thread uses it, so a child costs the parent no thread. Each thread has a
//! stack and a signal stack, and `fork` copies their mappings. Linux only. Invariants: only one
//! thread waits; any thread may [wake](ReadySet::wake) it. If the program has closed a descriptor
//! of the set, the set neither uses nor closes it, and [`ReadySet::is_ours`] returns `false`.
//!
//! All `epoll` descriptors have the same inode, so an inode comparison cannot identify this one.
//! The set identifies it by its content: only this `epoll` contains the read end of this set's wake
//! pipe.

use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use profiler_sys::{DescriptorLost, OwnDescriptor};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::pipe::PipeFlags;

/// Capacity for the events of one wait. The next wait returns the others.
const EVENTS: usize = 64;
/// The wake pipe's number in the set.
const WAKE: u64 = u64::MAX;

/// The caller's number of a channel in a [`ReadySet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelNumber(u64);

impl ChannelNumber {
    /// The first number. `u64::MAX` is reserved for the wake pipe.
    pub const FIRST: Self = Self(0);

    /// The next number.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1) % WAKE)
    }
}

/// The result of a wait.
#[derive(Debug, Default)]
pub struct Ready {
    /// Channels with a message, or whose peer has closed them.
    pub channels: Vec<ChannelNumber>,
    /// Whether [`ReadySet::wake`] ended the wait.
    pub woken: bool,
}

/// Sockets that one thread waits for together.
pub struct ReadySet {
    /// `None` only while the set is dropped.
    epoll: Option<OwnedFd>,
    wake_read: OwnDescriptor<OwnedFd>,
    wake_write: OwnDescriptor<OwnedFd>,
}

impl ReadySet {
    /// Creates an empty set.
    ///
    /// # Errors
    /// When the system refuses a descriptor.
    pub fn new() -> io::Result<Self> {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let wake_read = OwnDescriptor::new(read);
        let wake_write = OwnDescriptor::new(write);
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(
            &epoll,
            wake_read.unchecked(),
            EventData::new_u64(WAKE),
            EventFlags::IN,
        )?;
        Ok(Self {
            epoll: Some(epoll),
            wake_read,
            wake_write,
        })
    }

    /// Returns `true` while the set's descriptors are open. Otherwise `wait` returns
    /// [`DescriptorLost`], at the latest when it ends.
    pub fn is_ours(&self) -> bool {
        self.epoll().is_ok() && self.wake_write.is_ours()
    }

    /// Returns the `epoll` descriptor if it still contains the wake pipe. The check does not change
    /// the set.
    fn epoll(&self) -> Result<&OwnedFd, DescriptorLost> {
        let epoll = self.epoll.as_ref().ok_or(DescriptorLost)?;
        let wake_read = self.wake_read.get()?;
        match epoll::modify(epoll, wake_read, EventData::new_u64(WAKE), EventFlags::IN) {
            Ok(()) => Ok(epoll),
            Err(_) => Err(DescriptorLost),
        }
    }

    /// Adds `socket` under `number`. Does nothing if the set contains it.
    ///
    /// # Errors
    /// [`DescriptorLost`] if the program has closed a descriptor of the set; otherwise the error of
    /// `epoll_ctl`, for example `ENOSPC`.
    pub fn add(&self, number: ChannelNumber, socket: BorrowedFd<'_>) -> io::Result<()> {
        match epoll::add(
            self.epoll()?,
            socket,
            EventData::new_u64(number.0),
            EventFlags::IN,
        ) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the socket. Call this before the socket is closed: if a forked process still holds
    /// it open, the set keeps reporting it.
    pub fn remove(&self, socket: BorrowedFd<'_>) {
        if let Ok(epoll) = self.epoll() {
            let _ = epoll::delete(epoll, socket); // an error: it is not in the set
        }
    }

    /// Waits until a channel is ready, [`wake`](Self::wake) is called, a signal arrives or
    /// `timeout` elapses.
    ///
    /// # Errors
    /// [`DescriptorLost`]; the error of `epoll_wait`.
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
                WAKE => ready.woken = true,
                number => ready.channels.push(ChannelNumber(number)),
            }
        }
        if ready.woken {
            // Bytes that stay unread end the next wait.
            let read = rustix::io::read(self.wake_read.get()?, &mut [0; 64]);
            if read == Ok(0) {
                return Err(DescriptorLost.into()); // the set cannot be woken any more
            }
        }
        Ok(ready)
    }

    /// Wakes the thread in [`wait`](Self::wait), or makes the next `wait` return at once.
    pub fn wake(&self) {
        if let Ok(pipe) = self.wake_write.get() {
            let _ = rustix::io::write(pipe, &[1]); // full: a wake-up is pending already
        }
    }
}

impl Drop for ReadySet {
    fn drop(&mut self) {
        let is_ours = self.epoll().is_ok();
        if let Some(epoll) = self.epoll.take()
            && !is_ours
        {
            // The program may have reused the number. If it has closed only the wake pipe, this
            // `epoll` stays open.
            std::mem::forget(epoll);
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
