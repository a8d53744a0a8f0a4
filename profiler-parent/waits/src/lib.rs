//! For whom a thread of another process waits.
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
//! Used by the session's reader of observed programs, which looks at waiting threads. A module
//! imports only from modules in lower layers:
//!
//! | layer | module | holds |
//! |---|---|---|
//! | 1 | `call` | what a system call waits for, by its arguments |
//! | 1 | `object` | the object that a descriptor refers to |
//! | 1 | `target` | what a thread waits for, and who can end the wait |
//! | 1 | `members` | the descriptors in lists and sets of a call |
//! | 1 | `tasks` | threads and children of a process |
//! | 1 | `unix_sockets`, `tcp`, `file_locks` | the system's lists of sockets and locks |
//! | 2 | `ends` | which processes hold a pipe or a socket |
//! | 3 | `resolver` | finds the holders, with limits on the number of look-ups |
//!
//! Invariants: nothing is changed in any process; any bytes of the system's files are accepted; the
//! number of descriptors that are looked at is limited.

#![cfg(target_os = "linux")]

mod call;
mod ends;
mod file_locks;
mod members;
mod object;
mod resolver;
mod target;
mod tasks;
mod tcp;
mod unix_sockets;

pub use call::{Direction, WaitSubject, WaitingCall};
pub use members::ReadMemory;
pub use object::WaitObject;
pub use resolver::WaitResolver;
pub use target::{Holders, WaitKind, WaitTarget};
