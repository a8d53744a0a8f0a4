//! What a thread waits for, and who can end the wait.
//!
//! Made by `resolver`; its users show it.

/// The kind of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitKind {
    /// A pipe, with a name or without.
    Pipe,
    /// A unix socket.
    UnixSocket,
    /// A connection of TCP.
    Tcp,
    /// A socket of another family.
    Socket,
    /// The end of a process.
    Process,
    /// A mutex of the C library.
    Mutex,
    /// A word of memory that another thread changes.
    Word,
    /// A lock on a file.
    FileLock,
    /// A counter of events.
    EventCounter,
    /// Several descriptors.
    Events,
    /// A period of time.
    Sleep,
    /// A signal.
    Signal,
    /// A terminal.
    Terminal,
    /// A file, a disk or a device.
    File,
    /// Another wait, or one that the system does not show.
    Other,
}

impl WaitKind {
    /// The name of the kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pipe => "pipe",
            Self::UnixSocket => "unix socket",
            Self::Tcp => "TCP",
            Self::Socket => "socket",
            Self::Process => "process",
            Self::Mutex => "mutex",
            Self::Word => "futex",
            Self::FileLock => "file lock",
            Self::EventCounter => "eventfd",
            Self::Events => "events",
            Self::Sleep => "sleep",
            Self::Signal => "signal",
            Self::Terminal => "terminal",
            Self::File => "file",
            Self::Other => "unknown",
        }
    }
}

/// Who can end a wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Holders {
    /// These processes, ascending; not empty.
    Processes(Vec<u32>),
    /// A thread, by its number as its process sees it.
    Thread(u32),
    /// A process on another machine, or in another network namespace, by its address.
    Address(String),
    /// Another process, which is not recorded or does not show its descriptors.
    NotRecorded,
    /// No process: time, a disk.
    NoProcess,
    /// This cannot be known.
    Unknown,
}

/// What a thread waits for, and for whom.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WaitTarget {
    /// The kind of the wait.
    pub kind: WaitKind,
    /// Who can end it.
    pub holders: Holders,
    /// All processes that are able to end it. Of these, `holders` has those that were seen to use
    /// the object.
    pub able: Vec<u32>,
}

impl WaitTarget {
    pub(crate) const fn new(kind: WaitKind, holders: Holders) -> Self {
        Self {
            kind,
            holders,
            able: Vec::new(),
        }
    }
}
