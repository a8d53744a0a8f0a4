//! What a system call waits for, by its number and its arguments. Used by `resolver` and
//! `deadlock`. Pure.

/// A thread in a system call, as the system shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingCall {
    /// The number of the call.
    pub number: i64,
    /// Its first three arguments.
    pub arguments: [u64; 3],
}

/// Which end of an object a thread uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// It waits for data.
    Reads,
    /// It waits for free space.
    Writes,
}

/// Which threads can own a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockScope {
    /// Those of the same process.
    Private,
    /// Those of all processes that share the memory.
    Shared,
}

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitSubject {
    /// Data or free space in the object that a descriptor refers to.
    Descriptor(i32, Direction),
    /// The end of a child; `None` stands for any child.
    Child(Option<u32>),
    /// The end of the process that a descriptor refers to.
    ChildOfDescriptor(i32),
    /// A word of memory, which another thread changes.
    Word {
        /// Its address.
        address: u64,
        /// Which threads can own it, if it is a mutex of the C library that is locked and has
        /// waiters.
        lock: Option<LockScope>,
    },
    /// A lock on the file of a descriptor.
    FileLock(i32),
    /// The events of an epoll descriptor.
    Epoll(i32),
    /// The events of a list of descriptors in memory.
    Poll {
        /// The address of the list.
        address: u64,
        /// The number of descriptors.
        count: u64,
        /// Whether the wait has a limit.
        has_limit: bool,
    },
    /// The events of sets of descriptors.
    Select {
        /// The highest descriptor plus 1.
        count: u64,
        /// The address of the set that is read from; 0 for none.
        reads: u64,
    },
    /// The end of a period of time.
    Sleep,
    /// A signal.
    Signal,
    /// Data on a disk.
    Disk,
    /// Anything else.
    Other,
}

const FUTEX_WAIT: u64 = 0;
/// The bits of the second argument of futex(2) that select the operation.
const FUTEX_OPERATION: u64 = 0x7f;
/// The flag of a word that no other process uses.
const FUTEX_PRIVATE: u64 = 0x80;
/// The value of a mutex of the C library that is locked and has waiters.
const TAKEN_WITH_WAITERS: u64 = 2;
const F_SETLKW: u64 = 7;
const F_OFD_SETLKW: u64 = 38;

impl WaitingCall {
    /// What the call waits for.
    #[must_use]
    pub fn subject(&self) -> WaitSubject {
        let [first, second, third] = self.arguments;
        // The system shows 64 bits of each argument; a descriptor is in the lower half.
        let descriptor = first as u32 as i32;
        match self.number {
            libc::SYS_read
            | libc::SYS_readv
            | libc::SYS_pread64
            | libc::SYS_preadv
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_recvmmsg
            | libc::SYS_accept
            | libc::SYS_accept4
            | libc::SYS_splice => WaitSubject::Descriptor(descriptor, Direction::Reads),
            libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_pwrite64
            | libc::SYS_pwritev
            | libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_sendmmsg
            | libc::SYS_connect => WaitSubject::Descriptor(descriptor, Direction::Writes),
            libc::SYS_wait4 => WaitSubject::Child(child(first)),
            libc::SYS_waitid => waitid(first, second),
            libc::SYS_futex => WaitSubject::Word {
                address: first,
                lock: lock(second, third),
            },
            libc::SYS_flock => WaitSubject::FileLock(descriptor),
            libc::SYS_fcntl if matches!(second, F_SETLKW | F_OFD_SETLKW) => {
                WaitSubject::FileLock(descriptor)
            }
            libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => WaitSubject::Epoll(descriptor),
            // The address of the limit; null for none.
            libc::SYS_ppoll => poll(first, second, third != 0),
            libc::SYS_pselect6 => select(first, second),
            libc::SYS_nanosleep | libc::SYS_clock_nanosleep => WaitSubject::Sleep,
            libc::SYS_rt_sigsuspend | libc::SYS_rt_sigtimedwait => WaitSubject::Signal,
            libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_sync_file_range => WaitSubject::Disk,
            number => of_older_call(number, self.arguments),
        }
    }
}

