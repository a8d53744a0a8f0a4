//! Finds which process a thread of another process waits for.
//!
//! The system shows the call in which a thread waits, with its arguments. A descriptor among them
//! leads to an object, and the object to the processes that hold its other end. Everything is read
//! from `/proc` and from the system's list of sockets, which needs no right over processes of the
//! same user. Linux only.
//!
//! ```text
//! WaitingCall ──▶ WaitSubject ──▶ WaitObject ──▶ Holders
//!   call            call.rs         object.rs      ends.rs, unix_sockets.rs, tcp.rs, file_locks.rs
//! ```
//!
//! Used by the session: by its reader of observed programs, which looks at waiting threads, and for
//! the questions of processes that record themselves. The README lists the modules.
//!
//! Invariants: no process is changed; any bytes of the system's files are accepted; the number of
//! descriptors that are looked at is limited.

#![cfg(target_os = "linux")]

mod call;
mod clock;
mod confirm;
mod deadlock;
mod ends;
mod file_locks;
mod members;
mod object;
mod read_pause;
mod resolver;
mod target;
mod tasks;
mod tcp;
mod unix_sockets;

pub use call::{Direction, LockScope, WaitSubject, WaitingCall};
pub use confirm::{are_stuck, program_threads};
pub use deadlock::{Blocker, ThreadKey, cycle, depended_on, stuck_threads};
pub use members::ReadMemory;
pub use object::WaitObject;
pub use resolver::WaitResolver;
pub use target::{Holders, WaitKind, WaitTarget};
pub use tasks::thread_of;
