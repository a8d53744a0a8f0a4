//! The socket on which a parent waits for one child that uses ipc-channel, and the guard that
//! checks what it accepts.
//!
//! Used by [`crate::transport::ipc_channel`]. `linux` creates the socket and accepts the connection
//! itself; `portable` leaves both to ipc-channel and checks nothing.

#[cfg(all(target_os = "linux", not(profiler_portable)))]
#[path = "linux.rs"]
mod imp;

#[cfg(not(all(target_os = "linux", not(profiler_portable))))]
#[path = "portable.rs"]
mod imp;

use std::os::fd::RawFd;

use ipc_channel::ipc::IpcReceiver;
use profiler_sys::OwnDescriptor;

pub(crate) use imp::{Connection, Guard, HangUp, ListeningSocket};

/// A connection that is ready to be received from.
pub(crate) struct Opened<T> {
    pub(crate) packets: OwnDescriptor<IpcReceiver<T>>,
    /// The first packet, on systems where it cannot be checked before it is received.
    pub(crate) first: Option<T>,
    pub(crate) guard: Option<Guard>,
}

/// The result of comparing a packet with its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(all(target_os = "linux", not(profiler_portable))),
    allow(dead_code)
)]
pub(crate) enum Peek {
    /// The other side is gone and all data was received.
    Closed,
    /// One whole packet of ipc-channel.
    Whole {
        /// Length of its content in bytes.
        length: usize,
        /// Whether descriptors are attached to it.
        attached: bool,
    },
    /// Anything else.
    Foreign,
}

/// A sender or receiver of ipc-channel. These types panic when their descriptor cannot be closed,
/// and close any file that has their number, so this type holds them.
pub(crate) fn own_channel<T: std::fmt::Debug>(channel: T) -> OwnDescriptor<T> {
    let number = socket_number(&format!("{channel:?}"));
    OwnDescriptor::of_number(channel, number)
}

/// The number of the socket inside, which ipc-channel only shows in its debug text. `None` if that
/// text has another form.
fn socket_number(text: &str) -> Option<RawFd> {
    let receiver = "IpcReceiver { os_receiver: OsIpcReceiver { fd: Cell { value: ";
    let sender = "IpcSender { os_sender: OsIpcSender { fd: SharedFileDescriptor(";
    let after = text
        .strip_prefix(receiver)
        .or_else(|| text.strip_prefix(sender))?;
    let (digits, _) = after.split_once([' ', ')'])?;
    digits.parse().ok()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_socket_of_a_channel_is_found() {
        let (sender, receiver) = ipc_channel::ipc::channel::<u64>().unwrap();
        let sender = own_channel(sender);
        let receiver = own_channel(receiver);
        let one = sender.number().unwrap();
        let other = receiver.number().unwrap();
        assert_ne!(one, other);
        for number in [one, other] {
            let target = std::fs::read_link(format!("/proc/self/fd/{number}"));
            assert!(target.is_ok_and(|target| target.to_string_lossy().starts_with("socket:")));
        }
    }
}