/// The scope of the mutex for which a futex call waits, if it is one of the C library.
const fn lock(operation: u64, value: u64) -> Option<LockScope> {
    if operation & FUTEX_OPERATION != FUTEX_WAIT || value != TAKEN_WITH_WAITERS {
        return None;
    }
    Some(if operation & FUTEX_PRIVATE == 0 {
        LockScope::Shared
    } else {
        LockScope::Private
    })
}

/// What a call waits for that only x86-64 has.
#[cfg(target_arch = "x86_64")]
fn of_older_call(number: i64, [first, second, third]: [u64; 3]) -> WaitSubject {
    match number {
        libc::SYS_epoll_wait => WaitSubject::Epoll(first as u32 as i32),
        libc::SYS_poll => poll(first, second, third as u32 as i32 >= 0),
        libc::SYS_select => select(first, second),
        libc::SYS_pause => WaitSubject::Signal,
        _ => WaitSubject::Other,
    }
}

/// What a call waits for that only x86-64 has.
#[cfg(not(target_arch = "x86_64"))]
const fn of_older_call(_: i64, _: [u64; 3]) -> WaitSubject {
    WaitSubject::Other
}

const fn poll(address: u64, count: u64, has_limit: bool) -> WaitSubject {
    WaitSubject::Poll {
        address,
        count,
        has_limit,
    }
}

const fn select(count: u64, reads: u64) -> WaitSubject {
    WaitSubject::Select { count, reads }
}

/// The process of an argument; `None` for a group or for any child.
fn child(argument: u64) -> Option<u32> {
    let number = argument as u32 as i32;
    u32::try_from(number).ok().filter(|number| *number > 0)
}

fn waitid(kind: u64, number: u64) -> WaitSubject {
    const PROCESS: u64 = 1;
    const DESCRIPTOR: u64 = 3;
    match kind {
        PROCESS => WaitSubject::Child(child(number)),
        DESCRIPTOR => WaitSubject::ChildOfDescriptor(number as u32 as i32),
        _ => WaitSubject::Child(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(number: i64, arguments: [u64; 3]) -> WaitSubject {
        WaitingCall { number, arguments }.subject()
    }

    #[test]
    fn calls_on_descriptors_have_a_direction() {
        let reads = WaitSubject::Descriptor(5, Direction::Reads);
        let writes = WaitSubject::Descriptor(5, Direction::Writes);
        assert_eq!(subject(libc::SYS_read, [5, 1, 1]), reads);
        assert_eq!(
            subject(libc::SYS_recvmsg, [0xffff_0000_0000_0005, 0, 0]),
            reads
        );
        assert_eq!(subject(libc::SYS_sendto, [5, 1, 1]), writes);
    }

    #[test]
    fn waits_for_children_have_their_number_if_they_name_one() {
        let any = u64::from(u32::MAX);
        assert_eq!(
            subject(libc::SYS_wait4, [7, 0, 0]),
            WaitSubject::Child(Some(7))
        );
        assert_eq!(
            subject(libc::SYS_wait4, [any, 0, 0]),
            WaitSubject::Child(None)
        );
        assert_eq!(
            subject(libc::SYS_waitid, [0, 0, 0]),
            WaitSubject::Child(None)
        );
        assert_eq!(
            subject(libc::SYS_waitid, [1, 9, 0]),
            WaitSubject::Child(Some(9))
        );
        assert_eq!(
            subject(libc::SYS_waitid, [3, 4, 0]),
            WaitSubject::ChildOfDescriptor(4)
        );
    }

    #[test]
    fn a_lock_of_the_c_library_is_told_from_other_words() {
        let word = |operation, value| subject(libc::SYS_futex, [64, operation, value]);
        let scope = |subject| match subject {
            WaitSubject::Word { lock, .. } => lock,
            _ => None,
        };
        assert_eq!(scope(word(128, 2)), Some(LockScope::Private));
        assert_eq!(scope(word(0, 2)), Some(LockScope::Shared));
        assert_eq!(
            scope(word(137, 2)),
            None,
            "a lock of Rust's standard library"
        );
        assert_eq!(scope(word(128, 0)), None, "a word of another kind");
    }

    #[test]
    fn only_the_command_that_waits_for_a_lock_is_a_lock() {
        assert_eq!(
            subject(libc::SYS_fcntl, [3, F_SETLKW, 0]),
            WaitSubject::FileLock(3)
        );
        assert_eq!(subject(libc::SYS_fcntl, [3, 1, 0]), WaitSubject::Other);
    }
}
