//! One event: its attributes, its descriptor, and its count.
//!
//! Used by `ring` and `process_events`. An event of the task clock counts the processor time of a
//! thread on one processor, and of the threads that the thread starts. Invariants: an event sends
//! no signal, and reports when its process executes another program; only threads inherit it, not
//! forked processes.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use perf_event_open_sys::bindings;
use perf_event_open_sys::{ioctls, perf_event_open};
use profiler_sys::OwnDescriptor;

use crate::registers::MASK;

/// The clock of the records, and of all events that write into one ring.
const CLOCK: i32 = libc::CLOCK_MONOTONIC;

/// Why there are no events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// The rights of this process, or a filter of system calls, do not permit them.
    #[error("the system does not permit perf events")]
    Forbidden,
    /// The system does not support perf events, or not this kind.
    #[error("the system has no such perf events")]
    Unsupported,
    /// The descriptors, or the memory of rings, that this process may have are used up.
    #[error("there are too many perf events")]
    Exhausted,
    /// The thread has ended.
    #[error("the thread has ended")]
    Ended,
    /// Another error of the system.
    #[error("perf_event_open fails with error {0}")]
    Failed(i32),
}

impl EventError {
    /// The error of the last system call of this thread.
    pub(crate) fn last() -> Self {
        Self::of(io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }

    const fn of(number: i32) -> Self {
        match number {
            libc::EACCES | libc::EPERM => Self::Forbidden,
            libc::ENOSYS
            | libc::EOPNOTSUPP
            | libc::ENOENT
            | libc::EINVAL
            | libc::E2BIG
            | libc::ENODEV => Self::Unsupported,
            libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOSPC => Self::Exhausted,
            libc::ESRCH => Self::Ended,
            other => Self::Failed(other),
        }
    }
}

/// The interval of the samples, and the size of their stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// The processor time between two samples of a thread, in nanoseconds.
    pub interval_ns: u64,
    /// The maximum number of bytes of a stack; a multiple of 8, less than 64 KiB.
    pub stack_bytes: u32,
}

/// Which samples an event takes. The system may forbid the better kinds, or may not support them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventKind {
    /// Whether samples are also taken while the system works for the thread. The stack is that of
    /// the program then, too.
    pub(crate) in_system: bool,
    /// Whether threads that the thread starts inherit the event. Needs Linux 5.13.
    pub(crate) is_inherited: bool,
}

/// An event. The program may close any descriptor, and its number may then belong to another file.
/// Such a descriptor is neither used nor closed. Files without a name (`anon_inode`) share one
/// inode, so the event's own number is compared, too.
#[derive(Debug)]
pub(crate) struct Event {
    /// `None` only while the event is dropped.
    own: Option<OwnDescriptor<OwnedFd>>,
    /// The system's number of the event; `None` if the system does not tell.
    number: Option<u64>,
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.descriptor().is_err() {
            std::mem::forget(self.own.take());
        }
    }
}

/// The system's number of the event of a descriptor. `None` if the descriptor is of something else.
#[allow(unsafe_code)]
fn number_of(event: &impl AsRawFd) -> Option<u64> {
    let mut number = 0;
    // SAFETY: the call writes a number of 64 bits. Only descriptors of events have this call.
    let failed = unsafe { ioctls::ID(event.as_raw_fd(), &raw mut number) };
    (failed == 0).then_some(number)
}

impl Event {
    /// An event of a thread on a processor.
    pub(crate) fn of_thread(
        thread: libc::pid_t,
        processor: i32,
        sampling: Sampling,
        kind: EventKind,
    ) -> Result<Self, EventError> {
        let mut attributes = attributes(bindings::PERF_COUNT_SW_TASK_CLOCK);
        attributes.__bindgen_anon_1.sample_period = sampling.interval_ns.max(1);
        attributes.sample_type = u64::from(bindings::PERF_SAMPLE_TID)
            | u64::from(bindings::PERF_SAMPLE_TIME)
            | u64::from(bindings::PERF_SAMPLE_REGS_USER)
            | u64::from(bindings::PERF_SAMPLE_STACK_USER);
        attributes.sample_regs_user = MASK;
        attributes.sample_stack_user = sampling.stack_bytes & !7;
        attributes.set_exclude_kernel(u64::from(!kind.in_system));
        attributes.set_sample_id_all(1);
        attributes.set_comm(1);
        attributes.set_comm_exec(1);
        if kind.is_inherited {
            attributes.set_inherit(1);
            attributes.set_inherit_thread(1);
        }
        Self::open(&mut attributes, thread, processor)
    }

    /// An event of this thread that never fires. It owns the ring of a processor.
    pub(crate) fn of_ring(processor: i32) -> Result<Self, EventError> {
        let mut attributes = attributes(bindings::PERF_COUNT_SW_DUMMY);
        attributes.set_exclude_kernel(1);
        Self::open(&mut attributes, 0, processor)
    }

