//! Packet sockets that a child inherits. `linux` has them, `portable` says that there are none.

#[cfg(all(target_os = "linux", not(profiler_portable)))]
#[path = "linux.rs"]
mod imp;

#[cfg(not(all(target_os = "linux", not(profiler_portable))))]
#[path = "portable.rs"]
mod imp;

pub(crate) use imp::PacketSocket;

/// What came of waiting for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(all(target_os = "linux", not(profiler_portable))), allow(dead_code))]
pub(crate) enum Packet {
    /// The other side is gone and nothing is left.
    Closed,
    /// A packet, all of it, from the process of this number; 0 for one that cannot be seen from here.
    Whole {
        /// Bytes of it.
        length: usize,
        /// The process that sent it.
        sender: u32,
    },
    /// A packet that there is no room for.
    TooLarge,
    /// A packet with anything attached to it; that is gone.
    Attached,
}
