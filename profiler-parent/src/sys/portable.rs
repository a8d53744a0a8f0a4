//! Every other system: nothing is inherited, and children are asked at intervals.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::{Reaped, Woken};

/// Whether a child can inherit a descriptor.
pub(crate) const INHERITS: bool = false;

/// Reads at a position, leaving the file's offset alone.
#[cfg(unix)]
pub(crate) fn read_at(file: &File, room: &mut [u8], position: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, room, position)
}

/// Reads at a position. Moves the offset of this handle, which is not the child's.
#[cfg(windows)]
pub(crate) fn read_at(file: &File, room: &mut [u8], position: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, room, position)
}

/// How many open files this process may have, at least.
pub(crate) const fn descriptor_limit() -> u64 {
    256
}

/// Not known here: a process that is on its way out is one that runs.
pub(crate) const fn is_ending(_: u32) -> bool {
    false
}

/// Descriptors are not inherited here.
pub(crate) fn copy_for_child(_: &File) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Descriptors are not inherited here.
pub(crate) fn inherit(_: &mut Command, files: Vec<File>) -> io::Result<()> {
    if files.is_empty() { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}

/// Never made here: children are asked through the standard library.
#[derive(Debug)]
pub(crate) enum ChildHandle {}

impl ChildHandle {
    /// None.
    pub(crate) fn open(_: &Child) -> Option<Self> {
        None
    }

    /// Never called.
    pub(crate) fn is_ours(&self) -> bool {
        match *self {}
    }

    /// Never called.
    pub(crate) fn signal(&self, _: i32) -> io::Result<()> {
        match *self {}
    }

    /// Never called.
    pub(crate) fn reap(&self) -> Reaped {
        match *self {}
    }
}

/// Wakes the one thread that waits on it.
#[derive(Debug, Default)]
pub(crate) struct Waker {
    rung: Mutex<bool>,
    change: Condvar,
}

impl Waker {
    /// A bell that has not been rung.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self::default())
    }

    /// Ends the present wait, or the next.
    pub(crate) fn ring(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.change.notify_one();
    }

    /// Always true: the program cannot close it.
    pub(crate) fn is_ours(&self) -> bool {
        true
    }

    /// Waits until the bell rings or the time is over. Never reports that a child has ended.
    pub(crate) fn wait(&self, _: &[Arc<ChildHandle>], timeout: Duration) -> Woken {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.change.wait_timeout_while(rung, timeout, |rung| !*rung);
        let mut rung = waited.unwrap_or_else(PoisonError::into_inner).0;
        Woken { rung: std::mem::take(&mut *rung), children: Vec::new() }
    }
}

/// Opens a file for reading if it is a regular one. Never waits for the writer of a FIFO.
pub(crate) fn open_regular(path: &Path) -> io::Result<Option<profiler_core::internal::sys::ForeignFile>> {
    if !std::fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let file = options.open(path)?;
    // Another file may have replaced it at the same path.
    let is_file = file.metadata()?.is_file();
    Ok(is_file.then(|| file.into()))
}

/// A path as a file on disk has it.
pub(crate) fn path_of(name: &[u8]) -> PathBuf {
    String::from_utf8_lossy(name).into_owned().into()
}

/// Not known here.
pub(crate) fn is_stopped(_: profiler_core::ids::ProcessId) -> bool {
    false
}

/// Not known here.
#[cfg(feature = "live")]
pub(crate) fn usage(_: profiler_core::ids::ProcessId) -> Option<super::Usage> {
    None
}

/// Other systems have none.
pub(crate) fn vdso_image() -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}
