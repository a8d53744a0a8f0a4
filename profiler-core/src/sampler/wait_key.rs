//! What tells waits of this process apart, as far as that is known without looking at other
//! processes.
//!
//! Used by `own_waits`. The sampler assumes that two waits with the same key have the same holder
//! for the time that [`name_lasts`] returns. Opens no descriptor and waits for no file system.

use std::time::Duration;

use profiler_sys::FileIdentity;

use crate::ids::ThreadId;
use crate::sys::native::memory::OwnMemory;
use crate::sys::native::tasks::{self, Wait};

/// How long the name of an object is taken as true.
const NAME_LASTS: Duration = Duration::from_secs(1);
/// The same for a wait whose holder may change although the call is the same: for any child, for a
/// set of descriptors, for a lock on a file.
const PASSING_NAME_LASTS: Duration = Duration::from_millis(100);
/// The highest number of a descriptor. A higher argument is an address.
const MAX_DESCRIPTOR: u64 = 1 << 20;
/// The offset of the owner's number from the lock word of a mutex of glibc.
const OWNER_AT: u64 = 8;
/// The bits of the second argument of futex(2) that select the operation; 0 is a wait.
const FUTEX_OPERATION: u64 = 0x7f;
/// The value of a mutex of the C library that is locked and has waiters.
const TAKEN_WITH_WAITERS: u64 = 2;
/// The bytes of a row of `poll`, and the number of rows that are read.
const ROW_BYTES: u64 = 8;
const MAX_ROWS: u64 = 16;
/// The number of descriptors in the sets of `select`.
const SET_BITS: u64 = 1024;

/// Calls that no process ends, or whose holder cannot be found.
const OTHER_CALLS: [i64; 6] = [
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
];

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum WaitKey {
    /// A call on a descriptor: the number, and what it refers to at present.
    Descriptor {
        call: i64,
        descriptor: u64,
        file: FileIdentity,
    },
    /// Any other call, of one thread.
    Call {
        thread: ThreadId,
        call: i64,
        first: u64,
        second: u64,
        /// The owner of the lock, if the call waits for one.
        owner: u32,
    },
}

/// Memory to which the arguments of a call point.
#[derive(Clone, Debug, Default)]
pub(super) struct CallMemory {
    pub(super) address: u64,
    pub(super) bytes: Vec<u8>,
}

/// Whether a process or a thread may be known that can end a wait.
pub(super) fn may_have_holder(wait: Wait) -> bool {
    wait.is_in_a_call()
        && !OTHER_CALLS.contains(&wait.call)
        && (wait.call != libc::SYS_futex || is_mutex(wait))
}

/// Whether a wait may be for a mutex of the C library, which contains its owner's number. Other
/// words contain no owner.
fn is_mutex(wait: Wait) -> bool {
    let [_, operation, value] = wait.arguments;
    operation & FUTEX_OPERATION == 0 && value == TAKEN_WITH_WAITERS
}

/// The key of a wait.
pub(super) fn key_of(thread: ThreadId, wait: Wait, memory: &OwnMemory) -> WaitKey {
    let [first, second, _] = wait.arguments;
    let call = wait.call;
    let is_descriptor = has_descriptor(call) && first <= MAX_DESCRIPTOR;
    let number = i32::try_from(first).ok().filter(|_| is_descriptor);
    // The first argument may equal a descriptor's number by chance, for example in `semop`. Such a
    // call has no known holder, so the wrong key does no harm.
    if let Some(file) = number.and_then(|number| tasks::file_of(thread, number)) {
        return WaitKey::Descriptor {
            call,
            descriptor: first,
            file,
        };
    }
    WaitKey::Call {
        thread,
        call,
        first,
        second,
        owner: owner(wait, memory),
    }
}

fn owner(wait: Wait, memory: &OwnMemory) -> u32 {
    let mut room = [0; 4];
    let [address, ..] = wait.arguments;
    let is_read = wait.call == libc::SYS_futex
        && memory.read(address.wrapping_add(OWNER_AT), &mut room) == room.len();
    if is_read { u32::from_ne_bytes(room) } else { 0 }
}

/// The memory that the session needs to know what a call waits for. The session does not read the
/// memory of a process that records itself.
pub(super) fn memory_of(wait: Wait, memory: &OwnMemory) -> CallMemory {
    let [first, second, _] = wait.arguments;
    let (address, length) = match wait.call {
        libc::SYS_futex => (first.wrapping_add(OWNER_AT), size_of::<u32>() as u64),
        call if is_poll(call) => (first, second.min(MAX_ROWS) * ROW_BYTES),
        call if is_select(call) => (second, first.min(SET_BITS).div_ceil(64) * 8),
        _ => return CallMemory::default(),
    };
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    let read = if address == 0 {
        0
    } else {
        memory.read(address, &mut bytes)
    };
    bytes.truncate(read);
    CallMemory { address, bytes }
}

/// How long the name of a wait is taken as true.
pub(super) fn name_lasts(key: &WaitKey) -> Duration {
    let (WaitKey::Descriptor { call, .. } | WaitKey::Call { call, .. }) = key;
    if is_passing(*call) {
        PASSING_NAME_LASTS
    } else {
        NAME_LASTS
    }
}

/// Whether a call may wait for a lock on a file.
pub(super) fn is_file_lock(call: i64) -> bool {
    [libc::SYS_flock, libc::SYS_fcntl].contains(&call)
}

/// Whether the first argument of a call may be a descriptor.
fn has_descriptor(call: i64) -> bool {
    let others = [libc::SYS_futex, libc::SYS_wait4, libc::SYS_waitid];
    !others.contains(&call) && !is_poll(call) && !is_select(call)
}

/// Whether the holder of a wait may change although call and arguments are the same.
fn is_passing(call: i64) -> bool {
    let children = [libc::SYS_wait4, libc::SYS_waitid];
    is_file_lock(call)
        || children.contains(&call)
        || is_poll(call)
        || is_select(call)
        || is_epoll(call)
}

#[cfg(target_arch = "x86_64")]
fn is_poll(call: i64) -> bool {
    [libc::SYS_poll, libc::SYS_ppoll].contains(&call)
}

#[cfg(not(target_arch = "x86_64"))]
fn is_poll(call: i64) -> bool {
    call == libc::SYS_ppoll
}

#[cfg(target_arch = "x86_64")]
fn is_select(call: i64) -> bool {
    [libc::SYS_select, libc::SYS_pselect6].contains(&call)
}

#[cfg(not(target_arch = "x86_64"))]
fn is_select(call: i64) -> bool {
    call == libc::SYS_pselect6
}

#[cfg(target_arch = "x86_64")]
fn is_epoll(call: i64) -> bool {
    [
        libc::SYS_epoll_wait,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
    ]
    .contains(&call)
}

#[cfg(not(target_arch = "x86_64"))]
fn is_epoll(call: i64) -> bool {
    [libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2].contains(&call)
}