    #[allow(unsafe_code)]
    fn open(
        attributes: &mut bindings::perf_event_attr,
        thread: libc::pid_t,
        processor: i32,
    ) -> Result<Self, EventError> {
        let flags = bindings::PERF_FLAG_FD_CLOEXEC.into();
        // SAFETY: the attributes are initialized and contain their size; the event only writes into
        // the ring that it gets.
        let opened = unsafe { perf_event_open(attributes, thread, processor, -1, flags) };
        if opened < 0 {
            return Err(EventError::last());
        }
        // SAFETY: the system has just created the descriptor, and no other value owns it.
        let opened = unsafe { OwnedFd::from_raw_fd(opened) };
        Ok(Self {
            number: number_of(&opened),
            own: Some(OwnDescriptor::new(opened)),
        })
    }

    /// Lets the event write into the ring of another event of the same processor.
    #[allow(unsafe_code)]
    pub(crate) fn write_into(&self, owner: &Self) -> Result<(), EventError> {
        let (own, owner) = (
            self.descriptor()?.as_raw_fd(),
            owner.descriptor()?.as_raw_fd(),
        );
        // SAFETY: takes numbers of descriptors that are open.
        let failed = unsafe { ioctls::SET_OUTPUT(own, owner) };
        if failed == 0 {
            Ok(())
        } else {
            Err(EventError::last())
        }
    }

    /// The processor time that the event has counted, in nanoseconds.
    pub(crate) fn count_ns(&self) -> u64 {
        let mut count = [0; 8];
        match self
            .descriptor()
            .map(|own| rustix::io::read(own, &mut count))
        {
            Ok(Ok(8)) => u64::from_ne_bytes(count),
            _ => 0,
        }
    }

    /// The descriptor, for one immediate use.
    ///
    /// # Errors
    /// If the program has closed it.
    pub(crate) fn descriptor(&self) -> Result<BorrowedFd<'_>, EventError> {
        let own = self.own.as_ref().and_then(|own| own.get().ok());
        let own = own.filter(|own| number_of(*own) == self.number);
        own.map(AsFd::as_fd).ok_or(EventError::Failed(libc::EBADF))
    }
}

/// Attributes that all events have.
fn attributes(config: u32) -> bindings::perf_event_attr {
    let mut attributes = bindings::perf_event_attr {
        type_: bindings::PERF_TYPE_SOFTWARE,
        size: u32::try_from(size_of::<bindings::perf_event_attr>()).unwrap_or(0),
        config: config.into(),
        clockid: CLOCK,
        ..bindings::perf_event_attr::default()
    };
    attributes.set_use_clockid(1);
    attributes.set_exclude_hv(1);
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLING: Sampling = Sampling {
        interval_ns: 1_000_000,
        stack_bytes: 4096,
    };

    #[test]
    fn a_thread_that_does_not_exist_has_no_event() {
        let kind = EventKind {
            in_system: false,
            is_inherited: true,
        };
        let refused = Event::of_thread(0x3f_fffe, 0, SAMPLING, kind).unwrap_err();
        assert!(
            matches!(refused, EventError::Ended | EventError::Forbidden),
            "{refused}"
        );
    }

    #[test]
    fn errors_are_told_apart() {
        assert_eq!(EventError::of(libc::EACCES), EventError::Forbidden);
        assert_eq!(EventError::of(libc::EMFILE), EventError::Exhausted);
        assert_eq!(EventError::of(libc::ESRCH), EventError::Ended);
        assert_eq!(EventError::of(libc::EBADF), EventError::Failed(libc::EBADF));
    }

    #[test]
    #[allow(unsafe_code)]
    fn a_number_that_the_program_has_given_to_something_else_is_neither_used_nor_closed() {
        let file = std::fs::File::open("/proc/self/status").unwrap();
        let counter = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).unwrap();
        for other in [file.as_raw_fd(), counter.as_raw_fd()] {
            let event = match Event::of_ring(0) {
                Ok(event) => event,
                Err(error) => return println!("left out: {error}"),
            };
            let number = event.descriptor().unwrap().as_raw_fd();
            // SAFETY: the number is that of the event, which this test gives up.
            assert_eq!(unsafe { libc::dup2(other, number) }, number);
            let lost = EventError::Failed(libc::EBADF);
            assert_eq!(event.descriptor().err(), Some(lost));
            assert_eq!(event.count_ns(), 0);
            drop(event);
            // SAFETY: the number is that of `other`, which nothing else owns.
            let given = unsafe { OwnedFd::from_raw_fd(number) };
            assert!(rustix::fs::fstat(&given).is_ok());
        }
    }
}
