//! Packet sockets that a child inherits or connects. Used by [`crate::transport::inherited`] and
//! [`crate::transport::joining`]. `linux` implements them, `portable` reports that they are not
//! supported.

#[cfg(all(target_os = "linux", not(profiler_portable)))]
#[path = "linux.rs"]
mod imp;

#[cfg(not(all(target_os = "linux", not(profiler_portable))))]
#[path = "portable.rs"]
mod imp;

#[cfg_attr(
    not(all(target_os = "linux", not(profiler_portable))),
    allow(dead_code)
)]
mod closing;

pub(crate) use closing::Closer;
pub(crate) use imp::PacketSocket;

/// The result of a wait for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(all(target_os = "linux", not(profiler_portable))),
    allow(dead_code)
)]
pub(crate) enum Packet {
    /// The other side is gone and all data was received.
    Closed,
    /// A complete packet, from the process of this number; 0 for a process that is not visible from
    /// this one.
    Whole {
        /// Length in bytes.
        length: usize,
        /// The process that sent it.
        sender: u32,
    },
    /// A packet that is larger than the room for it.
    TooLarge,
    /// A packet with attached data; the packet is lost.
    Attached,
}
