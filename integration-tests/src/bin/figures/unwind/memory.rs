//! The memory of the thread that is asked: its stack, the stack that its handlers run on, and caches that are emptied.

#![allow(unsafe_code)]

use std::hint::black_box;
use std::mem::MaybeUninit;

use anyhow::{Result, ensure};

/// More than any cache that a core shares with others.
const CACHES: usize = 96 << 20;
const LINE: usize = 64;
const ROOM: usize = 128 * 1024;
const PAINT: u8 = 0xa5;

/// The upper end of the calling thread's stack. Not for the main thread.
pub(super) fn own_stack_end() -> Result<u64> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: has no arguments and cannot fail.
    let own = unsafe { libc::pthread_self() };
    // SAFETY: asks for the calling thread, into memory that lives through the call.
    let failed = unsafe { libc::pthread_getattr_np(own, attributes.as_mut_ptr()) };
    ensure!(failed == 0, "pthread_getattr_np");
    let (mut lowest, mut len) = (std::ptr::null_mut(), 0);
    // SAFETY: the call before has initialised the attributes.
    unsafe { libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut len) };
    // SAFETY: initialised, and not used after this.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    Ok(lowest as u64 + len as u64)
}

/// Goes through so much memory that nothing else is left in the caches.
pub(super) fn empty_caches(room: &mut Vec<u8>) {
    room.resize(CACHES, 1);
    for at in (0..room.len()).step_by(LINE) {
        room[at] = room[at].wrapping_add(1);
    }
    black_box(room);
}

/// A stack for the handlers of the calling thread, painted, so that what they took of it can be seen.
pub(super) struct HandlerStack {
    room: Vec<u8>,
    before: libc::stack_t,
}

impl HandlerStack {
    pub(super) fn install() -> Result<Self> {
        let mut room = vec![PAINT; ROOM];
        let stack = libc::stack_t { ss_sp: room.as_mut_ptr().cast(), ss_flags: 0, ss_size: ROOM };
        let mut before = MaybeUninit::<libc::stack_t>::zeroed();
        // SAFETY: the room lives until `used` has put the one before back.
        let failed = unsafe { libc::sigaltstack(&raw const stack, before.as_mut_ptr()) };
        ensure!(failed == 0, "sigaltstack");
        // SAFETY: written by the call.
        let before = unsafe { before.assume_init() };
        Ok(Self { room, before })
    }

    /// Takes it away again; says how much of it was used.
    pub(super) fn used(self) -> usize {
        // SAFETY: puts back what was there, for the same thread.
        unsafe { libc::sigaltstack(&raw const self.before, std::ptr::null_mut()) };
        let untouched = self.room.iter().take_while(|byte| **byte == PAINT).count();
        self.room.len() - untouched
    }
}
