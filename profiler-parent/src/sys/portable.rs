//! The implementation for other systems: files are not inherited, and children are polled.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use profiler_core::ids::{ProcessId, ProcessStart};
use profiler_sys::OwnDescriptor;

use super::{ProcessFacts, Reaped, Woken};

/// Whether a child can inherit a descriptor.
pub(crate) const INHERITS: bool = false;

/// Not known on this system: an exiting process counts as running.
pub(crate) const fn is_ending(_: u32) -> bool {
    false
}

/// Descriptors are not inherited on this system.
pub(crate) fn copy_for_child(_: &File) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Descriptors are not inherited on this system.
pub(crate) fn inherit(_: &mut Command, files: Vec<File>) -> io::Result<()> {
    if files.is_empty() {
        Ok(())
    } else {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Never created on this system: children are polled through the standard library.
#[derive(Debug)]
pub(crate) enum ChildHandle {}

impl ChildHandle {
    /// Always returns `None`.
    pub(crate) fn open(_: &Child) -> Option<Self> {
        None
    }

    /// Not supported on this system.
    pub(crate) fn of_other(_: OwnDescriptor<OwnedFd>, _: ProcessId) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Never called.
    pub(crate) fn reopen(_: ProcessId, _: ProcessStart) -> Option<Self> {
        None
    }

    /// Never called.
    pub(crate) fn state_of_other(&self, _: ProcessStart) -> Reaped {
        match *self {}
    }

    /// Never called.
    pub(crate) fn is_ours(&self) -> bool {
        match *self {}
    }

    /// Never called.
    pub(crate) fn signal(&self, _: i32) -> io::Result<()> {
        match *self {}
    }

    /// Never called.
    pub(crate) fn reap(&self) -> Reaped {
        match *self {}
    }
}

/// Wakes the thread that waits on it.
#[derive(Debug, Default)]
pub(crate) struct Waker {
    rung: Mutex<bool>,
    change: Condvar,
}

impl Waker {
    /// Creates a waker that has not been rung.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self::default())
    }

    /// Ends the current wait, or the next one.
    pub(crate) fn ring(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.change.notify_one();
    }

    /// Always true: the program cannot close it.
    pub(crate) fn is_ours(&self) -> bool {
        true
    }

    /// Waits until the waker is rung or the time is over. Never reports that a child has ended.
    pub(crate) fn wait(&self, _: &[Arc<ChildHandle>], timeout: Duration) -> Woken {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.change.wait_timeout_while(rung, timeout, |rung| !*rung);
        let mut rung = waited.unwrap_or_else(PoisonError::into_inner).0;
        Woken {
            rung: std::mem::take(&mut *rung),
            children: Vec::new(),
        }
    }
}

/// Not known on this system.
pub(crate) fn maps_file(_: ProcessId, _: &File) -> Option<bool> {
    None
}

/// Not supported on this system.
pub(crate) const fn watches_others() -> bool {
    false
}

/// Not supported on this system.
pub(crate) fn open_untaken(_: ProcessId) -> io::Result<(OwnDescriptor<OwnedFd>, ProcessStart)> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not known on this system.
pub(crate) fn facts_of(_: ProcessId) -> Option<ProcessFacts> {
    None
}

/// Not known on this system.
pub(crate) fn is_stopped(_: profiler_core::ids::ProcessId) -> bool {
    false
}

/// Not known on this system.
pub(crate) fn usage(_: profiler_core::ids::ProcessId) -> Option<super::Usage> {
    None
}
