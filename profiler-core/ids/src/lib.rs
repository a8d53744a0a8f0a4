//! Newtypes for every number that crosses a boundary: process, module, file or channel.
//!
//! Used by all crates. Invariant: no function outside this file turns one kind of number into
//! another without naming both kinds.

use std::fmt;

macro_rules! number {
    ($(#[$meta:meta])* $name:ident($inner:ty)) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(transparent))]
        pub struct $name($inner);

        impl $name {
            /// Wraps the bare number.
            pub const fn new(value: $inner) -> Self {
                Self(value)
            }

            /// The bare number.
            pub const fn get(self) -> $inner {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number! {
    /// The operating system's process number. Reused over time: identity is [`ProcessKey`].
    ProcessId(u32)
}
number! {
    /// The operating system's thread number, unique on the machine at one instant.
    ThreadId(u64)
}
number! {
    /// The operating system's user number.
    UserId(u32)
}
number! {
    /// When a process started, in the kernel's clock ticks since boot (0 where unknown).
    #[doc(hidden)]
    ProcessStart(u64)
}
number! {
    /// 128 random bits drawn by the pool's creator; distinguishes two processes with the same pid.
    #[doc(hidden)]
    PoolId(u128)
}
number! {
    /// One run of a machine from start to shutdown (0 where unknown): clocks that count from the
    /// start are not comparable between runs.
    #[doc(hidden)]
    BootId(u128)
}
number! {
    /// The row of a thread in its pool's thread table. Row 0 stands for the process itself.
    #[doc(hidden)]
    ThreadIndex(u32)
}
number! {
    /// The row of a chunk in its pool's chunk directory.
    #[doc(hidden)]
    ChunkIndex(u32)
}
number! {
    /// The row of a counter in its pool's counter table.
    #[doc(hidden)]
    CounterIndex(u32)
}
number! {
    /// The row of a group in its pool's group table.
    #[doc(hidden)]
    GroupIndex(u32)
}
number! {
    /// The position of a definition in its pool's definitions region, in 8-byte words, plus one; 0
    /// means "none". Valid for the life of the pool.
    DefinitionId(u32)
}
number! {
    /// An upper limit in bytes.
    ByteLimit(u64)
}

impl ByteLimit {
    /// A limit of this number of mebibytes (1,048,576 bytes).
    pub const fn mib(mebibytes: u32) -> Self {
        Self((mebibytes as u64) << 20)
    }
}

/// Converts a number of bytes. There is no conversion from `i32`, the type of a literal without a
/// suffix: `4 << 30` would be 0.
impl From<u64> for ByteLimit {
    fn from(bytes: u64) -> Self {
        Self(bytes)
    }
}

/// Converts a number of bytes.
impl From<usize> for ByteLimit {
    fn from(bytes: usize) -> Self {
        Self(bytes as u64)
    }
}

impl DefinitionId {
    /// "No definition".
    pub const NONE: Self = Self(0);

    /// Whether this is [`DefinitionId::NONE`].
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl ThreadIndex {
    /// The row for data of the process that belongs to no thread.
    pub const PROCESS: Self = Self(0);
}

/// The identity of a process. A later process with the same pid has a different key.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ProcessKey {
    /// Process number.
    pub pid: ProcessId,
    /// Start time of the process.
    pub start: ProcessStart,
    /// Random number of its pool.
    pub pool: PoolId,
}

impl fmt::Display for ProcessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.pid, self.start)
    }
}
